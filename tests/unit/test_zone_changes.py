"""When the clocks change, and which rules that concerns."""

from datetime import UTC, datetime, timedelta

import pytest
from support.template_rules import rule

from kiqbridge.dev.firing import ZoneCalendar, describe
from kiqbridge.schedule.zone_changes import next_change

SUMMER = datetime(2026, 7, 1, tzinfo=UTC)
WINTER = datetime(2026, 1, 1, tzinfo=UTC)


def hour(change):
    return f"{change.before:%H:%M} {change.names[0]} is {change.after:%H:%M} {change.names[1]}"


class TestTheNextChange:
    @pytest.mark.parametrize(
        ("zone", "since", "instant", "hours"),
        [
            ("Europe/Paris", SUMMER, "2026-10-25T01:00:00", "03:00 CEST is 02:00 CET"),
            ("Europe/Paris", WINTER, "2026-03-29T01:00:00", "02:00 CET is 03:00 CEST"),
            ("America/New_York", SUMMER, "2026-11-01T06:00:00", "02:00 EDT is 01:00 EST"),
            ("Australia/Lord_Howe", SUMMER, "2026-10-03T15:30:00", "02:00 +1030 is 02:30 +11"),
        ],
    )
    def test_is_found_to_the_second(self, zone, since, instant, hours):
        change = next_change(zone, since)

        assert change.instant == datetime.fromisoformat(instant).replace(tzinfo=UTC)
        assert hour(change) == hours

    @pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
    def test_is_none_where_the_clocks_stay(self, zone):
        assert next_change(zone, SUMMER) is None

    def test_lies_after_the_instant(self):
        first = next_change("Europe/Paris", SUMMER)

        assert next_change("Europe/Paris", first.instant).instant.year == 2027


class TestTheText:
    def test_names_the_rules_that_are_left_out_in_spring(self):
        rules = [
            rule("cron(30 2 * * ? *)", "Nightly", timezone="Europe/Paris"),
            rule("cron(0/20 * * * ? *)", "Often", timezone="Europe/Paris"),
            rule("cron(0 3 * * ? *)", "After", timezone="Europe/Paris"),
            rule("cron(30 2 * * ? *)", "Elsewhere"),
            rule("rate(10 minutes)", "Rate", timezone="Europe/Paris"),
            rule("cron(30 2 * * ? *)", "Disabled", timezone="Europe/Paris", enabled=False),
        ]

        assert describe(next_change("Europe/Paris", WINTER), rules) == (
            "Sun 2026-03-29 02:00 CET becomes 03:00 CEST: 02:00 to 03:00 does not exist; "
            "not due: Nightly (02:30), Often (3 times)"
        )

    def test_names_the_rules_that_come_once_in_autumn(self):
        rules = [rule("cron(0,30 2 * * ? *)", "Nightly", timezone="Europe/Paris")]

        assert describe(next_change("Europe/Paris", SUMMER), rules) == (
            "Sun 2026-10-25 03:00 CEST becomes 02:00 CET: 02:00 to 03:00 comes twice; "
            "due once, at the first coming: Nightly (02:00 and 02:30)"
        )

    def test_says_that_no_rule_is_concerned(self):
        text = describe(next_change("Europe/Paris", SUMMER), [rule("cron(30 2 * * ? *)")])

        assert text.endswith("comes twice; concerns no rule")


class TestTheCalendar:
    def test_has_each_change_once(self):
        calendar = ZoneCalendar(["Europe/Paris", "America/New_York", "Europe/Paris", "UTC"], SUMMER)
        end = datetime(2026, 11, 2, tzinfo=UTC)

        assert calendar.due(SUMMER) == []
        assert calendar.next_instant() == datetime(2026, 10, 25, 1, tzinfo=UTC)
        assert [change.timezone for change in calendar.due(end)] == [
            "Europe/Paris",
            "America/New_York",
        ]
        assert calendar.due(end) == []
        assert calendar.next_instant().month == 3
        assert [change.instant.month for change in calendar.due(end + timedelta(days=160))] == [
            3,
            3,
        ]

    def test_says_which_ones_are_near(self):
        calendar = ZoneCalendar(["Europe/Paris", "America/New_York"], SUMMER)

        near = calendar.near(datetime(2026, 10, 24, 1, tzinfo=UTC))

        assert [change.timezone for change in near] == ["Europe/Paris"]
        assert calendar.near(datetime(2026, 10, 24, tzinfo=UTC)) == []
