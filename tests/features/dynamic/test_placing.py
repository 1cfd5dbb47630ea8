"""Placing the occurrences of dynamic schedules: each once, at its second, whoever does it and however often."""

import json
import threading
import time

import pytest
from support.engine import UnreliableConnection
from support.placing import place_due
from support.waiting import at_once

from kiqbridge import Client, RedisUnavailable, Schedule, Schedules
from kiqbridge.features.dynamic import placing
from kiqbridge.features.dynamic.placing import HORIZON_S, REFRESH_S, Placer
from kiqbridge.features.dynamic.store import KEPT_ENTRIES, PlacedJobs, Placement, place
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store.ledger import read_ledger
from kiqbridge.wire.keys import Keys

KEYS = Keys()
NO_JOB = {"expression": "rate(1 minute)", "jobs": [{"class": "", "args": []}]}


def each_minute(name="s", **options) -> Schedule:
    return Schedule(name, "Nop", **{"every": 60, **options})


def define(redis, count: int, *, cursor: int, expression="rate(1 minute)", **options) -> None:
    """Write definitions straight away, as many as a test needs."""
    for first in range(0, count, 1000):
        names = [f"s{number:05}" for number in range(first, min(first + 1000, count))]
        document = {name: _document(name, expression, options) for name in names}
        redis.hset("kb:schedules", mapping=document)
        redis.hset("kb:cursors", mapping=dict.fromkeys(names, cursor))
    redis.incr("kb:schedules:changes")


def _document(name, expression, options) -> str:
    made = ScheduleDefinition(
        name=name, expression=expression, jobs=({"class": "Nop", "args": [name]},), **options
    )
    return json.dumps(made.to_document())


def ticks(redis, key="schedule") -> list[tuple[str, int]]:
    """Schedule and instant of each job."""
    texts = redis.zrange(key, 0, -1) if key == "schedule" else redis.lrange(key, 0, -1)
    found = [json.loads(text)["tick"] for text in texts]
    return sorted((each["schedule"], each["at"]) for each in found)


class TestOne:
    def test_the_job_is_as_a_push_writes_it_and_the_ledger_knows_it(self, redis, client, schedules):
        schedules.save(
            Schedule("s", "Nop", args=[1], queue="low", every=60, overlap="skip", max_age_s=600)
        )
        before = time.time()

        report = place_due(client, by="worker:me")

        texts = redis.zrange("schedule", 0, -1, withscores=True)
        assert report.placed == len(texts) in {6, 5}
        text, score = texts[0]
        job = json.loads(text)
        assert list(job) == ["retry", "queue", "class", "args", "tick", "jid", "created_at"]
        assert job["tick"] == {
            "schedule": "s",
            "at": int(score),
            "overlap": "skip",
            "max_age_s": 600.0,
        }
        assert (job["queue"], job["args"], score % 60) == ("low", [1], 0)
        [*_, entry] = read_ledger(client.pool, KEYS, "s")
        assert (entry.at, list(entry.jids), entry.by) == (int(score), [job["jid"]], "worker:me")
        assert before - 1 < entry.enqueued_at <= time.time() + 1
        assert entry.lateness_s < 0
        assert redis.zrange("kb:placed:s", 0, 0) == [text]
        assert redis.zscore("kb:ledgers", "s") > time.time() + 17 * 86_400

    def test_it_is_placed_for_the_horizon_and_again_only_before_that_is_over(
        self, redis, client, schedules
    ):
        schedules.save(each_minute())
        placer = Placer(client, KEYS, by="t")
        start = int(time.time())
        redis.config_resetstat()
        placer.place(client.pool, start)

        reached = [max(at for _, at in ticks(redis))]
        for now in range(start, start + 600):
            placer.place(client.pool, now)
            reached.append(max(at for _, at in ticks(redis)))
            assert reached[-1] > now + HORIZON_S - 60

        assert [at for _, at in ticks(redis)] == list(
            range(start // 60 * 60 + 60, reached[-1] + 1, 60)
        )
        assert redis.info("commandstats")["cmdstat_evalsha"]["calls"] < 20

    def test_jitter_puts_off_the_job_and_not_the_instant(self, redis, client, schedules):
        schedules.save(each_minute(jitter_s=30))

        place_due(client, by="t")

        definition = schedules.get("s").definition
        for text, score in redis.zrange("schedule", 0, -1, withscores=True):
            at = json.loads(text)["tick"]["at"]
            assert at % 60 == 0
            assert score == at + definition.put_off_s(at)

    def test_client_middleware_is_called_and_may_stop_a_job(self, redis, client, schedules):
        def middleware(declared, payload, queue, call_next):
            return call_next() if payload["tick"]["at"] % 120 else None

        client.middleware.add(middleware)
        schedules.save(each_minute())

        place_due(client, by="t")

        assert all(at % 120 for _, at in ticks(redis))
        empty = [each for each in read_ledger(client.pool, KEYS, "s") if not each.jids]
        assert empty
        assert all(each.at % 120 == 0 for each in empty)

    def test_without_a_cursor_it_counts_from_now(self, redis, client):
        define(redis, 1, cursor=5)
        redis.delete("kb:cursors")
        now = int(time.time())

        assert place_due(client, by="t", now=now).missed == []

        assert min(at for _, at in ticks(redis)) > now
        define(redis, 1, cursor=5, expression="cron(0 3 1 1 ? 2199)")
        redis.delete("kb:cursors")
        place_due(client, by="t", now=now)
        assert redis.hget("kb:cursors", "s00000") == str(now).encode()

    def test_one_of_a_template_is_never_placed(self, redis, client):
        define(redis, 1, cursor=5, origin="template")

        report = place_due(client, by="t")

        assert (report.schedules, report.placed) == (0, 0)
        assert redis.zcard("schedule") == 0


class TestLate:
    def test_what_was_missed_is_noted_and_the_last_one_placed_for_now(self, redis, client, caplog):
        now = 1_700_049_600
        define(redis, 1, cursor=now - 3600, expression="rate(10 minutes)", missed="last")

        report = place_due(client, by="t", now=now + 540)

        missed = [now + minute * 60 for minute in (-50, -40, -30, -20, -10, 0)]
        assert report.missed == [("s00000", at) for at in missed]
        assert [(each.at, each.policy, each.enqueued) for each in report.new] == [
            (at, "last", at == now) for at in missed
        ]
        assert ticks(redis) == [("s00000", now), ("s00000", now + 600)]
        assert redis.zrange("schedule", 0, 0, withscores=True)[0][1] == now + 540
        assert redis.zrange("kb:missed", 0, -1) == [f"{at} s00000".encode() for at in missed]
        assert "6 occurrences were not enqueued in time" in caplog.text
        assert place_due(client, by="t", now=now + 541).missed == []

    def test_nobody_is_notified_again_of_what_the_watch_has_recorded(self, redis, client):
        now = 1_700_049_600
        define(redis, 1, cursor=now - 1200, expression="rate(10 minutes)", missed="all")
        redis.zadd("kb:missed", {f"{now - 600} s00000": now - 600})

        report = place_due(client, by="t", now=now + 540)

        assert [at for _, at in report.missed] == [now - 600, now]
        assert [(each.at, each.late_s) for each in report.new] == [(now, 540)]

    def test_an_absence_shorter_than_the_horizon_is_not_noticed(self, redis, client):
        now = 1_700_049_600
        define(redis, 1, cursor=now)
        placer = Placer(client, KEYS, by="t")
        placer.place(client.pool, now)
        before = set(redis.zrange("schedule", 0, -1))

        report = placer.place(client.pool, now + HORIZON_S)

        assert report.missed == []
        assert before <= set(redis.zrange("schedule", 0, -1))
        assert len(ticks(redis)) == len(set(ticks(redis))) == 11


class TestConcurrent:
    @pytest.mark.parametrize("count", [1, 40])
    def test_many_at_once_place_each_occurrence_once(self, redis, redis_url, count):
        now = 1_700_049_600
        define(redis, count, cursor=now - 120, missed="all")
        barrier = threading.Barrier(5)

        def run():
            own = Client(redis_url)
            placer = Placer(own, KEYS, by="worker")
            barrier.wait()
            for moment in range(now, now + 300, 7):
                placer.place(own.pool, moment)
            own.close()

        at_once(*[run] * 5)
        place_due(Client(redis_url), by="t", now=now + 300)

        wanted = list(range(now - 60, now + 661, 60))
        assert ticks(redis) == [(f"s{number:05}", at) for number in range(count) for at in wanted]
        for number in range(count):
            assert redis.zcard(f"kb:ticks:s{number:05}") == len(wanted)

    def test_a_definition_that_changes_meanwhile_is_not_placed_by_its_old_text(
        self, redis, client, schedules
    ):
        schedules.save(each_minute())
        connection = UnreliableConnection(client.pool.connection())
        placer = Placer(client, KEYS, by="t")
        connection.before_script = lambda: Schedules(Client(pool=client.pool)).save(
            each_minute(queue="other")
        )

        report = placer.place(connection)

        assert (report.placed, report.conflicts) == (0, 1)
        connection.before_script = lambda: None
        assert placer.place(connection).placed >= 5
        assert {json.loads(text)["queue"] for text in redis.zrange("schedule", 0, -1)} == {"other"}

    def test_a_pause_meanwhile_is_respected(self, redis, client, schedules):
        schedules.save(each_minute())
        connection = UnreliableConnection(client.pool.connection())
        connection.before_script = lambda: schedules.pause("s")
        placer = Placer(client, KEYS, by="t")

        assert placer.place(connection).conflicts == 1
        connection.before_script = lambda: None
        assert placer.place(connection).placed == 0

        assert redis.zcard("schedule") == 0

    def test_a_lost_reply_places_nothing_twice(self, redis, client, schedules):
        schedules.save(each_minute())
        connection = UnreliableConnection(client.pool.connection())
        connection.lose = {1}
        placer = Placer(client, KEYS, by="t")

        with pytest.raises(RedisUnavailable):
            placer.place(connection)
        first = ticks(redis)
        placer.place(connection)
        placer.place(connection)

        assert ticks(redis) == first
        assert len(first) == len(set(first)) >= 5

    def test_a_change_is_seen_at_the_next_call(self, redis, client, schedules):
        placer = Placer(client, KEYS, by="t")
        assert placer.place(client.pool).schedules == 0

        schedules.save(each_minute())

        assert placer.place(client.pool).placed >= 5
        schedules.delete("s")
        assert placer.place(client.pool).schedules == 0


class TestCost:
    @pytest.mark.slow
    @pytest.mark.parametrize("count", [0, 1])
    def test_a_change_that_was_not_counted_is_seen_later(self, redis, client, monkeypatch, count):
        define(redis, count, cursor=int(time.time()), expression="cron(0 3 1 1 ? 2199)")
        placer = Placer(client, KEYS, by="t")
        placer.place(client.pool)
        define(redis, 2, cursor=int(time.time()))
        redis.decr("kb:schedules:changes")  # as a server that was restored

        assert placer.place(client.pool).placed == 0
        later = time.monotonic() + REFRESH_S
        monkeypatch.setattr(placing, "monotonic", lambda: later)
        assert placer.place(client.pool).placed > 0

    def test_ten_thousand_schedules_take_few_scripts(self, redis, client):
        now = 1_700_049_600
        define(redis, 10_000, cursor=now, expression="rate(5 minutes)")
        placer = Placer(client, KEYS, by="t")

        def placed_at(moment):
            redis.config_resetstat()
            report = placer.place(client.pool, moment)
            stats = redis.info("commandstats")
            return report.placed, stats.get("cmdstat_evalsha", {"calls": 0})["calls"]

        for moment in (now, now + 300):
            placed, scripts = placed_at(moment)
            assert placed == 10_000
            assert scripts <= 30
        assert placed_at(now + 301) == (0, 0)
        assert redis.zcard("schedule") == 20_000

    def test_the_ledger_keeps_the_newest_of_what_is_past(self, redis, client):
        now = 1_700_049_600
        define(redis, 1, cursor=now)
        placer = Placer(client, KEYS, by="t")
        redis.zadd("kb:ends:s00000", {"old": now + 60, "new": now + 18_000})
        redis.hset("kb:attempts:s00000", mapping={str(now + 60): 2, str(now + 18_000): 2})
        for moment in range(now, now + 18_000, 120):
            placer.place(client.pool, moment)
            redis.zremrangebyscore("schedule", "-inf", moment)  # promoted

        assert KEPT_ENTRIES < redis.zcard("kb:ticks:s00000") < KEPT_ENTRIES + 25
        assert redis.zcard("kb:placed:s00000") < 12
        assert redis.zrange("kb:ends:s00000", 0, -1) == [b"new"]
        assert list(redis.hgetall("kb:attempts:s00000")) == [str(now + 18_000).encode()]


class TestFaults:
    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (
                lambda redis: redis.hset("kb:schedules", "s00000", json.dumps(NO_JOB)),
                "its jobs cannot be enqueued",
            ),
            (lambda redis: redis.set("kb:ticks:s00000", "x"), "a key of it holds another type"),
        ],
    )
    def test_one_that_cannot_be_placed_does_not_keep_the_others(
        self, redis, client, caplog, spoil, message
    ):
        now = int(time.time())
        define(redis, 2, cursor=now)
        spoil(redis)

        assert place_due(client, by="t", now=now).placed >= 5

        assert {name for name, _ in ticks(redis)} == {"s00001"}
        assert f"schedule s00000: {message}" in caplog.text

    def test_one_that_cannot_be_read_is_logged_once(self, redis, client, caplog):
        define(redis, 2, cursor=int(time.time()))
        redis.hset("kb:schedules", "s00000", "junk")
        placer = Placer(client, KEYS, by="t")

        placer.place(client.pool)
        redis.incr("kb:schedules:changes")
        placer.place(client.pool)

        assert caplog.text.count("cannot be read") == 1
        assert {name for name, _ in ticks(redis)} == {"s00001"}

    def test_an_occurrence_that_the_ledger_knows_is_not_placed_again(self, redis, client):
        anything = {"name": "s", "definition": "*", "state": "*", "cursor": "*", "new_cursor": None}
        first, second = (
            Placement(
                occurrences=[PlacedJobs(instant=60, entry=entry, jobs=[(60, text)])], **anything
            )
            for entry, text in ((b'{"n":1}', b"a"), (b'{"n":2}', b"b"))
        )

        results = [place(client.pool, KEYS, 100.0, [each]) for each in (first, second, first)]

        assert results == [[1], [0], [1]]
        assert redis.zrange("schedule", 0, -1) == [b"a"]
        assert redis.zrange(KEYS.ticks("s"), 0, -1) == [b'{"n":1}']

    def test_who_read_an_older_cursor_places_nothing_even_if_the_ledger_was_trimmed(
        self, redis, client
    ):
        redis.hset("kb:cursors", "s", 100)
        placement = Placement(
            name="s",
            definition="",
            state="",
            cursor=40,
            new_cursor=60,
            occurrences=[PlacedJobs(instant=60, entry=b"{}", jobs=[(60, b"a")])],
        )

        assert place(client.pool, KEYS, 100.0, [placement]) == [-1]

        assert redis.zcard("schedule") == 0
        assert redis.hget("kb:cursors", "s") == b"100"
