"""The merge of all sources into a worker's configuration, and the flags among them."""

import argparse
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.commands.worker_command import add_arguments, load_config
from kiqbridge.config.config import SETTINGS
from kiqbridge.config.merge import merge
from kiqbridge.config.setting import shown_default
from kiqbridge.wire.dead_bounds import DeadBounds


def merged(file=None, environ=None, warn=lambda _message: None, **flags):
    return merge(file=file, file_name="worker.yml", environ=environ or {}, flags=flags, warn=warn)


class TestPrecedence:
    def test_a_later_layer_wins_and_is_remembered(self):
        file, environ, flags = (
            {"concurrency": 2},
            {"KIQBRIDGE_CONCURRENCY": "3"},
            {"concurrency": 4},
        )
        for config, value, source in (
            (merged({"concurrency": None}, {"KIQBRIDGE_CONCURRENCY": ""}), 10, "default"),
            (merged(file), 2, "worker.yml"),
            (merged(file, environ), 3, "KIQBRIDGE_CONCURRENCY"),
            (merged(file, environ, **flags), 4, "-c"),
        ):
            assert (config.concurrency, config.sources["concurrency"]) == (value, source)
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
