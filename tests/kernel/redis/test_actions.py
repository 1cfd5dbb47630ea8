"""`kiqbridge.api` acts on the jobs of sets: each whole, once, audited; what has changed meanwhile is left alone."""

import json
import time

import pytest
from support.runners import ends_in

from kiqbridge.api import (
    DeadSet,
    Filter,
    RetrySet,
    ScheduledSet,
    read_audit,
    record_audit,
)
from kiqbridge.errors import PayloadError, RedisRefused
from kiqbridge.store import operating
from kiqbridge.store.operating import BATCH, LOOK, Act, Batch, Note, operate

SETS = {"retry": RetrySet, "schedule": ScheduledSet, "dead": DeadSet}


def text(jid, name="Mail", **more):
    item = {
        "retry": True,
        "queue": "default",
        "class": name,
        "args": [jid],
        "jid": jid,
        "created_at": 1700000000.25,
        **more,
    }
    return json.dumps(item, separators=(",", ":")).encode()


def fill(redis, key, count, first=1000.0, **more):
    members = {text(f"j{number}", **more): first + number for number in range(count)}
    if members:
        redis.zadd(key, members)
    return list(members)


def jids(redis, key="queue:default"):
    return [json.loads(each)["jid"] for each in reversed(redis.lrange(key, 0, -1))]


def audited(operator):
    return [
        (each.action, each.target, each.count, each.by, each.via) for each in read_audit(operator)
    ]


class TestOne:
    def test_what_is_dead_already_dies_now_when_it_is_killed(self, redis, operator):
        fill(redis, "dead", 2, first=time.time() - 60)

        assert DeadSet(operator).find_job("j0").kill()

        assert [entry.jid for entry in DeadSet(operator)] == ["j0", "j1"]

    @pytest.mark.parametrize("name", SETS)
    def test_a_job_that_was_rescheduled_meanwhile_is_left_alone(self, redis, operator, name):
        [member] = fill(redis, name, 1)
        [entry] = SETS[name](operator)
        redis.zadd(name, {member: 99})

        assert not entry.delete()
        assert not entry.kill()
        assert not entry.retry()
        assert not entry.reschedule(5)
        assert entry.requeue(args=[1]) is None

        assert redis.zrange(name, 0, -1, withscores=True) == [(member, 99)]
        assert redis.keys("kb:*") == []

    def test_two_jobs_of_the_same_score_are_two(self, redis, operator):
        redis.zadd("retry", {text("a"): 5, text("b"): 5})

        assert RetrySet(operator).fetch("5-a").delete()

        assert [entry.jid for entry in RetrySet(operator)] == ["b"]

    def test_client_middleware_runs_around_a_retry(self, redis, operator):
        fill(redis, "dead", 1)

        @operator.client.middleware.add
        def tag(job_class, job, queue, call_next):
            job["tags"] = ["again"]
            return call_next()

        assert next(iter(DeadSet(operator))).retry()

        assert json.loads(redis.lindex("queue:default", 0))["tags"] == ["again"]

    @pytest.mark.parametrize("size", [10, 1_500_000, 9_000_000])
    def test_a_job_of_any_size_is_retried_whole(self, redis, operator, size):
        redis.zadd("dead", {text("big", blob="x" * size, retry_count=25): 5})

        assert DeadSet(operator).retry_all() == 1

        item = json.loads(redis.lindex("queue:default", 0))
        assert len(item["blob"]) == size
        assert item["retry_count"] == 24


class TestUnreadable:
    BAD = (b"no json", b"[1]", b'{"class":"X"}', b"\xff\xfe", b'{"class":1,"args":[],"jid":"a"}')

    @pytest.mark.parametrize("member", BAD)
    def test_a_retry_is_refused_it_stays_and_can_be_deleted(self, redis, operator, member):
        redis.zadd("dead", {member: 5})
        [entry] = DeadSet(operator)

        with pytest.raises(PayloadError):
            entry.retry()

        assert redis.zrange("dead", 0, -1) == [member]
        assert read_audit(operator) == []
        assert entry.delete()
        assert not redis.exists("dead")

    @pytest.mark.parametrize("member", BAD)
    def test_killed_it_is_shown_by_every_page(self, redis, operator, member):
        redis.zadd("retry", {member: 5})

        assert next(iter(RetrySet(operator))).kill()

        assert isinstance(json.loads(redis.zrange("dead", 0, -1)[0]), dict)
        assert not redis.exists("retry")

    def test_the_others_of_a_selection_go_on_and_those_that_stay_are_counted(self, redis, operator):
        fill(redis, "dead", 3)
        redis.zadd("dead", {b"no json": 5, b"[1]": 6})

        done = DeadSet(operator).retry_all()

        assert (done, done.refused) == (3, 2)
        assert "it cannot be pushed, since its text" in done.reason
        assert redis.zrange("dead", 0, -1) == [b"no json", b"[1]"]


class TestMany:
    @pytest.mark.parametrize("name", SETS)
    @pytest.mark.parametrize("count", [0, 1, BATCH, BATCH + 1, 2 * BATCH + 7])
    def test_all_are_pushed_in_their_order(self, redis, operator, name, count):
        fill(redis, name, count)

        assert SETS[name](operator).apply_all("retry") == count

        assert jids(redis) == [f"j{number}" for number in range(count)]
        assert not redis.exists(name)
        assert audited(operator) == ([("retry", name, count, "ann", "web")] if count else [])

    def test_only_what_matches_is_moved_however_many_are_between(self, redis, operator):
        for number in range(3 * BATCH):
            name = "Mail" if number % 3 else "Bill"
            redis.zadd("dead", {text(f"j{number}", name): number})

        assert DeadSet(operator).delete_all(Filter(job_class="Bill")) == BATCH

        assert {entry.job_class for entry in DeadSet(operator)} == {"Mail"}
        assert DeadSet(operator).size == 2 * BATCH
        [entry] = read_audit(operator)
        assert (entry.action, entry.detail, entry.count) == ("delete", "class:Bill", BATCH)

    def test_a_limit_is_kept(self, redis, operator):
        fill(redis, "retry", BATCH + 20)

        assert RetrySet(operator).apply_all("kill", limit=BATCH + 10) == BATCH + 10

        assert redis.zcard("retry") == 10
        assert redis.zcard("dead") == BATCH + 10

    def test_progress_is_reported_after_each_batch(self, redis, operator):
        fill(redis, "retry", LOOK + 20)
        seen = []

        RetrySet(operator).apply_all("delete", progress=lambda *counts: seen.append(counts))

        assert seen == [(LOOK, LOOK), (LOOK + 20, LOOK + 20)]

    def test_what_is_rescheduled_is_not_met_again(self, redis, operator):
        fill(redis, "schedule", BATCH + 20)

        assert ScheduledSet(operator).apply_all("reschedule", at=5000.5) == BATCH + 20

        scores = {score for _, score in redis.zrange("schedule", 0, -1, withscores=True)}
        assert scores == {5000.5}

    def test_what_leaves_meanwhile_keeps_nothing_from_being_found(self, redis, operator):
        members = fill(redis, "dead", 4 * BATCH, tags=["x"])
        found = DeadSet(operator)

        def others(done, looked_at):  # remove what was looked at, which shifts all ranks
            redis.zrem("dead", *members[: looked_at - 5])

        assert found.apply_all("delete", Filter(job_class="Nothing"), progress=others) == 0
        redis.delete("dead")
        members[:] = fill(redis, "dead", 4 * BATCH, tags=["y"])
        where = Filter(arg=f"j{4 * BATCH - 1}")

        assert found.apply_all("delete", where, progress=others) == 1

    def test_a_selection_is_moved_in_its_own_order(self, redis, operator):
        fill(redis, "dead", 5)

        assert DeadSet(operator).apply("retry", list(DeadSet(operator))) == 5

        assert jids(redis) == ["j4", "j3", "j2", "j1", "j0"]
        [entry] = read_audit(operator)
        assert entry.detail == "Mail j4, Mail j3, Mail j2 and 2 more"

    def test_what_dies_by_hand_removes_no_other_dead_job(self, redis, operator):
        now = time.time()
        redis.zadd("dead", {text(f"d{number}"): now - 200 * 86_400 for number in range(10_003)})
        fill(redis, "retry", 5)

        assert RetrySet(operator).kill_all() == 5

        assert redis.zcard("dead") == 10_008  # its owner keeps the bounds: the worker that leads

    @pytest.mark.parametrize("name", SETS)
    def test_a_set_is_cleared(self, redis, operator, name):
        fill(redis, name, 30)

        assert SETS[name](operator).clear() == 30
        assert SETS[name](operator).clear() == 0

        assert not redis.exists(name)
        assert audited(operator) == [("clear", name, 30, "ann", "web")]

    @pytest.mark.parametrize(
        ("action", "more"), [("explode", {}), ("reschedule", {}), ("retry", {"at": 5})]
    )
    def test_a_wrong_call_is_refused(self, operator, action, more):
        with pytest.raises(PayloadError):
            RetrySet(operator).apply_all(action, **more)


class TestEdit:
    def test_the_new_text_takes_the_place_of_the_old(self, redis, operator):
        redis.zadd("dead", {text("j0", retry_count=25, error_class="E"): 5})
        [entry] = DeadSet(operator)

        assert entry.requeue(args=[1, {"a": "b"}], queue="low", job_class="Bill") == "j0"

        item = json.loads(redis.lindex("queue:low", 0))
        assert (item["class"], item["args"], item["queue"]) == ("Bill", [1, {"a": "b"}], "low")
        assert (item["jid"], item["retry_count"], item["error_class"]) == ("j0", 24, "E")
        assert not redis.exists("dead")
        [entry] = read_audit(operator)
        assert entry.detail == "Mail j0, changed: args, queue, class"

    @pytest.mark.parametrize(
        "changes",
        [{"args": [object()]}, {"args": [float("nan")]}, {"queue": ""}, {"job_class": ""}],
    )
    def test_what_a_push_refuses_is_refused(self, redis, operator, changes):
        fill(redis, "dead", 1)

        with pytest.raises(PayloadError):
            next(iter(DeadSet(operator))).requeue(**changes)

        assert redis.zcard("dead") == 1
        assert not redis.exists("queue:default")


MARK = {"tick": {"schedule": "shop/Nightly", "at": 1700000000}}


class TestEnds:
    @pytest.mark.parametrize(("action", "outcome"), [("kill", "dead"), ("delete", "discarded")])
    def test_the_ledger_of_a_schedule_gets_the_end(self, redis, operator, action, outcome):
        redis.zadd("kb:ticks:shop/Nightly", {"entry": 1700000000})
        fill(redis, "retry", 1, **MARK)

        assert RetrySet(operator).apply_all(action) == 1

        [end] = redis.zrange("kb:ends:shop/Nightly", 0, -1)
        assert json.loads(end)["outcome"] == outcome
        DeadSet(operator).delete_all()
        assert redis.zcard("kb:ends:shop/Nightly") == 1

    @pytest.mark.parametrize("action", ["kill", "delete"])
    def test_whoever_waits_for_it_gets_its_end(self, redis, operator, action):
        fill(redis, "retry", 1, flow={"bid": "f"})

        assert RetrySet(operator).apply_all(action) == 1

        [end] = ends_in(redis)
        assert "ann (via web)" in end.message

    def test_a_retry_ends_nothing(self, redis, operator):
        redis.zadd("kb:ticks:shop/Nightly", {"entry": 1700000000})
        fill(redis, "retry", 1, **MARK)

        assert RetrySet(operator).retry_all() == 1

        assert not redis.exists("kb:ends:shop/Nightly")


class TestAudit:
    def test_a_batch_whose_reply_was_lost_is_neither_done_nor_counted_twice(self, redis, operator):
        [member] = fill(redis, "retry", 1)
        note = Note("1-a", 1.0, b'{"action":"retry"}')
        batch = Batch(note, 1, 5.0)
        act = Act(member, 1000.0, "push", b"text", "default")

        for _ in range(2):
            redis.zadd("retry", {member: 1000.0})
            assert operate(operator.pool, operator.keys, "retry", [act], batch, is_queue=False) == 1

        assert redis.llen("queue:default") == 1
        assert (
            operate(
                operator.pool,
                operator.keys,
                "retry",
                [act],
                batch._replace(number=2),
                is_queue=False,
            )
            == 2
        )

    def test_entries_are_read_the_last_first_and_on_from_one(self, operator):
        for number in range(5):
            record_audit(operator, "deploy", f"t{number}", count=number)

        first = read_audit(operator, most=2)
        rest = read_audit(operator, before=first[-1].id)

        assert [each.target for each in first] == ["t4", "t3"]
        assert [each.target for each in rest] == ["t2", "t1"]
        assert read_audit(operator, before="gone") == []

    def test_it_keeps_the_last_ones_only(self, redis, operator):
        ids = {f"{number}-x": number for number in range(operating.MOST_ENTRIES)}
        redis.zadd("kb:audit", ids)
        redis.hset("kb:audit:entries", mapping=dict.fromkeys(ids, "{}"))
        redis.hset("kb:audit:counts", mapping=dict.fromkeys(ids, "1 1"))

        record_audit(operator, "deploy", "now")

        assert redis.zcard("kb:audit") == operating.MOST_ENTRIES
        assert redis.hlen("kb:audit:entries") == redis.hlen("kb:audit:counts") == 10_000
        assert not redis.hexists("kb:audit:entries", "0-x")
        assert read_audit(operator, most=1)[0].target == "now"

    def test_names_that_are_no_utf8_and_long_ones_are_kept_as_far_as_they_go(self, operator):
        record_audit(operator, "a\udcff", "x" * 10_000)

        [entry] = read_audit(operator)

        assert entry.action == "a?"
        assert len(entry.target) == 500

    @pytest.mark.parametrize("key", ["dead", "queues", "queue:default", "kb:audit:counts"])
    def test_a_key_of_another_type_stops_it_before_anything_is_written(self, redis, operator, key):
        fill(redis, "retry", 1)
        redis.set(key, "foreign")

        with pytest.raises(RedisRefused, match=key):
            RetrySet(operator).retry_all()

        assert redis.zcard("retry") == 1
