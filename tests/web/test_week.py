"""The week of all schedules."""

from datetime import UTC, datetime

from support.running_system import System, fill_schedules

from kiqbridge.api import ScheduleView
from kiqbridge.api.schedules import Occurrence
from kiqbridge.web.pages.schedules import OFTEN, week_of

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp()


def schedule(name, *instants, missed=()):
    return ScheduleView(
        name=name,
        expression="",
        timezone="UTC",
        origin="code",
        state="enabled",
        next=[NOW + each for each in instants],
        occurrences=[Occurrence(at=int(NOW + each), kind="missed") for each in missed],
    )


def test_schedules_that_fall_on_one_minute_and_ticks_that_did_not_come_are_marked():
    week = week_of(
        [
            schedule("a", 3600, 90_000, missed=[-7200]),
            schedule("b", 3601.0, 9 * 86_400),
            schedule("c", 3660),
            schedule("often", *[60.0] * OFTEN),
        ],
        NOW,
        UTC,
    )

    days = {f"{day:%d}": hours for day, hours in week.days}
    assert list(days) == ["23", "24", "25", "26", "27", "28", "29"]
    assert days["25"][13].title == "13:00 a, 13:00 b, 13:01 c; 2 at the same minute"
    assert (days["26"][13].names, days["26"][13].collides) == (["13:00 a"], 1)
    assert days["25"][10].title == "missed: 10:00 a"
    assert week.often == ["often"]


def test_the_page_of_schedules_shows_the_week_and_the_expressions_in_words(
    browser, redis, operator
):
    fill_schedules(System(server=redis), operator.client)

    page = browser.open("/schedules")

    assert "on the last day of the month at 08:30" in page.text
    assert "More often than hourly, and not drawn: sync-customers." in page.text
    assert page.html.count('class="fires-1"') >= 4  # nightly-report each day to come
