"""The worker's file: YAML as Sidekiq writes it."""

from pathlib import Path

import pytest
import yaml

from kiqbridge.config.merge import merge
from kiqbridge.config.settings_file import parse, read_file
from kiqbridge.errors import ConfigError


def merged(file=None, environ=None, warn=lambda _message: None, **flags):
    return merge(file=file, file_name="worker.yml", environ=environ or {}, flags=flags, warn=warn)


def from_yaml(text, **more):
    return merged(parse(text, "worker.yml"), **more)


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
