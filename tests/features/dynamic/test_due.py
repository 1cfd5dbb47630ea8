"""Which occurrences of a dynamic schedule are placed, which are missed, and how far the cursor goes."""

import pytest

from kiqbridge.features.dynamic.due import LATE_S, decide, next_instants
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import SchedulePause, ScheduleState

MINUTE = 60
HOUR = 3600
NOON = 1_700_049_600  # 2023-11-15T12:00:00Z
NONE = ScheduleState()


def schedule(expression="rate(5 minutes)", **options) -> ScheduleDefinition:
    options = {"missed": "last", **options}
    return ScheduleDefinition(
        name="s", expression=expression, jobs=({"class": "A", "args": []},), **options
    )


def decided(definition, *, cursor, now=NOON, until=None, state=NONE, **options):
    until = NOON + 6 * MINUTE if until is None else until
    return decide(definition, state, cursor=cursor, now=now, until=until, **options)


class TestAhead:
    def test_what_is_due_within_the_horizon_is_placed_and_the_cursor_is_set_to_its_end(self):
        found = decided(schedule(), cursor=NOON)
        assert (found.place, found.missed) == ([NOON + 5 * MINUTE], [])
        assert (found.cursor, found.next_at) == (NOON + 6 * MINUTE, NOON + 10 * MINUTE)
        assert NOON + 5 * MINUTE not in decided(schedule(), cursor=NOON + 5 * MINUTE).place

    @pytest.mark.parametrize(
        ("given", "wanted"),
        [
            (schedule("rate(1 hour)"), ([], None, NOON + HOUR)),
            (schedule(enabled=False), ([], None, None)),
            (schedule("at(2023-11-15T12:05:00)"), ([NOON + 5 * MINUTE], NOON + 6 * MINUTE, None)),
        ],
    )
    def test_where_nothing_is_due_the_cursor_stays_and_the_next_instant_is_known(
        self, given, wanted
    ):
        found = decided(given, cursor=NOON)
        assert (list(found.place), found.cursor, found.next_at) == wanted

    def test_no_more_than_the_most_are_decided_and_what_is_skipped_is_not_placed(self):
        each, end = schedule("rate(1 minute)"), NOON + 2 * MINUTE
        found = decided(each, cursor=NOON, most=2)
        assert found.place == [NOON + MINUTE, end]
        assert (found.cursor, found.next_at) == (end, NOON + 3 * MINUTE)
        state = ScheduleState(skipped=(NOON + MINUTE,))
        found = decided(each, cursor=NOON, until=end, state=state)
        assert (found.place, found.cursor) == ([end], end)
        assert next_instants(each, state, after=NOON + 0.5, count=2) == [end, NOON + 3 * MINUTE]


EACH_MINUTE = "cron(* * * * ? *)"


class TestLate:
    @pytest.mark.parametrize("policy", ["alert", "last", "all"])
    def test_an_interval_is_not_made_up_for_within_the_grace_time_unless_it_asks_for_all(
        self, policy
    ):
        every = schedule("rate(1 minute)", missed=policy)
        found = decided(every, cursor=NOON - 3 * MINUTE, until=NOON + MINUTE)
        before = [NOON - 2 * MINUTE, NOON - MINUTE]
        assert found.place == [*(before if policy == "all" else []), NOON, NOON + MINUTE]
        assert found.missed == ([] if policy == "all" else before)
        # What is no interval is placed whatever the policy.
        found = decided(schedule(EACH_MINUTE, missed=policy), cursor=NOON - 3 * MINUTE)
        assert (found.place[:3], found.missed) == ([*before, NOON], [])

    def test_of_an_interval_with_more_than_are_decided_at_once_the_newest_is_placed(self):
        every = schedule("every 1s", missed="last")

        first = decided(every, cursor=NOON - 200, until=NOON, most=150)
        then = decided(every, cursor=first.cursor, until=NOON, most=150)

        assert (list(first.place), then.place, len(first.missed)) == ([], [NOON], 150)

    def test_alert_places_nothing_that_was_missed(self):
        found = decided(
            schedule("rate(1 hour)", missed="alert"), cursor=NOON - HOUR, now=NOON + 900
        )

        assert (list(found.place), list(found.missed)) == ([], [NOON])
        assert found.cursor == NOON + 6 * MINUTE

    def test_last_places_only_the_newest_of_those_missed_and_none_if_a_later_one_is_late(self):
        definition = schedule("rate(10 minutes)", missed="last")
        found = decided(definition, cursor=NOON - HOUR, now=NOON + 9 * MINUTE)
        assert found.place == [NOON]
        assert found.missed == [NOON + minute * MINUTE for minute in (-50, -40, -30, -20, -10, 0)]
        found = decided(definition, cursor=NOON - HOUR)
        assert found.place == [NOON]
        assert NOON - 10 * MINUTE in found.missed
        assert NOON not in found.missed

    def test_all_places_those_that_are_not_older_than_the_maximum_age(self):
        definition = schedule("rate(10 minutes)", missed="all", max_age_s=1800)

        found = decided(definition, cursor=NOON - 5 * HOUR, now=NOON + MINUTE)

        assert found.place == [NOON - 20 * MINUTE, NOON - 10 * MINUTE, NOON]
        assert found.missed == [NOON - 30 * MINUTE, NOON - 20 * MINUTE, NOON - 10 * MINUTE]

    def test_without_a_maximum_age_an_hour_is_the_limit(self):
        definition = schedule("rate(1 hour)", missed="all")

        assert NOON in decided(definition, cursor=NOON - 60, now=NOON + LATE_S - 1).place
        assert NOON not in decided(definition, cursor=NOON - 60, now=NOON + LATE_S).place

    def test_of_what_is_older_than_the_maximum_age_the_newest_one_counts_as_missed(self):
        found = decided(
            schedule("rate(1 hour)", missed="last"), cursor=NOON - 9 * HOUR, now=NOON - HOUR + 1
        )

        assert found.missed == [NOON - 2 * HOUR]
        assert NOON - 2 * HOUR not in found.place

    def test_last_over_several_steps_places_only_the_very_last(self):
        definition = schedule("rate(10 minutes)", missed="last", max_age_s=86_400.0)
        cursor, placed, now = NOON - HOUR, [], NOON + 9 * MINUTE

        while (found := decided(definition, cursor=cursor, now=now, most=2)).cursor is not None:
            placed += found.place
            cursor = found.cursor

        assert placed == [NOON]


class TestPaused:
    @pytest.mark.parametrize(
        ("pause", "expression", "place"),
        [
            ({"at": NOON}, "rate(1 minute)", []),
            # From its end on, and nothing of what came due before.
            ({"at": NOON, "until": NOON + 3 * MINUTE}, "rate(1 minute)", [3, 4, 5, 6]),
            ({"at": NOON - HOUR, "until": NOON - 90}, EACH_MINUTE, [-1, 0, 1, 2, 3, 4, 5, 6]),
        ],
    )
    def test_nothing_is_due_and_nothing_is_decided_until_its_end(self, pause, expression, place):
        state = ScheduleState(paused=SchedulePause(**pause))
        found = decided(schedule(expression), cursor=NOON - HOUR, state=state)
        assert list(found.place) == [NOON + minute * MINUTE for minute in place]
        assert list(found.missed) == []
        if not place:
            assert (found.cursor, found.next_at) == (None, None)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris"])
def test_step_by_step_nothing_is_left_out_and_nothing_comes_twice(zone):
    definition = schedule("*/7 * * * *", timezone=zone)
    cursor, placed = NOON, []

    for now in range(NOON, NOON + 5 * HOUR, 90):
        found = decided(definition, cursor=cursor, now=now, until=now + 360)
        placed += found.place
        cursor = cursor if found.cursor is None else found.cursor

    wanted = next_instants(definition, NONE, after=NOON, count=len(placed))
    assert placed == wanted
    assert placed[-1] >= NOON + 5 * HOUR
