"""The lines and sums of a run's ticks, from the ledger as it is in Redis."""

import io
from datetime import UTC, datetime, timedelta

import pytest

from kiqbridge.dev.console import Console
from kiqbridge.dev.firing import SIMULATED, SimulatedClock
from kiqbridge.dev.ledger_watch import DeliveredTick, LedgerWatch, ledger_text, outcome_text
from kiqbridge.store.ledger import LedgerEntry
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import JobEnd

AT = 1_780_000_200  # a full minute
JIDS = ("a" * 24, "b" * 24)


@pytest.fixture
def stream():
    return io.StringIO()


@pytest.fixture
def watch(redis_url, redis, stream):
    return watch_on(redis_url, stream)


def watch_on(url, stream, **clock):
    return LedgerWatch(
        console=Console(stream, on_closed=lambda: None),
        pool=RedisPool(url),
        keys=Keys(""),
        clock=SimulatedClock(**{"start": AT, **clock}),
    )


def entry_of(schedule="s", **more):
    given = {"at": AT, "jids": [], "by": "lambda:1", "enqueued_at": AT, **more}
    return LedgerEntry(schedule=schedule, **given)


def enqueue(redis, *, at=AT, jids=JIDS[:1], late_s=0.1, schedule="shop/Nightly"):
    """An entry as push_tick writes it."""
    entry = {"at": at, "jids": list(jids), "by": "lambda:r1", "enqueued_at": at + late_s}
    redis.zadd(f"kb:ticks:{schedule}", {json_text.dumps(entry): at})


def end(redis, *, at=AT, schedule="shop/Nightly", **changes):
    """An end as the worker's scripts write it."""
    about = {"jid": JIDS[0], "outcome": "done", "ended_at": at + 1, "took_s": 0.03, **changes}
    redis.zadd(f"kb:ends:{schedule}", {JobEnd(at=at, **about).to_text(): at})


def tick(*, at=AT, jobs=1, schedule="shop/Nightly", due=float(AT)):
    return DeliveredTick(rule="Nightly", schedule=schedule, at=at, jobs=jobs, due=due)


def lines(stream):
    return [line.partition("ledger   ")[2] for line in stream.getvalue().splitlines()]


class TestALine:
    def test_is_shown_when_the_last_job_of_a_tick_has_ended(self, watch, redis, stream):
        enqueue(redis, jids=JIDS)
        watch.follow(tick(jobs=2))
        end(redis)

        watch.look(0)
        assert lines(stream) == []
        assert watch.is_waiting
        end(redis, jid=JIDS[1], outcome="dead", took_s=0.5)
        watch.look(1)
        assert lines(stream) == [], "the worker's own line comes before it"
        assert watch.is_waiting
        watch.look(1.25)

        [line] = lines(stream)
        assert line == (
            "Nightly  2026-05-28T20:30:00Z  by lambda  late 0.100 s  attempts 1  1 done, 1 dead in 0.500 s at most"
        )
        assert not watch.is_waiting

    def test_counts_each_delivery(self, watch, redis, stream):
        enqueue(redis)
        redis.hset("kb:attempts:shop/Nightly", AT, 3)
        watch.follow(tick())
        end(redis)

        watch.look(0, is_last=True)

        assert "attempts 3  done in 0.030 s" in lines(stream)[0]

    def test_comes_once_a_second_for_a_rule_and_counts_the_others_in_it(self, watch, redis, stream):
        for minute in range(13):
            at = AT + 60 * minute
            enqueue(redis, at=at, late_s=0.1 + minute / 100)
            watch.follow(tick(at=at, due=float(at)))
        end(redis)
        watch.look(0)
        watch.look(0.25)
        for minute in range(1, 13):
            end(redis, at=AT + 60 * minute)
        watch.look(0.5)
        watch.look(1.0)
        assert len(lines(stream)) == 1

        watch.look(1.25)

        assert lines(stream)[1] == (
            "Nightly  12 ticks 2026-05-28T20:31:00Z to 2026-05-28T20:42:00Z  by lambda  late 0.220 s at most  attempts 12  "
            "12 done in 0.030 s at most"
        )

    def test_that_waits_for_its_second_is_shown_at_the_end(self, watch, redis, stream):
        for at in (AT, AT + 60):
            enqueue(redis, at=at)
            watch.follow(tick(at=at))
            end(redis, at=at)
            watch.look(at - AT if at == AT else 0.3)
        assert len(lines(stream)) == 1

        watch.look(0.6)
        assert len(lines(stream)) == 1
        watch.look(0.7, is_last=True)

        assert len(lines(stream)) == 2

    def test_of_a_tick_that_was_fired_at_once_has_no_lateness(self, watch, redis, stream):
        enqueue(redis)
        watch.follow(tick(due=None))
        end(redis)

        watch.look(0, is_last=True)

        assert "by lambda  fired at once  attempts 1" in lines(stream)[0]

    def test_names_the_date_of_another_day(self):
        entry = entry_of()
        today = datetime.fromtimestamp(AT, UTC).date()

        assert ledger_text([(entry, 0.0)], today=today).startswith("20:30:00Z  by lambda")
        tomorrow = today + timedelta(days=1)
        assert ledger_text([(entry, 0.0)], today=tomorrow).startswith("2026-05-28T20:30:00Z  by")


class TestTheSums:
    def test_say_what_became_of_the_jobs(self, watch, redis):
        for minute, outcome in enumerate(("done", "dead", "skipped", None)):
            at = AT + 60 * minute
            enqueue(redis, at=at, late_s=minute)
            watch.follow(tick(at=at, due=float(at)))
            if outcome:
                end(redis, at=at, outcome=outcome)

        watch.look(0)

        sums = watch.sums["Nightly"]
        assert (sums.ticks, sums.jobs, sums.open) == (4, 4, 1)
        assert sums.ends == {"done": 1, "dead": 1, "skipped": 1}
        assert sums.late_s == 3.0

    def test_count_a_job_that_ended_twice_once(self, watch, redis, stream):
        enqueue(redis, jids=JIDS)
        watch.follow(tick(jobs=2))
        end(redis, outcome="dead", ended_at=AT + 1)
        end(redis, outcome="done", ended_at=AT + 9)

        watch.look(0)

        assert watch.is_waiting
        assert watch.sums["Nightly"].open == 2
        end(redis, jid=JIDS[1])
        watch.look(1, is_last=True)
        assert lines(stream)[0].endswith("2 done in 0.030 s at most")
        assert watch.sums["Nightly"].ends == {"done": 2}

    def test_keep_what_is_not_followed_any_more_as_open(self, watch, redis):
        for minute in range(300):
            watch.follow(tick(at=AT + 60 * minute))
        enqueue(redis)
        end(redis)

        watch.look(0)

        assert watch.sums["Nightly"].open == 300


class TestTicksOfDynamicSchedules:
    def test_are_found_when_their_instant_has_come(self, watch, redis, stream):
        enqueue(redis, at=AT - 60, schedule="old")
        for at in (AT + 60, AT + 120):
            enqueue(redis, at=at, late_s=-50, schedule="old")
            end(redis, at=at, schedule="old")

        watch.find(["old", "none"], AT + 59)
        assert watch.sums == {}
        watch.find(["old"], AT + 60)
        watch.find(["old"], AT + 61)
        watch.look(0, is_last=True)

        assert watch.sums["old"].ticks == 1, (
            "what is from before the start, or to come, does not count"
        )
        assert lines(stream) == [
            "old  2026-05-28T20:31:00Z  by lambda  placed 50 s ahead  attempts 1  done in 0.030 s"
        ]

    def test_that_were_left_out_are_not_followed(self, watch, redis):
        entry = {"at": AT + 60, "jids": [], "by": "worker:1", "enqueued_at": AT, "paused": True}
        redis.zadd("kb:ticks:old", {json_text.dumps(entry): AT + 60})

        watch.find(["old"], AT + 60)

        assert watch.sums == {}


class TestLateness:
    def test_of_a_simulated_tick_is_counted_in_real_seconds_from_when_its_clock_showed_it(
        self, redis_url, redis, stream
    ):
        watch = watch_on(redis_url, stream, start=5000.0, speed=600, shows=float(AT))
        entry = entry_of(f"s{SIMULATED}1", at=AT + 600, enqueued_at=5001.25)
        assert watch.late_s(entry) == 0.25

    def test_of_what_was_placed_ahead_is_below_zero_and_none_at_once(self, watch):
        assert watch.late_s(entry_of(enqueued_at=AT - 120)) == -120
        assert watch.late_s(entry_of("s#run-1")) is None


def test_a_server_that_is_away_is_no_error(stream):
    watch = watch_on("redis://127.0.0.1:1/0", stream)
    watch.follow(tick())

    watch.look(0)

    assert watch.is_waiting


def test_the_text_of_jobs_that_have_not_ended():
    assert outcome_text([entry_of(jids=JIDS)]) == "2 open"
