"""Which chores the leader does, and when."""

import logging

from kiqbridge.engine.leader import Leader
from kiqbridge.errors import RedisUnavailable
from kiqbridge.feature import Chore


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def chore(name, every_s, call, **more):
    return Chore(name, every_s, "", **more), call


def leader(*steps, clock, leads=lambda: True):
    return Leader(lambda: steps, connection="connection", leads=leads, monotonic=clock)


def test_each_step_has_its_own_interval():
    clock, taken = Clock(), []
    steps = [
        chore("often", 1.0, lambda connection: taken.append(("often", connection))),
        chore("seldom", 10.0, lambda connection: taken.append(("seldom", connection))),
    ]
    it = leader(*steps, clock=clock)

    for _ in range(20):
        it.run_due()
        clock.now += 1

    assert taken.count(("often", "connection")) == 20
    assert taken.count(("seldom", "connection")) == 2


def test_who_does_not_lead_or_is_quiet_does_nothing_and_begins_anew_with_the_lead():
    clock, taken, leads = Clock(), [], [True]
    it = leader(chore("watch", 10.0, taken.append), clock=clock, leads=lambda: leads[0])
    for lead in (True, False, True):
        leads[0] = lead
        it.run_due()
        clock.now += 1
    assert len(taken) == 2
    it.quiet()
    clock.now += 10
    it.run_due()
    assert len(taken) == 2


def test_a_step_that_fails_is_taken_again_and_holds_up_no_other(caplog):
    clock, taken = Clock(), []

    def away(_connection):
        raise RedisUnavailable("no Redis")

    def broken(_connection):
        raise ZeroDivisionError

    it = leader(
        chore("a", 1.0, away),
        chore("b", 1.0, broken),
        chore("c", 1.0, taken.append),
        clock=clock,
    )
    with caplog.at_level(logging.WARNING):
        it.run_due()
        clock.now += 1
        it.run_due()

    assert len(taken) == 2
    assert "no Redis" not in caplog.text  # an outage is reported once, by those who take jobs
    assert caplog.text.count("chores: b failed; it is tried again") == 2


def test_a_step_that_is_always_due_is_called_also_while_another_process_leads():
    calls = []
    steps = (
        chore("own", 30.0, lambda _: calls.append("own"), where=["worker"]),
        chore("fleet", 30.0, lambda _: calls.append("fleet")),
    )
    it = leader(*steps, clock=Clock(), leads=lambda: False)
    it.run_due()
    it.run_due()
    assert calls == ["own"]
