"""Saving, pausing, resuming, skipping, running and deleting schedules: what is in Redis then, and what is withdrawn."""

import json
import time
from datetime import UTC, datetime

import pytest
from support.placing import place_due

from kiqbridge import ConfigError, PayloadError, Schedule, Schedules
from kiqbridge.api import ScheduleSet, read_audit
from kiqbridge.features.dynamic import store as schedule_scripts
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store.ledger import read_ledger
from kiqbridge.wire.keys import Keys

KEYS = Keys()


def each_minute(name="s", **options) -> Schedule:
    return Schedule(name, "Nop", **{"every": 60, **options})


def placed(redis) -> dict[int, dict]:
    """Score → job of what waits in `schedule`."""
    found = redis.zrange("schedule", 0, -1, withscores=True)
    return {int(score): json.loads(text) for text, score in found}


def cursor(redis, name="s") -> int:
    return int(redis.hget("kb:cursors", name))


def put_template(redis, name="shop/Nightly") -> ScheduleDefinition:
    made = ScheduleDefinition(
        name=name,
        expression="cron(0 3 * * ? *)",
        jobs=({"class": "Nightly", "args": []},),
        origin="template",
    )
    redis.hset("kb:schedules", name, json.dumps(made.to_document()))
    return made


@pytest.fixture
def placed_ahead(redis, client, schedules):
    """The schedule `s` is saved, and its next occurrences are placed."""
    schedules.save(each_minute())
    assert place_due(client, by="t").placed >= 5
    return placed(redis)


class TestSave:
    def test_it_is_created_changed_and_unchanged(self, redis, schedules):
        before = int(time.time())

        assert schedules.save(each_minute()) == "created"
        assert schedules.save(each_minute()) == "unchanged"
        assert schedules.save(each_minute(description="d")) == "changed"

        assert before <= cursor(redis) <= time.time()
        assert redis.get("kb:schedules:changes") == b"2"
        known = schedules.get("s")
        assert known.definition.description == "d"
        assert known.state.paused is None
        assert [each.name for each in schedules] == ["s"]

    def test_a_dry_run_writes_nothing(self, redis, schedules):
        assert schedules.save(each_minute(), dry_run=True) == "created"

        assert not redis.keys("*")

    def test_other_times_withdraw_what_was_placed_and_count_from_now(
        self, redis, client, schedules, placed_ahead
    ):
        assert schedules.save(each_minute(every=3600, start="2020-01-01T00:00:01Z")) == "changed"

        assert placed(redis) == {}
        assert read_ledger(client.pool, KEYS, "s") == []
        assert redis.zcard("kb:placed:s") == 0
        assert cursor(redis) <= time.time()

    def test_another_job_takes_the_place_of_what_was_placed(
        self, redis, client, schedules, placed_ahead
    ):
        before = placed(redis)

        schedules.save(each_minute(queue="other"))
        place_due(client, by="t")

        after = placed(redis)
        assert set(before) <= set(after)
        assert {job["queue"] for job in after.values()} == {"other"}
        assert {entry.at for entry in read_ledger(client.pool, KEYS, "s")} == set(after)

    def test_what_was_promoted_is_left_and_stays_in_the_ledger(
        self, redis, client, schedules, placed_ahead
    ):
        first = min(placed(redis))
        [text] = redis.zrangebyscore("schedule", first, first)
        redis.zrem("schedule", text)
        redis.lpush("queue:default", text)

        schedules.save(each_minute(queue="other"))
        place_due(client, by="t")

        assert redis.llen("queue:default") == 1
        assert first not in placed(redis)
        assert first in {entry.at for entry in read_ledger(client.pool, KEYS, "s")}

    def test_disabling_withdraws_and_nothing_is_due(self, redis, client, schedules, placed_ahead):
        schedules.save(each_minute(enabled=False))

        assert placed(redis) == {}
        assert place_due(client, by="t").placed == 0

    def test_one_of_a_template_is_refused(self, redis, schedules):
        put_template(redis)

        with pytest.raises(ConfigError, match="a rule of a template"):
            schedules.save(each_minute("shop/Nightly"))
        with pytest.raises(ConfigError, match="a rule of a template"):
            schedules.delete("shop/Nightly")

    def test_one_that_cannot_be_read_is_replaced(self, redis, schedules):
        redis.hset("kb:schedules", "s", "junk")
        assert schedules.get("s") is None
        assert schedules.list() == []

        assert schedules.save(each_minute()) == "changed"

    def test_who_was_slower_reads_again(self, redis, client, schedules, monkeypatch):
        schedules.save(each_minute())
        original, calls = schedules._read, []

        def read(name):
            found = original(name)
            if not calls:
                calls.append(1)
                Schedules(client).save(each_minute(description="faster"))
            return found

        monkeypatch.setattr(schedules, "_read", read)
        assert schedules.save(each_minute(description="slower")) == "changed"

        assert schedules.get("s").definition.description == "slower"
        assert redis.get("kb:schedules:changes") == b"3"


class TestPause:
    def test_what_was_placed_is_withdrawn_and_nothing_is_placed_until_it_is_resumed(
        self, redis, client, schedules, placed_ahead
    ):
        made = schedules.pause("s", reason="migration", by="ana")

        assert placed(redis) == {}
        assert schedules.get("s").state.paused == made
        assert (made.reason, made.by, made.until) == ("migration", "ana", None)
        assert place_due(client, by="t", now=time.time() + 1000).placed == 0

        assert schedules.resume("s") is True
        assert schedules.resume("s") is False
        assert redis.hgetall("kb:schedules:state") == {}
        assert place_due(client, by="t").placed >= 5

    def test_nothing_of_the_time_of_the_pause_is_caught_up(self, redis, client, schedules):
        schedules.save(each_minute())
        schedules.pause("s")
        now = int(time.time())
        redis.hset("kb:cursors", "s", now - 7200)

        schedules.resume("s")

        report = place_due(client, by="t")
        assert report.missed == []
        assert min(placed(redis)) > now - 3700  # whichever way a clock is set meanwhile

    def test_with_an_end_what_comes_due_after_it_is_placed(
        self, redis, client, schedules, placed_ahead
    ):
        made = schedules.pause("s", for_s=150)

        place_due(client, by="t")
        assert min(placed(redis)) >= made.until
        assert min(placed(redis)) - made.until < 60

    def test_one_that_is_over_is_no_pause_and_resuming_it_loses_nothing(
        self, redis, client, schedules
    ):
        schedules.save(each_minute())
        now = int(time.time())
        state = {"paused": {"reason": "", "by": "", "at": now - 900, "until": now - 100.5}}
        redis.hset("kb:schedules:state", "s", json.dumps(state))
        redis.hset("kb:cursors", "s", now - 600)

        assert schedules.resume("s") is False

        assert cursor(redis) == now - 101
        assert redis.hgetall("kb:schedules:state") == {}
        assert place_due(client, by="t").placed >= 6

    def test_one_of_a_template_gets_a_state_and_no_cursor(self, redis, schedules):
        put_template(redis)

        schedules.pause("shop/Nightly", until=time.time() + 60)

        assert json.loads(redis.hget("kb:schedules:state", "shop/Nightly"))["paused"]["until"]
        assert redis.hgetall("kb:cursors") == {}
        assert schedules.resume("shop/Nightly") is True

    @pytest.mark.parametrize(
        "options", [{"for_s": 0}, {"until": 5.0}, {"for_s": 1, "until": 9e9}, {"reason": object()}]
    )
    def test_wrong_values_are_refused(self, redis, schedules, options):
        with pytest.raises(PayloadError):
            schedules.pause("s", **options)
        assert not redis.keys("*")


class TestSkip:
    def test_the_next_ones_are_withdrawn_and_not_placed_again(
        self, redis, client, schedules, placed_ahead
    ):
        before = sorted(placed(redis))

        skipped = schedules.skip_next("s", 2)

        assert skipped == before[:2]
        assert sorted(placed(redis)) == before[2:]
        place_due(client, by="t", now=time.time() + 30)
        assert not set(skipped) & set(placed(redis))
        assert schedules.skip_next("s") == before[2:3]
        assert schedules.get("s").state.skipped == tuple(before[:3])

    def test_one_that_is_not_known_is_refused_with_near_names(self, schedules):
        schedules.save(each_minute("nightly"))

        with pytest.raises(PayloadError, match="did you mean nightly"):
            schedules.skip_next("nihgtly")

    @pytest.mark.parametrize("count", [0, 1001, True, 1.5])
    def test_a_wrong_count_is_refused(self, schedules, count):
        with pytest.raises(PayloadError, match="count"):
            schedules.skip_next("s", count)


class TestRun:
    def test_an_extra_run_has_an_entry_of_its_own_and_the_next_one_fires_as_well(
        self, redis, client, schedules
    ):
        schedules.save(each_minute(overlap="skip"))
        place_due(client, by="t")
        before = placed(redis)

        made = schedules.run("s", by="cli:ana@host")

        entry = next(each for each in read_ledger(client.pool, KEYS, "s") if each.at == made.at)
        assert (entry.by, list(entry.jids)) == ("cli:ana@host", made.jids)
        assert made.at <= time.time()
        assert made.at % 60
        after = placed(redis)
        [extra] = [after[score] for score in after.keys() - before.keys()]
        assert extra["tick"] == {"schedule": "s", "at": made.at, "overlap": "skip"}
        assert before.items() <= after.items()

    def test_two_extra_runs_within_a_second_are_two(self, redis, schedules):
        schedules.save(each_minute(every=3600))

        first, second = schedules.run("s"), schedules.run("s")

        assert first.at != second.at
        assert redis.zcard("schedule") == 2

    @pytest.mark.parametrize("is_placed", [True, False])
    def test_a_counted_run_takes_the_place_of_the_next_one(
        self, redis, client, schedules, is_placed
    ):
        schedules.save(each_minute())
        if is_placed:
            place_due(client, by="t")

        made = schedules.run("s", counted=True)

        assert made.at > time.time() - 1
        [job] = [each for each in placed(redis).values() if each["tick"]["at"] == made.at]
        assert job["jid"] == made.jids[0]
        assert redis.zscore("schedule", _text_of(redis, job["jid"])) <= time.time()
        place_due(client, by="t")
        ticks = [json.loads(text)["tick"]["at"] for text in redis.zrange("schedule", 0, -1)]
        assert len(ticks) == len(set(ticks)) >= 5
        with pytest.raises(PayloadError, match="was enqueued already"):
            schedules.run("s", counted=True)

    def test_a_counted_run_stands_for_the_last_one_if_that_was_missed(self, redis, schedules):
        schedules.save(each_minute(every=3600))
        last = int(time.time()) // 3600 * 3600
        redis.zadd("kb:missed", {f"{last} s": last})

        assert schedules.run("s", counted=True).at == last

    def test_one_of_a_template_runs_too_and_while_it_is_paused(self, redis, schedules):
        put_template(redis)
        schedules.pause("shop/Nightly")

        extra = schedules.run("shop/Nightly")
        counted = schedules.run("shop/Nightly", counted=True)

        assert extra.at % 60
        moment = datetime.fromtimestamp(counted.at, UTC)
        assert (moment.hour, moment.minute) == (3, 0)
        assert redis.zcard("kb:ticks:shop/Nightly") == 2
        assert redis.zcard("schedule") == 2

    def test_a_schedule_that_is_over_has_none_that_could_count(self, schedules):
        schedules.save(Schedule("s", "Nop", at="2020-01-01T00:00:00Z"))

        with pytest.raises(PayloadError, match="no further occurrence"):
            schedules.run("s", counted=True)
        assert schedules.run("s").jids


class TestDelete:
    def test_nothing_of_it_is_left_but_its_past(self, redis, client, schedules, placed_ahead):
        schedules.skip_next("s")
        run = schedules.run("s")

        assert schedules.delete("s") is True
        assert schedules.delete("s") is False

        assert [job["jid"] for job in placed(redis).values()] == run.jids
        assert [entry.at for entry in read_ledger(client.pool, KEYS, "s")] == [run.at]
        assert redis.hgetall("kb:schedules") == {}
        assert redis.hgetall("kb:schedules:state") == {}
        assert redis.hgetall("kb:cursors") == {}
        assert place_due(client, by="t").placed == 0


class TestRepeated:
    """A reply that was lost: the same call again."""

    def test_saving(self, redis, client):
        arguments = {"known": b"", "text": b"{}", "cursor": 5, "withdraw_after": None}

        assert schedule_scripts.save(client.pool, KEYS, "s", **arguments)
        assert schedule_scripts.save(client.pool, KEYS, "s", **arguments)

        assert redis.get("kb:schedules:changes") == b"1"

    def test_a_state(self, redis, client):
        redis.zadd("kb:placed:s", {"a": 60, "b": 120})
        redis.zadd("schedule", {"a": 60, "b": 120})
        arguments = {"known": b"", "state": b"{}", "cursor": "back", "withdraw": [120]}

        assert schedule_scripts.hold(client.pool, KEYS, "s", **arguments)
        assert schedule_scripts.hold(client.pool, KEYS, "s", **arguments)

        assert redis.zrange("schedule", 0, -1) == [b"a"]
        assert cursor(redis) == 119
        assert redis.get("kb:schedules:changes") == b"1"

    def test_a_deletion(self, redis, client):
        redis.hset("kb:schedules", "s", "{}")
        redis.hset("kb:schedules:state", "s", "x")
        arguments = {"known": b"x", "state": b"", "verb": "delete", "withdraw": "all"}

        assert schedule_scripts.hold(client.pool, KEYS, "s", **arguments)
        assert schedule_scripts.hold(client.pool, KEYS, "s", **arguments)
        again = {"known": b"other", "state": b"", "verb": "delete"}
        assert schedule_scripts.hold(client.pool, KEYS, "s", **again)

    def test_what_has_changed_meanwhile_is_not_overwritten(self, redis, client):
        redis.hset("kb:schedules", "s", "new")
        redis.hset("kb:schedules:state", "s", "new")

        assert not schedule_scripts.save(
            client.pool, KEYS, "s", known=b"old", text=b"x", cursor=5, withdraw_after=None
        )
        assert not schedule_scripts.hold(client.pool, KEYS, "s", known=b"old", state=b"x")

        assert redis.hgetall("kb:schedules") == {b"s": b"new"}
        assert redis.hgetall("kb:schedules:state") == {b"s": b"new"}


def _text_of(redis, jid) -> bytes:
    [text] = [each for each in redis.zrange("schedule", 0, -1) if jid.encode() in each]
    return text


def test_what_operators_do_is_audited(redis, operator):
    schedules = ScheduleSet(operator)
    Schedules(operator.client).save(each_minute())

    made = schedules.run("s")
    assert len(made.jids) == redis.zcard("schedule") == 1  # due at once: the poller moves it
    assert schedules.find("s").last.by == "web:ann"
    skipped = schedules.skip("s", 2)
    schedules.pause("s", reason="migration")
    assert schedules.find("s").pause.by == "ann"
    assert schedules.resume("s")
    assert not schedules.resume("s")
    with pytest.raises(PayloadError, match="not known"):
        schedules.run("other")

    done = [
        (each.action, each.target, each.detail, each.count, each.by)
        for each in read_audit(operator)
    ]
    assert done == [
        ("resume", "schedule:s", "", 1, "ann"),
        ("pause", "schedule:s", "migration", 1, "ann"),
        (
            "skip",
            "schedule:s",
            ", ".join(f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}" for at in skipped),
            2,
            "ann",
        ),
        ("run", "schedule:s", "extra", 1, "ann"),
    ]
