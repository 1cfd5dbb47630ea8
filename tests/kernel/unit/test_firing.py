"""Which rule fires when, on a clock that the test holds, and what it then delivers."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from support.template_rules import TICK, rule

from kiqbridge.dev.firing import (
    MOST_AT_ONCE,
    Agenda,
    SimulatedClock,
    anchored,
    event_of,
    most_frequent,
)

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def minutes(count):
    return timedelta(minutes=count)


def fired(firings):
    return [(firing.schedule.name, firing.instant) for firing in firings]


class TestTheAgenda:
    def test_names_the_first_firing_of_all_rules_in_their_zones(self):
        daily, often = rule("cron(0 3 * * ? *)"), rule("cron(0/5 * * * ? *)", "Often")
        assert Agenda([daily, often], NOON).next_instant() == NOON + minutes(5)
        in_paris = rule("cron(0 3 * * ? *)", timezone="Europe/Paris")
        assert Agenda([in_paris], NOON).next_instant() == datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
        disabled = rule("cron(0/5 * * * ? *)", enabled=False)
        assert Agenda([disabled], NOON).next_instant() is None
        assert Agenda([disabled], NOON).due(NOON + minutes(60)) == []

    def test_fires_each_instant_once_at_its_time_whatever_the_clock(self):
        agenda = Agenda([rule("cron(0/5 * * * ? *)")], NOON)
        assert agenda.due(NOON) == []
        assert agenda.due(NOON + timedelta(minutes=4, seconds=59.999)) == []
        assert fired(agenda.due(NOON + minutes(5))) == [("Rule", NOON + minutes(5))]
        for later in (5, 1, 6):
            assert agenda.due(NOON + minutes(later)) == []
        assert agenda.next_instant() == NOON + minutes(10)

    def test_tells_several_firings_in_the_order_of_their_instants_and_ends_with_the_last(self):
        rules = [
            rule("cron(6 * * * ? *)", "Later", end=NOON + minutes(10)),
            rule("cron(0/5 * * * ? *)", "Often", end=NOON + minutes(10)),
        ]
        agenda = Agenda(rules, NOON)
        assert fired(agenda.due(NOON + minutes(10))) == [
            ("Often", NOON + minutes(5)),
            ("Later", NOON + minutes(6)),
            ("Often", NOON + minutes(10)),
        ]
        assert agenda.next_instant() is None

    def test_skips_the_oldest_after_a_long_sleep_and_says_how_many(self):
        agenda = Agenda([rule("cron(* * * * ? *)")], NOON)

        firings = agenda.due(NOON + timedelta(hours=8))

        assert len(firings) == MOST_AT_ONCE
        assert firings[-1].instant == NOON + timedelta(hours=8)
        assert [firing.skipped for firing in firings] == [480 - MOST_AT_ONCE] + [0] * (
            MOST_AT_ONCE - 1
        )


class TestTheMostFrequentRule:
    @pytest.mark.parametrize(
        ("expressions", "winner"),
        [
            (["cron(0 3 * * ? *)", "cron(0/5 * * * ? *)", "cron(30 8 ? * MON-FRI *)"], 1),
            (["cron(0 * * * ? *)", "cron(0/20 * * * ? *)"], 1),
            # One that comes twice in a row, but seldom, is not frequent.
            (["cron(0,1 3 * * ? *)", "cron(0/30 * * * ? *)"], 1),
            # One that pauses in between is.
            (["cron(0 * * * ? *)", "cron(* 0,13-15 * * ? *)"], 1),
            (["at(2026-11-20T12:01:00)", "cron(0 0 1 1 ? *)"], 1),
            (["cron(0/5 * * * ? *)", "cron(0/5 * * * ? *)"], 0),
        ],
    )
    def test_is_that_whose_coming_firings_are_the_soonest(self, expressions, winner):
        rules = [rule(expression) for expression in expressions]

        assert most_frequent(rules, NOON) is rules[winner]

    def test_is_not_one_that_is_disabled_or_over(self):
        over = rule("cron(* * * * ? *)", end=NOON - minutes(1))
        disabled = rule("cron(* * * * ? *)", enabled=False)
        seldom = rule("cron(0 0 1 1 ? *)")

        assert most_frequent([over, disabled, seldom], NOON) is seldom
        assert most_frequent([over, disabled], NOON) is None


class TestARateWithoutStartDate:
    def test_counts_from_the_start_of_the_run_until_its_end(self):
        schedule = anchored(rule("rate(7 minutes)"), NOON + timedelta(seconds=3.5))
        first = Agenda([schedule], NOON + minutes(1)).next_instant()
        assert first == NOON + timedelta(minutes=7, seconds=3)
        for end, count in ((10, 1), (-10, 0)):
            schedule = anchored(rule("rate(7 minutes)", end=NOON + minutes(end)), NOON)
            assert len(Agenda([schedule], NOON).due(NOON + minutes(60))) == count

    def test_with_a_start_date_or_as_cron_nothing_changes(self):
        for schedule in (rule("rate(7 minutes)", start=NOON), rule("cron(0 3 * * ? *)")):
            assert anchored(schedule, NOON + minutes(1)) is schedule


class TestTheClock:
    def test_agrees_with_the_wall_clock_or_runs_faster_from_its_start_on(self):
        for speed in (1, 60):
            clock = SimulatedClock(start=NOON.timestamp(), speed=speed)
            assert clock.read(NOON.timestamp()) == NOON
            assert clock.read(NOON.timestamp() + 300 / speed) == NOON + minutes(5)
            assert clock.real_seconds(minutes(5)) == 300 / speed
            assert clock.is_simulated is (speed > 1)

    def test_starts_anywhere(self):
        boot = NOON.timestamp()
        clock = SimulatedClock(start=boot, speed=60, shows=boot - 86_400)
        assert clock.read(boot) == NOON - timedelta(days=1)
        assert clock.read(boot + 5) == NOON - timedelta(days=1) + minutes(5)
        assert clock.wall_at(boot - 86_400 + 300) == boot + 5
        assert clock.offset_s == -86_400
        assert SimulatedClock(start=0, shows=0).is_simulated


class TestTheEvent:
    def test_is_the_input_with_its_context_filled_in(self):
        attributes = {name: f"<aws.scheduler.{name}>" for name in ("execution-id", "schedule-arn")}
        schedule = rule("cron(0 3 * * ? *)", input=json.dumps({"tick": TICK, "args": [attributes]}))

        event = event_of(schedule, NOON, execution_id="e1")

        tick = {"schedule": "app/Rule", "at": "2026-11-20T12:00:00Z", "on_stale": "ignore"}
        assert event["tick"] == tick
        assert event["args"][0]["execution-id"] == "e1"
        assert event["args"][0]["schedule-arn"].endswith("/Rule")
        assert "<aws" not in json.dumps(event)

    def test_keeps_big_integers_and_can_go_under_a_name_of_its_own(self):
        event = event_of(rule("cron(0 3 * * ? *)"), NOON, execution_id="e1", own_name="#start")
        assert event["args"] == [2**70]
        assert event["tick"]["schedule"] == "app/Rule#start"

    def test_of_a_rule_on_the_bus_is_its_input_as_it_is(self):
        schedule = rule("cron(0 3 * * ? *)", kind="Schedule", input='{"class": "A", "args": []}')

        event = event_of(schedule, NOON, execution_id="e1", own_name="#start")

        assert event == {"class": "A", "args": []}
