"""Roles: the one shape of a thread that is there for as long as the process lives."""

import threading

import pytest
from support.waiting import wait_until

from kiqbridge.runtime.role import Role, Until


class Counting(Role):
    """Counts its rounds; one each time that it is woken."""

    def __init__(self, **options):
        super().__init__("counting", self._count, **options)
        self.rounds = 0

    def _count(self):
        while not self._stopping.is_set():
            self._some.wait()
            self._some.clear()
            self.rounds += 1


@pytest.fixture
def made():
    roles = []
    yield lambda **options: roles.append(Counting(**options)) or roles[-1]
    for role in roles:
        role.stop()


def test_it_runs_from_its_start_until_its_stop(made):
    role = made()
    assert not role.alive

    role.start()
    role.wake()
    wait_until(lambda: role.rounds == 1, 10)
    assert role.alive
    assert "kiqbridge-counting" in [each.name for each in threading.enumerate()]

    role.stop()
    assert not role.alive


@pytest.mark.parametrize("until", Until)
def test_it_ends_with_quiet_only_if_it_is_needed_no_longer(made, until):
    role = made(until=until)
    role.start()

    role.quiet()

    if until is Until.QUIET:
        wait_until(lambda: not role.alive, 10)
    else:
        assert not role.join(0.05)
        assert role.alive


def test_one_that_has_ended_can_be_started_again_and_one_never_started_be_stopped(made):
    role = made()
    role.stop()
    role.start()
    role.stop()
    role._stopping.clear()
    role.restart()
    assert role.alive


def test_a_stop_waits_no_longer_than_it_may():
    release = threading.Event()
    role = Role("held", release.wait, join_s=0)
    role.start()

    role.stop()

    assert role.alive
    release.set()
    role.join(10)
    assert not role.alive
