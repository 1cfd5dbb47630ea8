"""Which settings ask for a supervisor, and for how many processes."""

import os

import pytest

from kiqbridge.commands.worker_command import is_supervised
from kiqbridge.config.merge import merge
from kiqbridge.errors import ConfigError
from kiqbridge.host.surroundings import process_count


def config(**flags):
    return merge(environ={}, flags=flags)


class TestSettings:
    def test_without_any_there_is_no_supervisor(self):
        assert config().processes == 1
        assert config().max_memory_mb == 0
        assert not is_supervised(config())

    @pytest.mark.parametrize("flags", [{"processes": "2"}, {"max_memory_mb": "500"}])
    def test_several_processes_or_a_ceiling_ask_for_one(self, flags):
        assert is_supervised(config(**flags))

    def test_auto_is_the_number_of_cpus_that_may_be_used(self):
        chosen = config(processes="AUTO")

        assert chosen.processes == "auto"
        assert process_count(chosen.processes) == len(os.sched_getaffinity(0))

    def test_the_environment_gives_them_too(self):
        environ = {"KIQBRIDGE_PROCESSES": "4", "KIQBRIDGE_MAX_MEMORY_MB": "700"}

        chosen = merge(environ=environ, flags={})

        assert (chosen.processes, chosen.max_memory_mb) == (4, 700)

    @pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", True])
    def test_what_is_no_number_of_processes_is_refused(self, value):
        with pytest.raises(ConfigError, match=r"^processes: .*\(from --processes\); .* auto"):
            config(processes=value)
