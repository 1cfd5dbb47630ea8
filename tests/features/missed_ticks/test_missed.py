"""Ticks that did not come: which they are, who is notified, and what is enqueued."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from kiqbridge.engine.missed_watch import MissedWatch
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.features.missed_ticks import missed
from kiqbridge.features.missed_ticks.due_ticks import AGAIN_S
from kiqbridge.features.missed_ticks.missed import check_missed
from kiqbridge.wire.keys import Keys

KEYS = Keys()
HOUR, DAY = 3600, 86_400
JOB = {"class": "Report", "args": [1], "queue": "low"}


@pytest.fixture
def noon(redis):
    """The last full hour by the server, whose clock decides what is too old."""
    return int(redis.time()[0]) // HOUR * HOUR - 2 * HOUR


@pytest.fixture
def save(redis):
    """Write definitions as the manifest of the stack `shop` has them."""

    def save(since=0, **schedules):
        names = []
        for name, members in schedules.items():
            document = {"expression": "cron(0 * * * ? *)", "jobs": [JOB], "origin": "template"}
            document |= {"since": since, **members}
            redis.hset("kb:schedules", f"shop/{name}", json.dumps(document))
            names.append(f"shop/{name}")
        entry = {"version": 1, "hash": "x", "published_at": since, "names": names}
        redis.hset("kb:manifests", "shop", json.dumps(entry))

    return save


@pytest.fixture
def check(pool, client):
    """A check at some time; what it notified of is in its `notified`."""

    def check(now, **options):
        check.notified = []
        return check_missed(
            pool, KEYS, client, by="worker:a", notify=check.notified.extend, now=now, **options
        )

    return check


def came(client, name, *instants):
    for instant in instants:
        assert client.push_tick(name, instant, [JOB], by="lambda:1").kind == "enqueued"


def at_and_new(report):
    return [(each.schedule, each.at, each.is_new) for each in report.missed]


def test_nothing_is_missing_where_every_tick_came(client, check, save, noon):
    save(A={}, since=noon - 3 * HOUR)
    came(client, "shop/A", noon - 2 * HOUR, noon - HOUR, noon)

    report = check(noon + HOUR)

    assert (report.schedules, list(report.missed), check.notified) == (1, [], [])


def test_a_tick_that_did_not_come_is_recorded_once_and_notified_once(
    check, save, noon, redis, caplog
):
    save(A={}, since=noon - 1.5 * HOUR)
    redis.zadd("kb:ticks:shop/A", {json.dumps({"at": noon}): noon})

    report = check(noon + 400)

    assert at_and_new(report) == [("shop/A", noon - HOUR, True)]
    assert check.notified == list(report.missed)
    assert check.notified[0].late_s == HOUR + 400
    member = f"{noon - HOUR} shop/A".encode()
    assert redis.zrange("kb:missed", 0, -1, withscores=True) == [(member, noon - HOUR)]
    [line] = [each for each in caplog.records if each.levelname == "WARNING"]
    instant = f"{datetime.fromtimestamp(noon - HOUR, UTC):%Y-%m-%dT%H:%M:%SZ}"
    assert f"schedule shop/A: the tick of {instant} did not come, 67 min late" in line.message
    assert "not enqueued (its policy is alert)" in line.message

    redis.delete("kb:watched")
    again = check(noon + 500)

    assert at_and_new(again) == [("shop/A", noon - HOUR, False)]
    assert check.notified == []
    assert not redis.exists("queue:low")


def test_it_is_missing_only_after_its_grace_time(check, save, noon):
    save(A={}, B={"grace_s": 1000}, since=noon - 60)

    assert at_and_new(check(noon + 299)) == []
    assert at_and_new(check(noon + 301)) == [("shop/A", noon, True)]
    assert at_and_new(check(noon + 1001)) == [("shop/A", noon, False), ("shop/B", noon, True)]


class TestPolicies:
    def test_all_enqueues_each_up_to_its_age_oldest_first(self, check, save, noon, redis):
        save(A={"missed": "all", "max_age_s": 3 * HOUR}, since=noon - DAY)

        report = check(noon + 400)

        ages = {each.at: each.enqueued for each in report.missed}
        assert [at for at in ages if ages[at]] == [noon - 2 * HOUR, noon - HOUR, noon]
        assert len(ages) == 24
        assert {each.reason for each in report.missed if not each.enqueued} == {
            "it is older than 10800 s"
        }
        entries = [json.loads(text) for text in redis.zrange("kb:ticks:shop/A", 0, -1)]
        assert [(each["at"], each["by"]) for each in entries] == [
            (at, "worker:a") for at in ages if ages[at]
        ]
        assert redis.llen("queue:low") == 3
        job = json.loads(redis.lindex("queue:low", -1))
        assert (job["class"], job["args"]) == ("Report", [1])

    def test_last_enqueues_the_newest_alone_also_when_it_is_checked_again(
        self, check, save, noon, redis
    ):
        save(A={"missed": "last"}, since=noon - 5 * HOUR)

        report = check(noon + 400)
        again = [check(noon + 401 + number) for number in range(3)]

        assert [each.at for each in report.missed if each.enqueued] == [noon]
        assert len(report.new) == 5
        assert all(each.enqueued == 0 for each in again)
        assert redis.llen("queue:low") == 1

    def test_last_enqueues_none_if_a_later_one_came(self, client, check, save, noon):
        save(A={"missed": "last"}, since=noon - 5 * HOUR)
        came(client, "shop/A", noon)

        assert check(noon + 400).enqueued == 0

    def test_last_enqueues_none_that_is_too_old(self, check, save, noon, redis):
        save(A={"missed": "last", "max_age_s": 60, "grace_s": 100}, since=noon - HOUR)

        report = check(noon + 400)

        assert len(report.new) == 1
        assert report.missed[0].reason == "it is older than 60 s"
        assert not redis.exists("queue:low")

    def test_what_aws_delivers_later_is_a_duplicate(self, client, check, save, noon, redis):
        save(A={"missed": "all"}, since=noon - HOUR)
        assert check(noon + 400).enqueued == 1

        assert client.push_tick("shop/A", noon, [JOB], by="lambda:late").kind == "duplicate"
        assert redis.llen("queue:low") == 1

    def test_a_job_that_runs_later_is_scheduled_from_now(self, check, save, noon, redis):
        job = {**JOB, "in": DAY}
        fixed = {**JOB, "at": "2100-01-01T00:00:00Z"}
        save(A={"missed": "all", "jobs": [job, fixed]}, since=noon - HOUR)

        assert check(noon + 400).enqueued == 1

        scores = [score for _, score in redis.zrange("schedule", 0, -1, withscores=True)]
        assert scores == [noon + 400 + DAY, 4_102_444_800]

    def test_a_job_that_is_none_is_named_and_stops_no_other(self, check, save, noon, redis):
        save(
            A={"missed": "all", "jobs": [{"class": "", "args": []}]},
            B={"missed": "all"},
            since=noon - HOUR,
        )

        report = check(noon + 400)

        assert [each.enqueued for each in report.missed] == [False, True]
        assert "class" in report.missed[0].reason
        assert redis.exists("kb:watched")

    def test_of_a_rate_without_a_start_none_is_enqueued_since_aws_alone_knows_its_instants(
        self, client, check, save, noon, redis
    ):
        save(A={"missed": "all", "expression": "rate(1 hour)"}, since=noon - 3 * HOUR)
        came(client, "shop/A", noon - HOUR + 1020)

        report = check(noon + HOUR + 1400)

        assert at_and_new(report) == [
            ("shop/A", noon + 1020, True),
            ("shop/A", noon + HOUR + 1020, True),
        ]
        assert report.enqueued == 0
        assert redis.llen("queue:low") == 1

    def test_a_rate_without_a_start_that_never_came_is_missing_after_a_period(
        self, check, save, noon
    ):
        save(A={"expression": "rate(1 hour)"}, since=noon + 30)

        assert at_and_new(check(noon + HOUR)) == []
        assert at_and_new(check(noon + HOUR + 400)) == [("shop/A", noon + HOUR, True)]

    def test_a_rate_with_a_start_is_enqueued_under_the_minute_that_its_tick_names(
        self, check, save, noon
    ):
        start = f"{datetime.fromtimestamp(noon + 45, UTC):%Y-%m-%dT%H:%M:%SZ}"
        save(A={"missed": "all", "expression": "rate(5 minutes)", "start": start}, since=noon)

        report = check(noon + 45 + 600)

        assert [each.at for each in report.missed if each.enqueued] == [noon, noon + 300]


class TestWhatIsNotExpected:
    @pytest.mark.parametrize(
        "members",
        [{"enabled": False}, {"ticks": False}, {"end": "2020-01-01T00:00:00Z"}],
        ids=str,
    )
    def test_of_what_is_disabled_has_no_ticks_or_is_over(self, check, save, noon, members):
        save(A=members, since=noon - 5 * HOUR)

        assert check(noon + 400).missed == []

    def test_what_is_further_back_than_a_day(self, check, save, noon):
        save(A={}, since=0)

        assert len(check(noon + 400).missed) == 24

    def test_what_was_paused_or_skipped(self, check, save, noon, redis):
        save(A={}, B={}, C={}, since=noon - 3.5 * HOUR)
        state = {"paused": {"at": noon - 2.5 * HOUR, "until": noon - 30}}
        redis.hset("kb:schedules:state", "shop/A", json.dumps(state))
        redis.hset("kb:schedules:state", "shop/B", json.dumps({"skipped": [noon - HOUR, noon]}))
        redis.hset("kb:schedules:state", "shop/C", json.dumps({"paused": {"at": 0, "until": None}}))

        assert [(each.schedule, each.at) for each in check(noon + 400).missed] == [
            ("shop/A", noon - 3 * HOUR),
            ("shop/A", noon),
            ("shop/B", noon - 3 * HOUR),
            ("shop/B", noon - 2 * HOUR),
        ]

    def test_a_schedule_that_nobody_published_or_that_cannot_be_read(
        self, check, save, noon, redis, caplog
    ):
        save(A={"expression": "cron(61 * * * ? *)"}, B={}, since=noon - 60)
        redis.hdel("kb:schedules", "shop/B")

        assert check(noon + 400).schedules == 0
        assert "schedule shop/A cannot be read" in caplog.text


class TestDynamicSchedules:
    def save(self, redis, cursor):
        document = {"expression": "0 * * * *", "jobs": [JOB], "missed": "all"}
        redis.hset("kb:schedules", "hourly", json.dumps(document))
        redis.hset("kb:cursors", "hourly", cursor)

    def test_one_whose_placing_lags_is_alerted_of_and_left_to_who_places_it(
        self, check, noon, redis
    ):
        self.save(redis, noon - HOUR)

        report = check(noon + 400)

        assert at_and_new(report) == [("hourly", noon, True)]
        assert report.enqueued == 0

    def test_one_that_is_placed_ahead_is_not_even_read(self, check, noon, redis):
        self.save(redis, noon + HOUR)

        assert check(noon + 400).schedules == 0


class TestWhatACheckCosts:
    def test_it_looks_again_only_at_what_has_come_due_since_the_last_one(self, check, save, noon):
        save(A={"expression": "cron(* * * * ? *)"}, since=noon - DAY)
        first = check(noon + 310)

        assert len(first.missed) > 1000
        assert [each.at for each in check(noon + 430).missed] == [
            noon + each for each in range(int(-AGAIN_S + 60), 121, 60)
        ]

    def test_four_round_trips_for_two_hundred_schedules(self, client, check, save, noon, redis):
        save(since=noon - HOUR, **{f"S{number}": {} for number in range(200)})
        came(client, "shop/S7", noon)
        check(noon - 4000)
        redis.config_resetstat()

        assert len(check(noon + 400).missed) == 199

        calls = {
            name.removeprefix("cmdstat_"): each["calls"]
            for name, each in redis.info("commandstats").items()
        }
        assert (calls["hmget"], calls["time"], calls["zrange"], calls["set"]) == (2, 1, 200, 1)
        assert calls.get("evalsha", 0) + calls.get("eval", 0) <= 2

    def test_ticks_are_forgotten_when_the_ledger_forgets(self, check, save, noon, redis):
        redis.zadd("kb:missed", {"1 old": 1})
        save(A={}, since=noon - 60)

        check(noon + 400)

        assert redis.zrange("kb:missed", 0, -1) == [f"{noon} shop/A".encode()]


class TestFaults:
    def test_what_could_not_be_enqueued_is_done_by_the_next_check(self, check, save, noon, redis):
        save(A={"missed": "all"}, B={"missed": "all"}, since=noon - 60)
        redis.set("queue:low", "mine")

        with pytest.raises(RedisRefused):
            check(noon + 400)
        assert [each.schedule for each in check.notified] == ["shop/A", "shop/B"]
        assert not redis.exists("kb:watched")
        redis.delete("queue:low")
        report = check(noon + 500)

        assert report.enqueued == 2
        assert check.notified == []

    def test_with_memory_full_nothing_is_half_recorded(self, check, save, noon, redis):
        save(A={}, since=noon - 60)
        redis.config_set("maxmemory", 1)

        try:
            with pytest.raises(RedisUnavailable, match="OOM"):
                check(noon + 400)
        finally:
            redis.config_set("maxmemory", 0)
        assert not redis.exists("kb:missed")

    def test_without_any_manifest_nothing_is_asked(self, check, noon):
        report = check(None)

        assert (report.schedules, list(report.missed)) == (0, [])


RULE = {
    "expression": "cron(* * * * ? *)",
    "jobs": [{"class": "Report", "args": []}],
    "origin": "template",
    "missed": "last",
}


def test_what_is_missing_is_counted_notified_and_enqueued_by_this_worker(client, redis, pool):
    since = int(redis.time()[0]) - 600
    redis.hset("kb:schedules", "shop/A", json.dumps(RULE | {"since": since}))
    entry = {"version": 1, "hash": "x", "published_at": since, "names": ["shop/A"]}
    redis.hset("kb:manifests", "shop", json.dumps(entry))
    seen = []
    watch = MissedWatch(lambda: [SimpleNamespace(put=seen.extend, stop=lambda: None)])
    worker = SimpleNamespace(client=client, by="worker:host:1:abc", notify=watch.notify)

    check = missed.watch(worker)
    check(pool.connection())
    check(pool.connection())
    watch.stop()

    assert 4 <= len(seen) == watch.found <= 6
    assert [each.enqueued for each in seen] == [False] * (len(seen) - 1) + [True]
    [entry] = redis.zrange("kb:ticks:shop/A", 0, -1)
    assert json.loads(entry)["by"] == "worker:host:1:abc"
