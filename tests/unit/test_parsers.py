"""Parsers of settings: what they take, and messages that name setting, value and source."""

import pytest

from kiqbridge.config.merge import merge
from kiqbridge.errors import ConfigError


def merged(file=None, environ=None, warn=lambda _message: None, **flags):
    return merge(file=file, file_name="worker.yml", environ=environ or {}, flags=flags, warn=warn)


class TestNamesAndSwitches:
    @pytest.mark.parametrize(
        ("value", "names"),
        [
            ("tenant, tags", ("tenant", "tags")),
            (["tenant", "tags"], ("tenant", "tags")),
            ("tenant,,tags,", ("tenant", "tags")),
            ([], ()),
        ],
    )
    def test_names_are_a_list_or_stand_between_commas(self, value, names):
        config = merged({"logged_job_attributes": value, "redact": value})
        assert config.logged_job_attributes == config.redact == names

    @pytest.mark.parametrize(
        ("value", "meaning"),
        [(True, True), ("true", True), ("1", True), (False, False), ("no", False)],
    )
    def test_a_switch_has_the_usual_words(self, value, meaning):
        assert merged({"skip_default_job_logging": value}).skip_default_job_logging is meaning

    def test_another_word_is_refused(self):
        with pytest.raises(ConfigError, match="'maybe' is neither true nor false"):
            merged(environ={"KIQBRIDGE_SKIP_DEFAULT_JOB_LOGGING": "maybe"})


NO_WEIGHT = "is not a whole number (from {}); write name,weight such as mail,3"
NO_QUEUE = "is not a queue (from worker.yml); write name, or name,weight, or [name, weight]"
NO_CAPSULES = "is not a mapping of names to concurrency and queues (from worker.yml)"
PROFILES = (
    "write 7 (float seconds, read by every Sidekiq), 8 (integer milliseconds, when every reader is "
    "Sidekiq 8) or auto (8 while only Sidekiq 8 or later is seen)"
)


class TestErrors:
    @pytest.mark.parametrize(
        ("file", "message"),
        [
            ({"concurrency": 0}, "concurrency: 0 is not a whole number from 1 (from worker.yml)"),
            ({"concurrency": True}, "concurrency: True is not a whole number from 1 (from worker.yml)"),
            ({"dead_overflow": "grow"}, "dead_overflow: 'grow' is not one of drop, keep (from worker.yml)"),
            ({"timeout": "soon"}, "timeout: 'soon' is not a number of seconds above 0 (from worker.yml)"),
            ({"queues": ["mail,x"]}, f"queues: weight 'x' in 'mail,x' {NO_WEIGHT.format('worker.yml')}"),
            ({"queues": "mail"}, "queues: 'mail' is not a list of queue names (from worker.yml)"),
            ({"queues": []}, "queues: [] is not a list of queue names (from worker.yml)"),
            ({"queues": [{"default": 2}]}, f"queues: {{'default': 2}} {NO_QUEUE}"),
            ({"queues": [["default", 2, 3]]}, f"queues: ['default', 2, 3] {NO_QUEUE}"),
            ({"capsules": ["single"]}, f"capsules: ['single'] {NO_CAPSULES}"),
            (
                {"capsules": {"default": {"queues": ["a"]}}},
                ("capsule default in worker.yml: default is described by queues and concurrency at the top "
                 "level; choose another name"),
            ),
            (
                {"capsules": {"single": {"concurrency": 1}}},
                ("capsule single in worker.yml: {'concurrency': 1} names no queues; write concurrency and "
                 "queues below it"),
            ),
            (
                {"capsules": {"single": {"queues": ["a"], "threads": 2}}},
                ("capsule single in worker.yml: threads is no setting of a capsule; these are concurrency, "
                 "queues, async_concurrency"),
            ),
            (
                {"capsules": {"single": {"queues": ["a"], "concurrency": 0}}},
                "concurrency: 0 is not a whole number from 1 (from capsule single in worker.yml)",
            ),
            ({"fetch": "brpop"}, "fetch: 'brpop' is not one of reliable, basic (from worker.yml)"),
            ({"redis_url": ["redis://:s3cret@host"]}, "redis_url: a list is not a text (from worker.yml)"),
            ({"labels": [None]}, "labels: a NoneType is not a text (from worker.yml)"),
            ({"max_retries": -1}, "max_retries: -1 is not a whole number from 0 (from worker.yml)"),
            ({"profile": 9}, f"profile: '9' is not a wire profile (from worker.yml); {PROFILES}"),
        ],
    )  # fmt: skip
    def test_a_value_of_the_file_is_refused_by_name_and_source(self, file, message):
        with pytest.raises(ConfigError) as refusal:
            merged(file)
        assert str(refusal.value) == message

    @pytest.mark.parametrize(
        ("variable", "value", "message"),
        [
            ("CONCURRENCY", "many", "concurrency: 'many' is not a whole number from 1 (from {})"),
            ("LOG_FORMAT", "xml", "log_format: 'xml' is not one of auto, pretty, json, plain (from {})"),
            ("QUEUES", "mail,low", f"queues: weight 'low' in 'mail,low' {NO_WEIGHT}"),
            ("WIRE_PROFILE", "9", f"profile: '9' is not a wire profile (from {{}}); {PROFILES}"),
            (
                "DEAD_ARCHIVE",
                "s3:///jobs",
                "dead_archive: 's3:///jobs' is neither a folder nor s3://BUCKET/PREFIX (from {})",
            ),
            (
                "ECS_PROTECT_AFTER_S",
                "-1",
                "ecs_protect_after_s: '-1' is not a number of seconds above 0 (from {}); 0 = off",
            ),
        ],
    )  # fmt: skip
    def test_one_of_the_environment_too(self, variable, value, message):
        with pytest.raises(ConfigError) as refusal:
            merged(environ={f"KIQBRIDGE_{variable}": value})
        assert str(refusal.value) == message.format(f"KIQBRIDGE_{variable}")

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (
                {"concurrency": "1001"},
                ("concurrency: '1001' is more than 1,000 (from -c); each is a thread of one process, which "
                 "uses one processor: run more processes (--processes) or workers, or declare jobs that "
                 "wait as async def"),
            ),
            ({"concurrency": "-1"}, "concurrency: '-1' is not a whole number from 1 (from -c)"),
            ({"timeout_s": "0"}, "timeout: '0' is not a number of seconds above 0 (from -t)"),
            ({"timeout_s": "nan"}, "timeout: 'nan' is not a number of seconds above 0 (from -t)"),
            (
                {"file": {"production": 5}, "environment": "production"},
                ("production: 5 is not a section of settings for that environment (from "
                 "worker.yml); write key: value lines below it"),
            ),
        ],
    )  # fmt: skip
    def test_one_of_the_command_line_too(self, flags, message):
        with pytest.raises(ConfigError) as refusal:
            merged(**flags)
        assert str(refusal.value) == message

    def test_a_password_does_not_show_in_the_repr_of_sources(self):
        config = merged(environ={"REDIS_URL": "redis://:s3cret@host:6379/0"})

        assert config.sources["redis_url"] == "REDIS_URL"
        assert "sources" not in repr(config)
        assert "s3cret" not in repr(config)
