"""The merge of all sources into a worker's configuration: flags, environment, and its file."""

import argparse
import dataclasses
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.commands.worker_command import add_arguments, load_config
from kiqbridge.config.config import SETTINGS
from kiqbridge.config.merge import merge
from kiqbridge.config.setting import shown_default
from kiqbridge.config.settings_file import parse, read_file
from kiqbridge.errors import ConfigError
from kiqbridge.wire.dead_bounds import DeadBounds


def merged(file=None, environ=None, warn=lambda _message: None, **flags):
    return merge(file=file, file_name="worker.yml", environ=environ or {}, flags=flags, warn=warn)


class TestPrecedence:
    def test_a_layer_that_says_nothing_leaves_the_one_before_and_a_list_is_replaced(self):
        config = merged({"concurrency": None}, {"KIQBRIDGE_CONCURRENCY": ""})
        assert (config.concurrency, config.sources["concurrency"]) == (10, "default")
        assert merged({"queues": ["a", "b"]}, queues=["c,2"]).queues == (("c", 2),)

    @given(*[st.one_of(st.none(), st.integers(1, 99)) for _ in range(3)])
    def test_the_value_is_always_that_of_the_strongest_layer_that_has_one(self, file, env, flag):
        config = merged(
            {"concurrency": file} if file else {},
            {"KIQBRIDGE_CONCURRENCY": str(env)} if env else {},
            **({"concurrency": flag} if flag else {}),
        )
        assert config.concurrency == (flag or env or file or 10)
        assert config.sources["concurrency"] == (
            (flag and "-c")
            or (env and "KIQBRIDGE_CONCURRENCY")
            or (file and "worker.yml")
            or "default"
        )

    def test_every_setting_has_a_default_that_is_valid(self):
        config = merged()

        assert set(config.sources) == {setting.name for setting in SETTINGS}
        assert set(config.sources.values()) == {"default"}
        assert config.queues == (("default", 0),)
        assert (config.timeout_s, config.recover_after_s, config.max_retries) == (25, 30, 25)
        assert config.dead_bounds == DeadBounds(10_000, 15_552_000, is_kept=False)


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

    def test_a_provider_is_the_source_of_the_address_before_the_file(self):
        environ = {"REDIS_PROVIDER": "MY_REDIS", "MY_REDIS": "redis://b", "REDIS_URL": "redis://a"}
        for variables, wanted in (
            (environ, ("redis://b", "MY_REDIS")),
            ({}, ("redis://c", "worker.yml")),
        ):
            config = merged({"redis_url": "redis://c"}, variables)
            assert (config.redis_url, config.sources["redis_url"]) == wanted

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


def from_yaml(text, **more):
    return merged(parse(text, "worker.yml", {}), **more)


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

        assert parse(text, "worker.yml", {}) == {
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

    def test_the_section_of_the_environment_is_merged_over_the_top_and_aliases_are_followed(self):
        config = from_yaml(
            """
            :common: &common
              :concurrency: 7
              :queues: &queues [[mail, 2]]
            :production:
              <<: *common
              :timeout: 5
            staging: {timeout: 2}
            concurrency: 10
            max_retries: 3
            queues: *queues
            """,
            environment="production",
        )
        assert (config.concurrency, config.timeout_s, config.max_retries) == (7, 5, 3)
        assert config.queues == (("mail", 2),)

    def test_the_file_may_name_its_environment_before_which_flag_and_variable_count(self):
        text = ":environment: :staging\nstaging:\n  concurrency: 2\nproduction:\n  concurrency: 3"
        for layers, concurrency, environment in (
            ({}, 2, "staging"),
            ({"environ": {"APP_ENV": "production"}}, 3, "production"),
            ({"environ": {"APP_ENV": "staging"}, "environment": "production"}, 3, "production"),
            (
                {"environ": {"APP_ENV": "production"}, "environment": "development"},
                10,
                "development",
            ),
        ):
            config = from_yaml(text, **layers)
            assert (config.concurrency, config.environment) == (concurrency, environment)
        assert from_yaml(text).sources["environment"] == "worker.yml"

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b":queues: [a", "is no YAML: "),
            (b"- a\n- b\n", "holds list, not settings; write key: value lines"),
            (
                b"tag: a\nconcurrency: <%= 3 %>",
                "line 2: '<%= 3 %>' is Ruby that is not evaluated here",
            ),
            (b"tag: \xff", "cannot be read: "),
            (b"tag: !ruby/object:Foo {}", "is no YAML: could not determine a constructor"),
            (b"a: !!python/object/apply:os.getcwd []", "is no YAML: could not determine"),
        ],
    )
    def test_what_is_no_file_of_settings_is_refused(self, tmp_path, content, message):
        path = tmp_path / "worker.yml"
        path.write_bytes(content)

        with pytest.raises(ConfigError) as refusal:
            read_file(path, {})

        assert str(refusal.value).startswith(f"{path}: {message}")

    @pytest.mark.parametrize(
        "text",
        [
            "- slack: {}: x\n",
            "- slack: [{}\n",
            "- slack: '{}\n",
            "- slack: {}\n\tx: 1\n",
            "- slack: @{}\n",
            "- slack: {}\n  slack: - {}\n",
        ],
    )
    def test_an_error_of_yaml_names_its_line_without_the_text_which_may_be_a_secret(self, text):
        with pytest.raises(
            ConfigError, match=r"is no YAML: .* \(line \d+, column \d+\)"
        ) as refusal:
            from_yaml(text.replace("{}", "https://hooks.example.com/T0/s3cret"))
        assert "s3cret" not in str(refusal.value)
        assert refusal.value.__suppress_context__

    def test_what_other_libraries_teach_the_safe_loader_is_not_known_here(self, monkeypatch):
        anything = {"": lambda _loader, _suffix, _node: "constructed"}
        monkeypatch.setattr(yaml.SafeLoader, "yaml_multi_constructors", anything)

        with pytest.raises(ConfigError, match="could not determine a constructor"):
            from_yaml("tag: !ruby/object:Foo {}")

    def test_an_empty_file_says_nothing_and_verbose_means_debug(self):
        assert from_yaml("# nothing yet\n") == merged()
        assert from_yaml("concurrency: 3") == from_yaml(":concurrency: 3")
        assert from_yaml(":verbose: true").log_level == "debug"
        assert merged({"verbose": True}, {"KIQBRIDGE_LOG_LEVEL": "error"}).log_level == "error"

    def test_an_unknown_name_is_warned_about_with_a_suggestion_and_that_of_others_not(self):
        warnings = []
        merged({"concurency": 3, "wholly_other": 1}, warn=warnings.append)
        merged(
            {"strict": True, "logfile": "x", "staging": {"concurrency": 1}},
            warn=warnings.append,
        )
        assert warnings == [
            "worker.yml: 'concurency' is not a setting of the worker; did you mean concurrency?",
            "worker.yml: 'wholly_other' is not a setting of the worker",
        ]


def test_the_example_file_has_settings_only():
    example = Path(__file__).parents[3] / "worker" / "kiqbridge.example.yml"
    warnings = []

    config = merge(
        file=read_file(example, {}),
        file_name=example.name,
        environ={"APP_ENV": "production"},
        flags={},
        warn=warnings.append,
    )

    assert warnings == []
    assert (config.concurrency, config.log_format) == (25, "json")
    assert config.queues == (("default", 3), ("mailers", 2), ("low", 0))


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


def test_a_setting_of_a_feature_that_is_not_here_is_refused(monkeypatch):
    alerts = {"rules": {"deaths": None}, "to": [{"job": "NotifyOps"}]}
    monkeypatch.setattr("kiqbridge.seams.named", lambda _name: None)

    assert merged().alerts is None
    with pytest.raises(
        ConfigError, match=r"^alerts \(from worker.yml\): it needs the feature alerts"
    ):
        merged(file={"alerts": alerts})
