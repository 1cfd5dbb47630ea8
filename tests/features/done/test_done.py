"""Jobs that have ended are remembered: by a worker, within bounds, and for who asks what became of one."""

import json
import time

import pytest
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge import configure, job
from kiqbridge.api import history_of
from kiqbridge.engine.perform.ended import Ended
from kiqbridge.errors import RedisRefused
from kiqbridge.features.done.keeper import Keeper, note
from kiqbridge.features.done.page import fetch
from kiqbridge.features.done.reading import DoneFilter, Position, parse_position, scan_done
from kiqbridge.features.done.record import MOST_BYTES, entry_of, parse_record
from kiqbridge.wire.keys import Keys

JID = "b4a577edbccf1d805744efa9"
KEYS = Keys()


def ended(jid=JID, name="Mail", outcome="done", at=1_700_000_000.5, **more):
    values = {"queue": "low", "took_s": 0.25, "tid": "t1", "marks": {}, **more}
    return Ended(jid, name, values.pop("queue"), outcome, at, **values)


def entry(*args, **more):
    return entry_of(ended(*args, **more), "web:1:aa")


@pytest.fixture
def keep(client):
    """Writes records as a worker does."""
    connection = client.pool.connection()
    return lambda entries, keep=100: note(connection, KEYS, entries, keep)


def jobs_of(operator, **where):
    return [each for each, _ in scan_done(DoneFilter(**where), operator) if each is not None]


def jids_of(operator, **where):
    return [each.jid for each in jobs_of(operator, **where)]


class TestAWorker:
    @pytest.mark.slow
    def test_what_ends_in_it_is_on_record_with_each_of_its_attempts(
        self, redis, redis_url, operator
    ):
        with own_declarations():
            configure(redis_url)

            @job(retry=1, retry_in=lambda *_: 0.001, tags=["eu"])
            def fails(secret: str) -> None:
                raise OSError("no route\nto host")

            @job(expires_in=0.001)
            def late() -> None: ...

            @job()
            async def works() -> str:
                return "result"

            failing, unperformed = fails.perform_async("hunter2"), late.perform_async()
            done = works.perform_async()
            with launched(redis_url, poll_interval_average="0.1"):
                wait_until(lambda: redis.zcard("dead"), 60)
                wait_until(lambda: len(jobs_of(operator)) == 3, 60)

        life = history_of(failing, operator)
        redis.delete("dead")
        gone = history_of(failing, operator)
        assert [each.label for each in life.attempts] == [
            "Failed: OSError: no route",
            "Dead: OSError: no route",
        ]
        assert life.status == gone.status == "dead"
        assert (gone.job_class, gone.queue, gone.tags) == (fails.__name__, "default", ["eu"])
        assert all(each.took_s is not None and each.worker for each in life.attempts)
        assert done.status() == "done"
        assert unperformed.status() == "expired"
        assert b"hunter2" not in b"".join(redis.hvals("kb:done:jobs"))

    def test_what_ends_just_before_it_stops_is_on_record(self, redis_url, operator):
        ran = []
        with own_declarations():
            configure(redis_url)

            @job()
            def works() -> None:
                ran.append(1)

            jid = works.perform_async()
            with launched(redis_url):
                wait_until(lambda: ran, 60)

        assert jids_of(operator) == [jid]

    def test_with_zero_nothing_is_kept(self, redis, redis_url):
        with own_declarations():
            configure(redis_url)

            @job()
            def works() -> None: ...

            works.perform_async()
            with launched(redis_url, file={"keep_done": 0}):
                wait_until(lambda: redis.get("stat:processed") == b"1", 60)

        assert redis.keys("kb:done*") == []

    def test_a_job_that_makes_room_or_is_put_off_has_not_ended(self, redis, redis_url):
        from kiqbridge.errors import OverLimit

        with own_declarations():
            configure(redis_url)

            @job()
            def over() -> None:
                raise OverLimit("full")

            over.perform_async()
            with launched(redis_url):
                wait_until(lambda: redis.zcard("schedule"), 60)

        assert redis.keys("kb:done*") == []


class TestBounds:
    def test_the_last_ones_of_each_class_stay_apart_from_those_that_ended_badly(
        self, keep, operator
    ):
        keep([entry(f"d{n}", at=100.0 + n) for n in range(5)], 2)
        keep([entry(f"e{n}", outcome="dead", at=50.0 + n) for n in range(3)], 2)
        keep([entry(f"o{n}", name="Other", at=10.0 + n) for n in range(3)], 2)

        assert jids_of(operator) == ["d4", "d3", "e2", "e1", "o2", "o1"]

    def test_in_all_a_hundred_times_as_many(self, redis, keep):
        for start in range(0, 250, 50):
            keep([entry(f"j{n}", name=f"C{n}", at=1.0 + n) for n in range(start, start + 50)], 1)

        assert redis.zcard("kb:done") == redis.hlen("kb:done:jobs") == 100
        assert redis.zcard("kb:done:classes") == 100
        assert redis.zrange("kb:done", 0, 0) == [b"j150"]
        assert 0 < redis.ttl("kb:done") <= 30 * 86_400

    def test_a_call_that_is_repeated_adds_nothing(self, redis, keep):
        both = [entry(outcome="failed", at=1.0), entry(at=2.0)]

        assert keep(both) == 2
        assert keep(both) == 0
        record = parse_record(JID, redis.hget("kb:done:jobs", JID))
        assert [run.outcome for run in record.runs] == ["failed", "done"]
        assert redis.zcard("kb:done:classes") == redis.zcard("kb:done") == 1

    def test_a_job_that_fails_for_ever_keeps_its_last_attempts(self, redis, keep):
        for n in range(100):
            keep([entry(outcome="failed", at=float(n), error="OSError", message="no route")])

        text = redis.hget("kb:done:jobs", JID)
        runs = parse_record(JID, text).runs
        assert len(text) < MOST_BYTES + 100
        assert 5 < len(runs) < 50
        assert runs[-1].at == 99.0

    @pytest.mark.parametrize("key", ["kb:done", "kb:done:classes", "kb:done:jobs"])
    def test_after_one_key_was_evicted_it_begins_anew(self, redis, keep, operator, key):
        keep([entry("old")])
        redis.delete(key)
        keep([entry("new")])

        assert jids_of(operator) == ["new"]
        assert redis.zcard("kb:done:classes") == redis.hlen("kb:done:jobs") == 1

    def test_a_key_of_another_type_is_refused(self, redis, keep):
        redis.set("kb:done", "no set")

        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            keep([entry()])

    def test_while_redis_is_nearly_full_nothing_is_written(self, redis, client, operator):
        class Taken:
            most = 0

            def take(self):
                return [ended()]

        used = redis.info("memory")["used_memory"]
        keeper = Keeper(Taken(), client.pool.connection(), KEYS, worker="web:1:aa", keep=9)
        redis.config_set("maxmemory", int(used * 1.1))
        try:
            assert keeper.turn() == 0
            assert redis.keys("kb:done*") == []
        finally:
            redis.config_set("maxmemory", 0)
        keeper._looked_at = float("-inf")
        assert keeper.turn() == 1
        assert jids_of(operator) == [JID]


class TestARecord:
    @pytest.mark.parametrize("jid", [None, 7, "", "x" * 101, "a\0b", "a\nb", ["j"]])
    def test_of_what_is_no_jid_there_is_none(self, jid):
        assert entry(jid) is None

    def test_it_is_bounded_whatever_the_payload_says(self, redis, keep, operator):
        marks = {
            "tags": ["é" * 1_000_000] * 1_000,
            "flow": {"bid": "b" * 10_000, "next": {"id": 7, "steps": ["no step", {"job": 3}]}},
            "tick": {"schedule": "S", "at": 60},
        }
        keep(
            [
                entry(
                    name="C\0\n" * 100_000,
                    queue="q\n" * 100_000,
                    outcome="dead",
                    error="E" * 100_000,
                    message="\n\x00m\ud800" * 100_000,
                    marks=marks,
                )
            ]
        )

        [record] = jobs_of(operator)
        assert redis.memory_usage("kb:done:jobs") < 10_000
        assert record.job_class.startswith("C??C??")
        assert record.last.outcome == "dead"

    def test_what_it_belongs_to_and_what_follows_is_kept(self, keep, operator):
        launch = {"id": "c1", "n": 2, "steps": [{"job": {"jid": "after", "class": "X"}}]}
        tick = {"schedule": "Nightly", "at": 60}
        keep([entry(marks={"tags": ["eu"], "flow": {"bid": "b1", "next": launch}, "tick": tick})])

        life = history_of(JID, operator)

        assert [(each.kind, each.id) for each in life.parents] == [("batch", "b1"), ("chain", "c1")]
        assert [(each.kind, each.id) for each in life.children] == [("job", "after")]
        assert life.events[0].label == "Occurrence of the schedule Nightly"

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"no record",
            b"C\0d\0001\0j\n{}",
            b"\xff\n[1]\nnull\n7",
            b'C\n{"at":"x","outcome":1}',
        ],
    )
    def test_one_that_nobody_of_ours_has_written_is_none(self, redis, keep, operator, text):
        redis.hset("kb:done:jobs", JID, text)
        redis.zadd("kb:done", {JID: 1})

        assert jobs_of(operator) == []
        assert history_of(JID, operator).status == "unknown"

    def test_a_job_that_was_pushed_again_since_is_where_it_is(self, redis, keep, operator):
        keep([entry(outcome="dead", at=5.0)])
        text = json.dumps({"class": "Mail", "args": [], "jid": JID, "enqueued_at": time.time()})
        redis.sadd("queues", "low")
        redis.lpush("queue:low", text)

        life = history_of(JID, operator)

        assert (life.status, life.end) == ("queued", None)
        assert [each.outcome for each in life.attempts] == ["dead"]

    def test_a_result_says_more_than_its_record(self, redis, keep, operator):
        keep([entry(at=6.0)])
        redis.set(f"kb:result:{JID}", '{"outcome":"done","at":5.9,"value":7}')

        life = history_of(JID, operator)

        assert (life.end.value, life.end.source) == (7, "result")
        assert [each.outcome for each in life.attempts] == ["done"]

    def test_a_claim_that_is_not_acknowledged_yet_hides_no_end(
        self, redis, keep, operator, process
    ):
        text = json.dumps({"class": "Mail", "args": [], "jid": JID, "enqueued_at": 5.0})
        redis.sadd("queues", "low")
        redis.lpush("queue:low", text)
        process.claimer().claim(["low"], 1)
        keep([entry(at=4.0)])
        assert history_of(JID, operator).status == "running"

        keep([entry(at=6.0)])
        assert history_of(JID, operator).status == "done"


class TestLists:
    @pytest.fixture(autouse=True)
    def records(self, keep):
        keep(
            [
                entry("a", at=1.0, marks={"tags": ["eu"]}),
                entry("b", name="Bill", at=2.0, took_s=9.0, queue="high"),
                entry("c", outcome="dead", at=3.0, error="OSError", message="no route"),
                entry("d", outcome="expired", at=4.0, took_s=None),
                entry("e", outcome="failed", at=5.0),
            ]
        )

    @pytest.mark.parametrize(
        ("where", "jids"),
        [
            ({}, "dcba"),
            ({"job_class": "Bi*"}, "b"),
            ({"queue": "low"}, "dca"),
            ({"tag": "eu"}, "a"),
            ({"outcome": "dead"}, "c"),
            ({"outcome": "bad"}, "dc"),
            ({"error_class": "OS*"}, "c"),
            ({"longer_than_s": 1.0}, "b"),
            ({"text": "NO ROUTE"}, "c"),
            ({"text": "nothing"}, ""),
        ],
    )
    def test_by_each_filter_without_those_that_are_tried_again(self, operator, where, jids):
        assert "".join(jids_of(operator, **where)) == jids

    def test_page_by_page_nothing_is_left_out_or_comes_twice(self, operator, keep):
        keep([entry(f"same{n:03}", name=f"C{n}", at=9.0) for n in range(120)])
        found, before = [], None
        while True:
            jobs, before = fetch(operator, DoneFilter(), before, 50)
            found += [each.jid for each in jobs]
            if before is None:
                break
            before = parse_position(str(before))

        assert found == [*(f"same{n:03}" for n in reversed(range(120))), "d", "c", "b", "a"]

    @pytest.mark.parametrize("text", ["", "x", "-", "1" * 16, "²-a"])
    def test_a_position_that_is_none_is_the_begin(self, text):
        assert parse_position(text) is None or parse_position(text) == Position(0, "")


def test_the_command_lists_them(run, keep):
    keep([entry("a"), entry("b", outcome="dead", at=time.time(), error="OSError", message="no")])

    code, out, _ = run("done", "--outcome", "bad")
    assert code == 0
    row = "b     Mail   low    dead     250 ms  1     OSError: no"
    assert out.splitlines()[-1].split()[3:] == row.split()
    [found] = json.loads(run("done", "--class", "M*", "--limit", "1", "--json")[1])["jobs"]
    assert (found["jid"], found["runs"][0]["took_s"]) == ("b", 0.25)
    assert len(run("done", "--jsonl")[1].splitlines()) == 2
    assert "No job that has ended is on record" in run("done", "--queue", "none")[1]


def test_the_page_lists_them_and_links_to_their_lives(browser, keep):
    keep([entry("a"), entry("b", outcome="dead", error="OSError", message="<no> route")])

    page = browser.open("/done")

    assert "2 on record" in page.text
    assert {"/jobs/a", "/jobs/b"} <= set(page.links)
    assert "It has ended: dead. OSError: <no> route" in browser.open("/jobs/b").text
    assert "/jobs/a" not in browser.open("/done?q=outcome:bad+longer:1s").links
    assert "Nothing is found." in browser.open("/done?q=None").text
    browser.open("/done?q=longer:x", status=400)


def test_a_long_list_is_read_in_bounded_steps(redis, operator, keep):
    for start in range(0, 6_000, 100):
        keep([entry(f"j{n}", name=f"C{n}", at=1.0 + n) for n in range(start, start + 100)], 100)
    counts = []
    call = operator.pool.call
    operator.pool.call = lambda *command: counts.append(command[0]) or call(*command)
    try:
        jobs, older = fetch(operator, DoneFilter(job_class="None"), None)
    finally:
        del operator.pool.call

    assert (jobs, older is not None) == ([], True)
    assert len(counts) <= 24
