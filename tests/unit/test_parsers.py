"""Parsers of settings: what they take, and messages that name setting, value and source."""

import pytest

from kiqbridge.config.merge import merge
from kiqbridge.errors import ConfigError


def merged(file=None, environ=None, warn=lambda _message: None, **flags):
    return merge(file=file, file_name="worker.yml", environ=environ or {}, flags=flags, warn=warn)


class TestNamesAndSwitches:
    @pytest.mark.parametrize("value", ["tenant, tags", ["tenant", "tags"], "tenant,,tags,"])
    def test_names_are_a_list_or_stand_between_commas(self, value):
        config = merged({"logged_job_attributes": value, "redact": value})

        assert config.logged_job_attributes == config.redact == ("tenant", "tags")

    def test_an_empty_list_means_none(self):
        config = merged({"logged_job_attributes": [], "redact": []})

        assert config.logged_job_attributes == config.redact == ()

    @pytest.mark.parametrize(
        ("value", "meaning"),
        [(True, True), ("true", True), ("1", True), (False, False), ("no", False)],
    )
    def test_a_switch_has_the_usual_words(self, value, meaning):
        assert merged({"skip_default_job_logging": value}).skip_default_job_logging is meaning

    def test_another_word_is_refused(self):
        with pytest.raises(ConfigError, match="'maybe' is neither true nor false"):
            merged(environ={"KIQBRIDGE_SKIP_DEFAULT_JOB_LOGGING": "maybe"})


class TestErrors:
    @pytest.mark.parametrize(
        ("layers", "message"),
        [
            (
                {"file": {"concurrency": 0}},
                "concurrency: 0 is not a whole number from 1 (from worker.yml)",
            ),
            (
                {"environ": {"KIQBRIDGE_CONCURRENCY": "many"}},
                "concurrency: 'many' is not a whole number from 1 (from KIQBRIDGE_CONCURRENCY)",
            ),
            (
                {"concurrency": "1001"},
                (
                    "concurrency: '1001' is more than 1,000 (from -c); each is a thread of one process, which "
                    "uses one processor: run more processes (--processes) or workers, or declare jobs that "
                    "wait as async def"
                ),
            ),
            (
                {"environ": {"KIQBRIDGE_DEAD_ARCHIVE": "s3:///jobs"}},
                "dead_archive: 's3:///jobs' is neither a folder nor s3://BUCKET/PREFIX (from KIQBRIDGE_DEAD_ARCHIVE)",
            ),
            (
                {"file": {"dead_overflow": "grow"}},
                "dead_overflow: 'grow' is not one of drop, keep (from worker.yml)",
            ),
            ({"concurrency": "-1"}, "concurrency: '-1' is not a whole number from 1 (from -c)"),
            (
                {"file": {"concurrency": True}},
                "concurrency: True is not a whole number from 1 (from worker.yml)",
            ),
            ({"timeout_s": "0"}, "timeout: '0' is not a number of seconds above 0 (from -t)"),
            (
                {"file": {"timeout": "soon"}},
                "timeout: 'soon' is not a number of seconds above 0 (from worker.yml)",
            ),
            ({"timeout_s": "nan"}, "timeout: 'nan' is not a number of seconds above 0 (from -t)"),
            (
                {"environ": {"KIQBRIDGE_LOG_FORMAT": "xml"}},
                "log_format: 'xml' is not one of auto, pretty, json, plain (from KIQBRIDGE_LOG_FORMAT)",
            ),
            (
                {"file": {"queues": ["mail,x"]}},
                (
                    "queues: weight 'x' in 'mail,x' is not a whole number (from worker.yml); "
                    "write name,weight such as mail,3"
                ),
            ),
            (
                {"file": {"queues": "mail"}},
                "queues: 'mail' is not a list of queue names (from worker.yml)",
            ),
            (
                {"file": {"queues": []}},
                "queues: [] is not a list of queue names (from worker.yml)",
            ),
            (
                {"file": {"queues": [{"default": 2}]}},
                (
                    "queues: {'default': 2} is not a queue (from worker.yml); write name, or "
                    "name,weight, or [name, weight]"
                ),
            ),
            (
                {"file": {"queues": [["default", 2, 3]]}},
                (
                    "queues: ['default', 2, 3] is not a queue (from worker.yml); write name, or "
                    "name,weight, or [name, weight]"
                ),
            ),
            (
                {"environ": {"KIQBRIDGE_QUEUES": "mail,low"}},
                (
                    "queues: weight 'low' in 'mail,low' is not a whole number (from "
                    "KIQBRIDGE_QUEUES); write name,weight such as mail,3"
                ),
            ),
            (
                {"file": {"capsules": ["single"]}},
                (
                    "capsules: ['single'] is not a mapping of names to concurrency and queues (from "
                    "worker.yml)"
                ),
            ),
            (
                {"file": {"capsules": {"default": {"queues": ["a"]}}}},
                (
                    "capsule default in worker.yml: default is described by queues and concurrency at the top "
                    "level; choose another name"
                ),
            ),
            (
                {"file": {"capsules": {"single": {"concurrency": 1}}}},
                (
                    "capsule single in worker.yml: {'concurrency': 1} names no queues; write concurrency and "
                    "queues below it"
                ),
            ),
            (
                {"file": {"capsules": {"single": {"queues": ["a"], "threads": 2}}}},
                (
                    "capsule single in worker.yml: threads is no setting of a capsule; these are concurrency, "
                    "queues, async_concurrency"
                ),
            ),
            (
                {"file": {"capsules": {"single": {"queues": ["a"], "concurrency": 0}}}},
                "concurrency: 0 is not a whole number from 1 (from capsule single in worker.yml)",
            ),
            (
                {"file": {"fetch": "brpop"}},
                "fetch: 'brpop' is not one of reliable, basic (from worker.yml)",
            ),
            (
                {"file": {"production": 5}, "environment": "production"},
                (
                    "production: 5 is not a section of settings for that environment (from "
                    "worker.yml); write key: value lines below it"
                ),
            ),
            (
                {"file": {"redis_url": ["redis://:s3cret@host"]}},
                "redis_url: a list is not a text (from worker.yml)",
            ),
            (
                {"environ": {"KIQBRIDGE_ECS_PROTECT_AFTER_S": "-1"}},
                (
                    "ecs_protect_after_s: '-1' is not a number of seconds above 0 (from "
                    "KIQBRIDGE_ECS_PROTECT_AFTER_S); 0 = off"
                ),
            ),
            ({"file": {"labels": [None]}}, "labels: a NoneType is not a text (from worker.yml)"),
            (
                {"file": {"max_retries": -1}},
                "max_retries: -1 is not a whole number from 0 (from worker.yml)",
            ),
        ],
    )
    def test_a_message_names_setting_value_and_source(self, layers, message):
        with pytest.raises(ConfigError) as refusal:
            merged(**layers)

        assert str(refusal.value) == message

    @pytest.mark.parametrize(
        ("layers", "source"),
        [
            ({"file": {"profile": 9}}, "worker.yml"),
            ({"environ": {"KIQBRIDGE_WIRE_PROFILE": "9"}}, "KIQBRIDGE_WIRE_PROFILE"),
        ],
    )
    def test_a_wrong_profile_names_its_source_too(self, layers, source):
        with pytest.raises(ConfigError, match=rf"'9' is not a wire profile \(from {source}\)"):
            merged(**layers)

    def test_a_password_does_not_show_in_the_repr_of_sources(self):
        config = merged(environ={"REDIS_URL": "redis://:s3cret@host:6379/0"})

        assert config.sources["redis_url"] == "REDIS_URL"
        assert "sources" not in repr(config)
        assert "s3cret" not in repr(config)
