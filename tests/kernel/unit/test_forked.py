"""What is read of a process before and after a fork."""

import os

import pytest

from kiqbridge.commands.forked import can_run, check_before_fork, resident_mb
from kiqbridge.errors import ConfigError


class TestLooks:
    def test_this_process_can_run_and_takes_memory(self):
        assert can_run(os.getpid())
        assert 1 < resident_mb(os.getpid()) < 10_000

    def test_a_process_that_has_ended_cannot(self):
        pid = os.posix_spawn("/bin/true", ["true"], {})
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it stays, as a zombie

        assert not can_run(pid)

        os.waitpid(pid, 0)
        assert not can_run(pid)
        assert resident_mb(pid) == 0


def test_code_that_alone_exceeds_the_memory_ceiling_is_refused():
    check_before_fork(0)  # 0 = no ceiling

    with pytest.raises(ConfigError, match=r"^max_memory_mb: 1 is less than the \d+ MB"):
        check_before_fork(1)
