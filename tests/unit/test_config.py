"""The worker's settings and where they come from."""

import argparse
import dataclasses
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.config import SETTINGS, merge, shown_default
from kiqbridge.errors import ConfigError
from kiqbridge.settings_file import parse, read_file
from kiqbridge.worker_command import add_arguments, load_config


def merged(file=None, environ=None, warn=lambda _message: None, **flags):
    return merge(file=file, file_name="worker.yml", environ=environ or {}, flags=flags, warn=warn)


def from_yaml(text, **more):
    return merged(parse(text, "worker.yml"), **more)


class TestPrecedence:
    @pytest.mark.parametrize(
        ("layers", "value", "source"),
        [
            ({}, 10, "default"),
            ({"file": {"concurrency": 2}}, 2, "worker.yml"),
            (
                {"file": {"concurrency": 2}, "environ": {"KIQBRIDGE_CONCURRENCY": "3"}},
                3,
                "KIQBRIDGE_CONCURRENCY",
            ),
            (
                {
                    "file": {"concurrency": 2},
                    "environ": {"KIQBRIDGE_CONCURRENCY": "3"},
                    "concurrency": 4,
                },
                4,
                "-c",
            ),
        ],
    )
    def test_a_later_layer_wins_and_is_remembered(self, layers, value, source):
        config = merged(**layers)

        assert config.concurrency == value
        assert config.sources["concurrency"] == source

    def test_an_empty_variable_or_file_value_says_nothing(self):
        config = merged({"concurrency": None}, {"KIQBRIDGE_CONCURRENCY": ""})

        assert config.concurrency == 10

    def test_queues_given_as_flags_replace_those_of_the_file(self):
        assert merged({"queues": ["a", "b"]}, queues=["c,2"]).queues == (("c", 2),)

    @given(*[st.one_of(st.none(), st.integers(1, 99)) for _ in range(3)])
    def test_the_value_is_always_that_of_the_strongest_layer_that_has_one(self, file, env, flag):
        config = merged(
            {"concurrency": file} if file else {},
            {"KIQBRIDGE_CONCURRENCY": str(env)} if env else {},
            **({"concurrency": flag} if flag else {}),
        )

        assert config.concurrency == (flag or env or file or 10)

    def test_every_setting_has_a_default_that_is_valid(self):
        config = merged()

        assert set(config.sources) == {setting.name for setting in SETTINGS}
        assert set(config.sources.values()) == {"default"}
        assert config.queues == (("default", 0),)
        assert (config.timeout_s, config.recover_after_s, config.max_retries) == (25, 30, 25)
        assert (config.dead_max_jobs, config.dead_timeout_s) == (10_000, 15_552_000)

    def test_no_two_settings_share_a_variable_or_a_flag(self):
        names = [name for setting in SETTINGS for name in (*setting.env, *setting.flags)]

        assert len(set(names)) == len(names)


class TestLogging:
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


class TestSources:
    def test_every_value_of_every_layer_knows_where_it_came_from(self):
        config = merged(
            {"timeout": 5, "max_retries": 3, "production": {"tag": "shop", "timeout": 6}},
            {"KIQBRIDGE_CONCURRENCY": "3", "APP_ENV": "production", "REDIS_URL": "redis://a"},
            queues=["a"],
            log_level="debug",
        )

        assert {name: source for name, source in config.sources.items() if source != "default"} == {
            "timeout_s": "worker.yml",
            "max_retries": "worker.yml",
            "tag": "worker.yml",
            "concurrency": "KIQBRIDGE_CONCURRENCY",
            "environment": "APP_ENV",
            "redis_url": "REDIS_URL",
            "queues": "-q",
            "log_level": "--log-level",
        }

    def test_a_provider_is_the_source_of_the_address(self):
        environ = {"REDIS_PROVIDER": "MY_REDIS", "MY_REDIS": "redis://b", "REDIS_URL": "redis://a"}

        config = merged({"redis_url": "redis://c"}, environ)

        assert (config.redis_url, config.sources["redis_url"]) == ("redis://b", "MY_REDIS")

    def test_the_files_address_counts_where_the_environment_has_none(self):
        config = merged({"redis_url": "redis://c"})

        assert (config.redis_url, config.sources["redis_url"]) == ("redis://c", "worker.yml")

    def test_nothing_can_be_changed_afterwards(self):
        config = merged()

        with pytest.raises(dataclasses.FrozenInstanceError):
            config.concurrency = 1
        with pytest.raises(TypeError):
            config.sources["concurrency"] = "me"
        assert all(isinstance(hash(getattr(config, name)), int) for name in config.sources)


class TestCommandLine:
    def loaded(self, *args, environ=None):
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        config, _ = load_config(parser.parse_args(args), environ or {})
        return config

    @pytest.mark.parametrize(
        ("args", "name", "value"),
        [
            (["-q", "a,2", "--queue", "b"], "queues", (("a", 2), ("b", 0))),
            (["-c", "3"], "concurrency", 3),
            (["-t", "1.5"], "timeout_s", 1.5),
            (["-r", "a", "-r", "b.py"], "require", ("a", "b.py")),
            (["-e", "production"], "environment", "production"),
            (["-g", "shop"], "tag", "shop"),
            (["--log-level", "error"], "log_level", "error"),
        ],
    )
    def test_each_flag_sets_its_value_and_is_its_source(self, args, name, value):
        config = self.loaded(*args)

        assert getattr(config, name) == value
        assert config.sources[name] == args[0]

    @pytest.mark.parametrize("flag", ["-v", "--verbose"])
    def test_a_switch_stands_for_a_level(self, flag):
        assert self.loaded(flag).log_level == "debug"
        assert self.loaded("--log-level", "error", flag).log_level == "debug"
        assert self.loaded(flag, "--log-level", "error").log_level == "error"

    def test_help_tells_each_flag_with_its_default_and_variables(self):
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        told = " ".join(parser.format_help().split())

        for setting in SETTINGS:
            if setting.flags:
                assert f"{setting.help} (default: {shown_default(setting)})" in told
                assert all(name in told for name in (*setting.flags, *setting.env))

    def test_queues_of_the_environment_stand_between_blanks(self):
        config = self.loaded(environ={"KIQBRIDGE_QUEUES": " critical,3  default "})

        assert config.queues == (("critical", 3), ("default", 0))
        assert config.sources["queues"] == "KIQBRIDGE_QUEUES"


class TestFile:
    def test_sidekiqs_own_file_is_read(self):
        config = from_yaml(
            """
            :verbose: false
            :concurrency: 12
            :timeout: 20
            :tag: myapp
            :labels: [blue]
            :max_retries: 5
            :queues:
              - critical
              - [default, 2]
              - low,1
            """
        )

        assert config.queues == (("critical", 0), ("default", 2), ("low", 1))
        assert (config.concurrency, config.timeout_s, config.max_retries) == (12, 20, 5)
        assert (config.tag, config.labels) == ("myapp", ("blue",))

    def test_symbols_are_texts_wherever_they_stand(self):
        text = """
        :a: :b
        ":c": ":d"
        :"e f": :'g h'
        x:
          - :y
          - ":z"
          - - one
            - :two
          - :deep:
              :deeper: :deepest
        !ruby/symbol i: !ruby/sym j
        "k": "::A"
        """

        assert parse(text, "worker.yml") == {
            "a": "b",
            ":c": ":d",
            "e f": "g h",
            "x": ["y", ":z", ["one", "two"], {"deep": {"deeper": "deepest"}}],
            "i": "j",
            "k": "::A",
        }

    @pytest.mark.parametrize(
        "queues",
        [
            "[critical, [default, 2], 'low,1', [last]]",
            "\n  - :critical\n  - - :default\n    - '2'\n  - low, 1\n  - - :last",
            "{critical: 0, default: 2, low: 1, last: 0}",
            "\n  :critical: 0\n  :default: 2\n  :low: 1\n  :last: 0",
        ],
    )
    def test_queues_are_written_in_many_ways(self, queues):
        config = from_yaml(f":queues: {queues}")

        assert config.queues == (("critical", 0), ("default", 2), ("low", 1), ("last", 0))

    def test_aliases_and_merged_mappings_are_followed(self):
        config = from_yaml(
            """
            :common: &common
              :concurrency: 7
              :queues: &queues [[mail, 2]]
            :production:
              <<: *common
              :timeout: 5
            queues: *queues
            """,
            environment="production",
        )

        assert (config.concurrency, config.timeout_s) == (7, 5)
        assert config.queues == (("mail", 2),)

    def test_the_file_may_name_its_environment(self):
        text = ":environment: :staging\nstaging:\n  concurrency: 2\nproduction:\n  concurrency: 3"

        config = from_yaml(text)
        other = from_yaml(text, environment="production")

        assert (config.concurrency, config.environment) == (2, "staging")
        assert config.sources["environment"] == "worker.yml"
        assert (other.concurrency, other.environment) == (3, "production")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b":queues: [a", "is no YAML: "),
            (b"- a\n- b\n", "holds list, not settings; write key: value lines"),
            (b"concurrency: <%= 3 %>", "holds ERB (<% \u2026 %>), which is Ruby"),
            (b"tag: \xff", "cannot be read: "),
            (b"tag: !ruby/object:Foo {}", "is no YAML: could not determine a constructor"),
            (b"a: !!python/object/apply:os.getcwd []", "is no YAML: could not determine"),
        ],
    )
    def test_what_is_no_file_of_settings_is_refused(self, tmp_path, content, message):
        path = tmp_path / "worker.yml"
        path.write_bytes(content)

        with pytest.raises(ConfigError) as refusal:
            read_file(path)

        assert str(refusal.value).startswith(f"{path}: {message}")

    def test_what_other_libraries_teach_the_safe_loader_is_not_known_here(self, monkeypatch):
        anything = {"": lambda _loader, _suffix, _node: "constructed"}
        monkeypatch.setattr(yaml.SafeLoader, "yaml_multi_constructors", anything)

        with pytest.raises(ConfigError, match="could not determine a constructor"):
            from_yaml("tag: !ruby/object:Foo {}")

    def test_an_empty_file_says_nothing(self):
        assert from_yaml("# nothing yet\n") == merged()

    def test_names_may_be_symbols_or_texts(self):
        assert from_yaml("concurrency: 3") == from_yaml(":concurrency: 3")

    @pytest.mark.parametrize(
        "layers", [{"environment": "production"}, {"environ": {"APP_ENV": "production"}}]
    )
    def test_the_section_of_the_environment_is_merged_over_the_top(self, layers):
        text = """
        concurrency: 10
        timeout: 5
        production:
          :concurrency: 25
        staging:
          concurrency: 2
        """

        config = from_yaml(text, **layers)

        assert (config.concurrency, config.timeout_s) == (25, 5)
        assert config.environment == "production"

    def test_the_flag_names_the_environment_before_the_variable(self):
        config = merged(
            {"production": {"concurrency": 25}},
            {"APP_ENV": "production"},
            environment="development",
        )

        assert config.concurrency == 10

    def test_verbose_means_debug(self):
        assert from_yaml(":verbose: true").log_level == "debug"
        assert merged({"verbose": True}, {"KIQBRIDGE_LOG_LEVEL": "error"}).log_level == "error"

    def test_an_unknown_name_is_warned_about_with_a_suggestion(self):
        warnings = []

        merged({"concurency": 3, "wholly_other": 1}, warn=warnings.append)

        assert warnings == [
            "worker.yml: 'concurency' is not a setting of the worker; did you mean concurrency?",
            "worker.yml: 'wholly_other' is not a setting of the worker",
        ]

    def test_what_others_keep_in_the_file_is_left_alone(self):
        warnings = []

        merged(
            {"strict": True, "scheduler": {"a": 1}, "staging": {"concurrency": 1}},
            warn=warnings.append,
        )

        assert warnings == []


def test_the_example_file_has_settings_only():
    example = Path(__file__).parents[2] / "worker" / "kiqbridge.example.yml"
    warnings = []

    config = merge(
        file=read_file(example),
        file_name=example.name,
        environ={"APP_ENV": "production"},
        flags={},
        warn=warnings.append,
    )

    assert warnings == []
    assert (config.concurrency, config.log_format) == (25, "json")
    assert config.queues == (("default", 3), ("mailers", 2), ("low", 0))
