"""Moving due jobs from `retry` and `schedule` to their queues, on a real server."""

import json
import logging
import threading
import time
from contextlib import ExitStack

import pytest
from support.bad_payloads import raw_of
from support.engine import UnreliableConnection, poller_on
from support.launched import launched
from support.runners import ends_in
from support.waiting import wait_until

from kiqbridge.engine import poller as poller_module
from kiqbridge.store.due_jobs import BATCH
from kiqbridge.store.redis_pool import RedisPool

NOW = 1_700_000_000.5


def make_poller(url, identity="host:1:aaa", connection=None):
    return poller_on(RedisPool(url), identity=identity, connection=connection)


@pytest.fixture
def poller(redis_url):
    return make_poller(redis_url)


@pytest.fixture
def start(redis_url):
    """Starts pollers, and ends them after the test."""
    with ExitStack() as stack:

        def start(poller):
            poller.start()
            stack.callback(poller.stop)
            return poller

        yield start


def job(jid="a" * 24, **attributes):
    payload = {"class": "Nop", "args": [1], "jid": jid, "queue": "default", "retry": True}
    return json.dumps({**payload, "created_at": 1_699_999_000.25, **attributes})


def leader(redis):
    return (redis.get("kb:poller") or b"").partition(b" ")[2]


def queued(redis, queue="default"):
    """Payloads of a queue, the next to run first."""
    return [json.loads(text) for text in redis.lrange(f"queue:{queue}", 0, -1)[::-1]]


class TestMoving:
    def test_what_is_not_due_stays(self, redis, poller):
        redis.zadd("schedule", {job(): NOW + 0.001})

        assert poller.move_due("schedule", NOW) == 0

        assert redis.zcard("schedule") == 1
        assert not redis.exists("queue:default")

    def test_a_sparse_payload_gets_its_defaults(self, redis, poller):
        redis.zadd("schedule", {'{"class":"Nop","args":[]}': NOW, '{"class":"B","args":[2]}': NOW})

        assert poller.move_due("schedule", NOW) == 2

        for payload in queued(redis):
            assert payload["queue"] == "default"
            assert payload["retry"] is True
            assert len(payload["jid"]) == 24
            assert payload["created_at"] == payload["enqueued_at"] == NOW

    def test_each_job_goes_to_its_queue_and_each_queue_becomes_known(self, redis, poller):
        jobs = {job(jid=f"{n:024}", queue=f"q{n % 3}"): NOW - 10 + n for n in range(9)}
        redis.zadd("schedule", jobs)

        assert poller.move_due("schedule", NOW) == 9

        for number in range(3):
            jids = [payload["jid"] for payload in queued(redis, f"q{number}")]
            assert jids == [f"{n:024}" for n in range(number, 9, 3)]
        assert redis.smembers("queues") == {b"q0", b"q1", b"q2"}
        assert not redis.exists("schedule")

    def test_more_than_one_batch_is_moved_in_one_go(self, redis, poller):
        count = 2 * BATCH + 7
        redis.zadd("schedule", {job(jid=f"{n:024}"): NOW - count + n for n in range(count)})

        assert poller.move_due("schedule", NOW) == count

        assert [p["jid"] for p in queued(redis)] == [f"{n:024}" for n in range(count)]
        assert not redis.exists("schedule")

    def test_with_memory_full_due_jobs_are_moved_and_a_leader_is_found(self, redis, poller):
        redis.zadd("schedule", {job(): NOW})
        redis.config_set("maxmemory", 1)
        try:
            assert poller.move_due("schedule", NOW) == 1
            assert poller.lead()
        finally:
            redis.config_set("maxmemory", 0)

        assert len(queued(redis)) == 1


class TestWhatCannotBecomeAJob:
    @pytest.mark.parametrize(
        "text",
        [
            b"{no json",
            b'{"class":"Nop","args":[\xff]}',
            b"NaN",
            b"",
            b"[1,2]",
            b'"text"',
            b"5",
            b"null",
        ],
    )
    def test_a_member_that_is_no_json_object_goes_to_dead_with_its_bytes(self, redis, poller, text):
        redis.zadd("schedule", {text: NOW - 5})
        redis.zadd("schedule", {job(): NOW})

        assert poller.move_due("schedule", NOW) == 2

        [(kept, died_at)] = redis.zrange("dead", 0, -1, withscores=True)
        assert (raw_of(kept), died_at) == (text, NOW)
        assert len(queued(redis)) == 1
        assert not redis.exists("schedule")

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"args": "none"}, "args: 'none' is not a list"),
            ({"class": ""}, "class: '' is not the name of a job class"),
            ({"queue": ""}, "queue: '' is not a queue name"),
            ({"tags": "one"}, "tags: 'one' is not a list"),
        ],
    )
    def test_an_object_that_is_no_job_goes_to_dead_with_the_reason(
        self, redis, poller, changes, reason, caplog
    ):
        redis.zadd("schedule", {job(**changes): NOW})

        assert poller.move_due("schedule", NOW) == 1

        (dead,) = redis.zrange("dead", 0, -1)
        kept = json.loads(dead)
        assert kept["error_message"].startswith(reason)
        assert kept["error_class"] == "kiqbridge.errors.PayloadError"
        assert kept["jid"] == "a" * 24
        assert reason in caplog.text
        assert not redis.keys("queue:*")

    def test_a_job_that_cannot_be_moved_does_not_make_the_poller_race(
        self, redis, redis_url, start
    ):
        redis.set("queue:broken", "not a list")
        redis.zadd("schedule", {job(queue="broken"): 1.0})
        start(make_poller(redis_url))
        commands = _calls(redis, "evalsha")
        wait_until(lambda: commands() >= 3, what="three looks")
        looks, began = commands(), time.monotonic()

        wait_until(lambda: time.monotonic() - began > 0.5)

        assert commands() - looks <= 3


def _calls(redis, command):
    def read():
        stats = redis.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})
        return stats["calls"]

    redis.config_resetstat()
    return read


class TestMiddleware:
    def test_it_sees_the_payload_and_may_change_it(self, redis, poller):
        seen = []

        def stamp(job_class, payload, queue, call_next):
            seen.append((job_class, queue))
            return call_next() | {"stamp": 1}

        poller.client.middleware.add(stamp)
        redis.zadd("schedule", {job(): NOW})

        poller.move_due("schedule", NOW)

        assert seen == [("Nop", "default")]
        assert queued(redis)[0]["stamp"] == 1

    def test_an_end_is_left_by_what_middleware_stops(self, redis, poller):
        redis.zadd("retry", {job(flow={"bid": "f"}): NOW, '{"class":"Nop","args":[]}': NOW})
        poller.client.middleware.add(lambda *_args: None)

        assert poller.move_due("retry", NOW) == 2

        assert not redis.exists("queue:default", "queues", "retry", "dead")
        [end] = ends_in(redis)
        assert (end.flow, end.error) == ({"bid": "f"}, "kiqbridge.errors.JobSkipped")

    def test_an_end_is_left_by_what_cannot_become_a_job(self, redis, poller):
        redis.zadd("retry", {job(flow={"bid": "f"}, queue=5): NOW})

        assert poller.move_due("retry", NOW) == 1

        assert redis.zcard("dead") == 1
        [end] = ends_in(redis)
        assert (end.flow, end.error) == ({"bid": "f"}, "kiqbridge.errors.PayloadError")

    def test_one_that_raises_is_logged_and_tried_again(self, redis, redis_url, start, caplog):
        poller = make_poller(redis_url)
        failures = iter([RuntimeError("not yet")])

        def fail_once(_class, _payload, _queue, call_next):
            for failure in failures:
                raise failure
            return call_next()

        poller.client.middleware.add(fail_once)
        redis.zadd("schedule", {job(): 1.0})

        start(poller)

        wait_until(lambda: queued(redis), what="the second try")
        assert any("client middleware failed" in message for message in caplog.messages)

    def test_what_cannot_be_moved_does_not_hold_up_what_is_behind_it(self, redis, poller):
        redis.set("queue:broken", "a text, no list")
        stuck = {job(jid=f"stuck-{n}", queue="broken"): NOW - 100 for n in range(BATCH + 5)}
        redis.zadd("schedule", {**stuck, job(jid="behind"): NOW - 1})

        assert poller.move_due("schedule", NOW) == 1

        assert [payload["jid"] for payload in queued(redis)] == ["behind"]
        assert redis.zcard("schedule") == len(stuck)


class TestLeading:
    def test_retries_are_moved_before_scheduled_jobs(self, redis, redis_url, start):
        poller, order = make_poller(redis_url), []

        def note(_class, payload, _queue, call_next):
            order.append(payload["jid"])
            return call_next()

        poller.client.middleware.add(note)
        redis.zadd("schedule", {job(jid="scheduled"): 1.0})
        redis.zadd("retry", {job(jid="retried"): 2.0})

        start(poller)

        wait_until(lambda: len(order) == 2)
        assert order == ["retried", "scheduled"]

    def test_one_of_two_leads_and_the_other_takes_over_at_once_when_it_stops(
        self, redis, redis_url, start
    ):
        first = start(make_poller(redis_url, "host:1:aaa"))
        wait_until(lambda: leader(redis) == b"host:1:aaa")
        start(make_poller(redis_url, "host:2:bbb"))
        redis.zadd("schedule", {job(jid="one"): 1.0})
        wait_until(lambda: len(queued(redis)) == 1)
        assert leader(redis) == b"host:1:aaa"

        first.stop()
        assert leader(redis) != b"host:1:aaa"

        wait_until(lambda: leader(redis) == b"host:2:bbb", what="the other leading")
        redis.zadd("schedule", {job(jid="two"): 1.0})
        wait_until(lambda: len(queued(redis)) == 2)

    def test_one_that_does_not_lead_moves_nothing(self, redis, redis_url, start):
        redis.set("kb:poller", "host:9:zzz")
        redis.zadd("schedule", {job(): 1.0})
        commands = _calls(redis, "get")
        start(make_poller(redis_url))

        wait_until(commands, what="its asking for the lead")

        assert redis.zcard("schedule") == 1
        redis.delete("kb:poller")
        wait_until(lambda: queued(redis), what="its taking the lead")

    def test_one_that_lost_the_lead_stops_moving(self, redis, poller):
        assert poller.lead()
        redis.set("kb:poller", "host:9:zzz")

        assert not poller.lead()
        poller.hand_over()
        assert redis.get("kb:poller") == b"host:9:zzz"

    def test_a_job_that_a_foreign_client_schedules_is_on_time(self, redis, redis_url, start, tell):
        commands = _calls(redis, "zrange")
        start(make_poller(redis_url))
        wait_until(commands, what="its waiting for jobs")

        due = time.time() + 0.3
        redis.zadd("schedule", {job(): due})
        wait_until(lambda: queued(redis), interval_s=0.001)
        lateness = queued(redis)[0]["enqueued_at"] - due

        tell(f"a scheduled job was moved {lateness * 1000:.1f} ms after its time")
        assert 0 <= lateness < 2

        redis.zadd("retry", {job(jid="b" * 24): time.time() - 1})
        wait_until(lambda: len(queued(redis)) == 2, what="a retry, too")

    def test_quieted_it_moves_nothing_more(self, redis, redis_url, start):
        poller = start(make_poller(redis_url))
        wait_until(lambda: redis.exists("kb:poller"))
        poller.quiet()
        redis.zadd("schedule", {job(): 1.0})

        wait_until(lambda: not redis.exists("kb:poller"), what="its handing over the lead")

        assert redis.zcard("schedule") == 1

    def test_a_process_that_says_that_it_is_quiet_moves_nothing_more(
        self, redis, redis_url, caplog
    ):
        caplog.set_level(logging.INFO, "kiqbridge.engine.launcher")

        def schedule_once_it_is_read(_record):
            wait_until(lambda: redis.hget(worker.identity, "quiet") == b"true")
            redis.zadd("schedule", {job(): 1.0})
            wait_until(lambda: queued(redis) or not redis.exists("kb:poller"))
            return True

        with launched(redis_url) as worker:
            wait_until(lambda: redis.exists("kb:poller"))
            logger = logging.getLogger("kiqbridge.engine.launcher")
            logger.addFilter(schedule_once_it_is_read)
            try:
                worker.quiet()
            finally:
                logger.removeFilter(schedule_once_it_is_read)

            assert redis.zcard("schedule") == 1

    def test_without_redis_it_goes_on_when_redis_is_back(self, redis, redis_url, start, caplog):
        caplog.set_level(logging.DEBUG, "kiqbridge.runtime.role")
        connection = UnreliableConnection(RedisPool(redis_url).connection())
        connection.down = True
        redis.zadd("schedule", {job(): 1.0})
        start(make_poller(redis_url, connection=connection))
        wait_until(lambda: "moving due jobs and retries waits: " in caplog.text)

        connection.down = False

        wait_until(lambda: queued(redis))


class TestHearingFromTheBeat:
    """What a process asks for that does not lead."""

    def test_while_another_process_leads_it_asks_for_nothing(self, redis, poller, start):
        poller.note(leader=b"1 other", server_time=time.time())
        redis.config_resetstat()
        start(poller)

        assert not threading.Event().wait(0.2)
        assert "cmdstat_get" not in redis.info("commandstats")
        assert not redis.exists("kb:poller")

    def test_it_takes_the_lead_when_nobody_has_it_and_knows_the_time(
        self, redis, poller, start, monkeypatch
    ):
        monkeypatch.setattr(poller_module, "RENEW_S", 1000.0)
        poller.note(leader=b"1 other", server_time=NOW)
        start(poller)

        poller.note(leader=b"", server_time=time.time() + 30)

        wait_until(lambda: poller.leads, what="the lead")
        assert poller._clock._before is not None

    def test_it_knows_for_how_long_nobody_has_led(self, poller, monkeypatch):
        now = [1000.0]
        monkeypatch.setattr(poller_module.time, "monotonic", lambda: now[0])
        unled = []

        for text in (b"1 a", b"1 a", b"1 a", b"1 a", b"", b"1 b"):
            now[0] += 4.0
            poller.note(leader=text, server_time=NOW)
            now[0] += 1.0
            unled.append(poller.unled_s)

        # The third time the text has stood for longer than its term of 8 s.
        assert unled == [0.0, 0.0, 1.0, 6.0, 11.0, 0.0]

    def test_it_stops_at_once_while_another_process_leads(self, redis, poller, start, monkeypatch):
        monkeypatch.setattr(poller_module, "RENEW_S", 1000.0)
        poller.note(leader=b"1 other", server_time=NOW)
        start(poller)

        poller.quiet()

        wait_until(lambda: not poller.alive, what="the end")
