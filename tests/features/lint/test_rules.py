"""Each rule with what it finds, and what it leaves alone."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kiqbridge.features.lint import rules as all_rules
from kiqbridge.features.lint.load import moved, spread
from kiqbridge.features.lint.rules import lint
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.sourced import SourcedSchedule

NOW = datetime(2026, 11, 22, 15, 0, tzinfo=UTC)
PARIS = "Europe/Paris"


def schedule(expression, timezone="UTC", *, name="s", kind="", jobs=None, **more):
    known = {key: more.pop(key) for key in ("names_zone", "ignored") if key in more}
    definition = ScheduleDefinition(
        name=name,
        expression=expression,
        timezone=timezone,
        jobs=({"class": name, "args": []},) if jobs is None else jobs,
        **more,
    )
    return SourcedSchedule(definition=definition, source="x.yml", line=3, kind=kind, **known)


def codes(*schedules, **more):
    return [each.code for each in lint(schedules, now=NOW, **more)]


def only(code, *schedules, **more):
    [finding] = [each for each in lint(schedules, now=NOW, **more) if each.code == code]
    return finding


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (schedule("cron(61 * * * ? *)"), ["KB100"]),
        (schedule("cron(0 3 30 2 ? *)"), ["KB101"]),
        (schedule("cron(0 3 31 4,6,9,11 ? *)"), ["KB101"]),
        (schedule("cron(30 2 29 3 ? 2026)", PARIS), ["KB101"]),  # left out by the clock
        (schedule("at(2026-03-29T02:30:00)", PARIS), ["KB101"]),
        (
            schedule("cron(0 3 1 1 ? *)", start=datetime(2026, 2, 1, tzinfo=UTC), end=NOW),
            ["KB101"],
        ),
        (schedule("at(2026-11-22T14:59:00)"), ["KB102"]),
        (schedule("cron(0 3 1 1 ? 2026)"), ["KB102"]),
        (schedule("cron(0 3 * * ? *)", end=NOW), ["KB102"]),
        (schedule("cron(0 3 29 2 ? *)"), ["KB103"]),
        (schedule("cron(0 3 1 1 ? 2029)"), ["KB103"]),
        (schedule("rate(400 days)"), ["KB103"]),
        (schedule("cron(0 3 1 1 ? *)"), []),  # once a year, leap years too
        (schedule("at(2029-01-01T00:00:00)"), []),
        (schedule("cron(0 3 L * ? *)"), []),
        (schedule("cron(0 3 30 2 ? *)", enabled=False), []),
        (schedule("cron(0 3 30 2 ? *)", ignored=frozenset({"KB101"})), []),
    ],
    ids=lambda value: value.definition.expression if isinstance(value, SourcedSchedule) else None,
)
def test_what_never_or_rarely_fires(given, expected):
    assert codes(given) == expected


def test_a_finding_names_place_reason_and_remedy():
    found = only("KB101", schedule("cron(0 3 30 2 ? *)", PARIS))

    assert (found.severity, found.schedule, found.place) == ("error", "s", "x.yml:3")
    assert found.what == "cron(0 3 30 2 ? *) in Europe/Paris never fires"
    assert found.why.startswith("no month that it names has such a day")
    assert "write L" in found.advice


def test_errors_come_first_then_in_the_order_of_the_rules():
    found = codes(
        schedule("at(2020-01-01T00:00:00)", name="a"),
        schedule("cron(0/5 * * * ? *)", PARIS, name="b"),
        schedule("cron(0 3 30 2 ? *)", name="c"),
    )

    assert found == ["KB101", "KB102", "KB108"]


class TestZones:
    OTHER = schedule("cron(0 4 * * ? *)", PARIS, name="other")

    def test_no_zone_beside_others_that_have_one(self):
        morning = schedule("cron(0 8 ? * MON-FRI *)", names_zone=False)
        found = only("KB104", morning, self.OTHER)

        assert found.schedule == "s"
        assert found.what == (
            "cron(0 8 ? * MON-FRI *) has no zone, so it is in UTC; another schedule is in Europe/Paris"
        )
        assert found.why == "08:00 UTC is 09:00 on 2026-11-23 and 10:00 on 2027-04-22 there"
        assert found.advice.startswith("write timezone: Europe/Paris, or timezone: UTC")

    @pytest.mark.parametrize(
        "given",
        [
            schedule("cron(0 8 * * ? *)"),  # UTC is written
            schedule("cron(0 8 * * ? *)", PARIS, names_zone=False),  # the text names the zone
            schedule("cron(0 * * * ? *)", names_zone=False),
            schedule("rate(1 day)", names_zone=False),
            schedule("0 8 * * * Europe/Paris", names_zone=False),
        ],
    )
    def test_what_is_left_alone(self, given):
        assert codes(given, self.OTHER) == []

    def test_alone_it_is_left_alone_and_rules_of_the_event_bus_are_told(self):
        assert codes(schedule("cron(0 8 * * ? *)", names_zone=False)) == []
        for expression, why in (
            ("cron(0 8 * * ? *)", "its hours are an hour later"),
            ("rate(5 minutes)", "it has no tick"),
        ):
            assert only("KB105", schedule(expression, kind="Schedule")).why.startswith(why)
        assert codes(schedule("rate(5 minutes)", kind="Schedule", jobs=())) == []
        assert codes(schedule("cron(0 8 * * ? *)", kind="ScheduleV2")) == []


class TestCrowds:
    def test_a_crowd_gets_new_minutes(self):
        crowd = [schedule("cron(0 3 * * ? *)", name=f"s{n}") for n in range(4)]
        found = only("KB106", *crowd, crowd=4)

        assert found.what == (
            "4 schedules that fire at 2026-11-23 03:00 UTC could fire at another minute"
        )
        assert found.details == [
            "s0  stays at cron(0 3 * * ? *)",
            "s1  cron(0 3 * * ? *) -> cron(15 3 * * ? *)",
            "s2  cron(0 3 * * ? *) -> cron(30 3 * * ? *)",
            "s3  cron(0 3 * * ? *) -> cron(45 3 * * ? *)",
        ]

    def test_after_the_proposal_there_is_no_crowd(self):
        crowd = [schedule("0 3 * * *", PARIS, name=f"s{n}") for n in range(30)]
        crowd += [schedule("@hourly", name=f"h{n}") for n in range(20)]
        found = only("KB106", *crowd, crowd=5)
        new = {line.split("  ")[0]: line.rpartition(" -> ")[2] for line in found.details[1:]}
        spread_out = [
            schedule(
                new.get(each.name, each.definition.expression),
                each.definition.timezone,
                name=each.name,
            )
            for each in crowd
        ]

        assert len(found.details) == 50
        assert "KB106" not in codes(*spread_out, crowd=2)

    def test_who_is_spread_once_is_no_part_of_another_crowd(self):
        crowds = {
            each: [schedule(each, name=f"{each}{n}") for n in range(6)]
            for each in ("0 3 * * *", "0 * * * *", "0 4 1 * *")
        }
        nightly, hourly, monthly = crowds.values()
        assert codes(*nightly, *hourly) == ["KB106"]
        assert len(only("KB106", *nightly, *hourly).details) == 12
        assert codes(*nightly, *monthly) == ["KB106", "KB106"]

    @pytest.mark.parametrize(
        "given",
        [
            {"expression": "0 3 * * *", "jitter_s": 600},
            {"expression": "*/5 * * * *"},
            {"expression": "rate(1 day)"},
            {"expression": "0 3 * * *", "ignored": frozenset({"KB106"})},
        ],
    )
    def test_who_cannot_be_moved_is_no_part_of_a_crowd(self, given):
        crowd = [schedule(**given, name=f"s{n}") for n in range(9)]

        assert "KB106" not in codes(*crowd)

    def test_zones_that_differ_by_half_an_hour(self):
        crowd = [
            schedule("0 3 * * *", name="a"),
            schedule("30 8 * * *", "Asia/Kolkata", name="b"),
        ]
        details = only("KB106", *crowd, crowd=2).details

        assert details == ["a  stays at 0 3 * * *", "b  30 8 * * * -> 0 8 * * *"]

    def test_a_spread_avoids_where_others_fire(self):
        assert spread(3, 0, {}) == [0, 20, 40]
        assert spread(2, 0, {29: 1, 30: 1}) == [0, 31]
        only_two = {minute: 1 for minute in range(60) if minute not in (10, 11)}
        assert spread(3, 0, only_two) == [0, 10, 11]
        assert sorted(spread(60, 0, {})) == list(range(60))
        assert len(spread(90, 30, {})) == 90

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("cron(0 3 * * ? *)", "cron(7 3 * * ? *)"),
            ("0 3 * * 1-5", "7 3 * * 1-5"),
            ("@daily", "7 0 * * *"),
            ("CRON_TZ=Europe/Paris 0 3 * * *", "CRON_TZ=Europe/Paris 7 3 * * *"),
            ("CRON_TZ=Europe/Paris @hourly", "CRON_TZ=Europe/Paris 7 * * * *"),
            ("0 3 * * * Europe/Paris", "7 3 * * * Europe/Paris"),
        ],
    )
    def test_an_expression_with_another_minute(self, text, expected):
        assert moved(text, 7) == expected


class TestClockChanges:
    def test_an_hour_that_is_left_out_and_one_that_comes_twice(self):
        lost = only("KB107", schedule("cron(30 2 * * ? *)", PARIS))
        twice = only("KB108", schedule("cron(30 2 * * ? *)", PARIS))

        assert lost.severity == "warning"
        assert lost.what == (
            "cron(30 2 * * ? *): 02:30 on 2027-03-28 and 2028-03-26 does not exist in Europe/Paris"
        )
        assert "02:00-02:59" in lost.advice
        assert twice.severity == "note"
        assert "02:30 on 2027-10-31 and 2028-10-29 comes twice" in twice.what

    def test_who_fires_every_hour_loses_nothing_and_pauses_for_one(self):
        often = schedule("cron(0/5 * * * ? *)", PARIS)
        assert "pauses for an hour on 2027-10-31, 2028-10-29" in only("KB108", often).why
        assert "KB107" not in codes(often)
        assert codes(schedule("cron(30 2 ? 3 SUN *)", PARIS)) == ["KB107"]

    @pytest.mark.parametrize(
        "given",
        [
            schedule("cron(0 3 * * ? *)", PARIS),
            schedule("cron(30 2 ? * MON-SAT *)", PARIS),
            schedule("cron(30 2 * * ? *)"),
            schedule("cron(30 2 * * ? *)", "Asia/Tokyo"),
            schedule("rate(1 hour)", PARIS),
            schedule("cron(30 2 * * ? *)", PARIS, end=datetime(2027, 3, 1, tzinfo=UTC)),
        ],
    )
    def test_what_is_left_alone(self, given):
        assert codes(given) == []


JOB = {"class": "A", "args": [1]}


class TestRepeats:
    @pytest.mark.parametrize(
        ("overlap", "expected"),
        [
            ("allow", "two of them run at the same time"),
            ("skip", "some ticks run no job"),
            ("cancel", "it is cancelled before it ends"),
        ],
    )
    def test_jobs_longer_than_their_interval(self, overlap, expected):
        given = schedule("cron(0/5 * * * ? *)", overlap=overlap)
        found = only("KB109", given, took_s={"s": [10.0] * 9 + [301.0]})

        assert found.what == "it fires every 300 s, and its jobs take 301 s (10 runs)"
        assert found.why.startswith(expected)

    @pytest.mark.parametrize("took", [[], [300.0], [10.0] * 39 + [900.0]])
    def test_jobs_that_are_short_enough_or_long_but_once(self, took):
        assert codes(schedule("cron(0/5 * * * ? *)"), took_s={"s": took}) == []

    def test_the_interval_of_what_fires_seldom(self):
        weekly = schedule("cron(0 3 ? * MON *)")

        assert codes(weekly, took_s={"s": [7 * 86_400 + 1.0]}) == ["KB109"]
        assert codes(schedule("at(2027-01-01T00:00:00)"), took_s={"s": [1e9]}) == []

    @pytest.mark.parametrize(
        ("expression", "job", "told"),
        [
            ("0 3 * * *", JOB | {"queue": "default"}, "always, next 2026-11-23 03:00 UTC"),
            ("cron(0 3 1 * ? *)", JOB, "1 of its times in 35 days, next 2026-12-01 03:00 UTC"),
        ],
    )
    def test_two_that_enqueue_the_same_always_or_now_and_then(self, expression, job, told):
        first = schedule("cron(0 3 * * ? *)", name="a", jobs=(JOB,))
        found = only("KB110", first, schedule(expression, name="b", jobs=(job,)))
        assert found.what == "it enqueues the same A as another schedule, at the same time"
        assert found.details == [f"b (x.yml:3): {told}"]

    def test_many_that_enqueue_the_same_are_one_finding(self):
        many = [schedule("cron(0 3 * * ? *)", name=f"s{n}", jobs=(JOB,)) for n in range(20)]
        found = only("KB110", *many, crowd=99)
        assert "the same A as 19 other schedules" in found.what
        assert (len(found.details), found.details[-1]) == (11, "and 9 more")

    @pytest.mark.parametrize(
        ("hour", "job"),
        [
            (4, JOB),
            (3, JOB | {"args": [2]}),
            (3, JOB | {"class": "B"}),
            (3, JOB | {"queue": "low"}),
        ],
    )
    def test_two_that_differ(self, hour, job):
        first = schedule("cron(0 3 * * ? *)", name="a", jobs=(JOB,))
        assert codes(first, schedule(f"cron(0 {hour} * * ? *)", name="b", jobs=(job,))) == []

    def test_catching_up_without_a_limit(self):
        found = only("KB111", schedule("cron(* * * * ? *)", missed="all"))

        assert found.why == "after a day without a clock 1,440 jobs are enqueued at once"
        assert codes(schedule("cron(* * * * ? *)", missed="last")) == []
        assert codes(schedule("cron(* * * * ? *)", missed="all", max_age_s=3600)) == []
        assert codes(schedule("cron(0 3 * * ? *)", missed="all")) == []


def test_each_code_is_tested():
    text = Path(__file__).read_text("utf-8")

    rules = "".join(
        path.read_text("utf-8") for path in Path(all_rules.__file__).parent.glob("*.py")
    )

    assert [code for code in re.findall(r'"(KB1\d\d)"', rules) if code not in text] == []
