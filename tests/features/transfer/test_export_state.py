"""What jobs need besides their text goes with them to another server: batches, chains, locks, results, progress."""

import itertools
import json
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis as redis_py
from support.jobs import own_declarations
from support.killed import killed_at
from support.proving import sized
from support.rights import more_of_operators, rules_of
from support.servers import embedded_server

from kiqbridge import Client, job
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.features.transfer import form, reading
from kiqbridge.flow import Batch, Debounce, Unique, call, chain
from kiqbridge.wire.flow_mark import FlowEnd

TAKE = ["--all", "--take", "--yes"]


@pytest.fixture(scope="module")
def other_server():
    with embedded_server() as server:
        yield server


@pytest.fixture(scope="module")
def jobs():
    with own_declarations():

        @job(name="Send")
        def send(number: int) -> None: ...

        @job(name="Note")
        def note(event: str) -> None: ...

        @job(name="Once", unique=Unique())
        def once(number: int) -> None: ...

        @job(name="Settled", debounce=Debounce(wait_s=600))
        def settled(number: int) -> None: ...

        yield send, note, once, settled


@pytest.fixture
def send(jobs, old, monkeypatch):
    monkeypatch.setattr("kiqbridge.client.default_client._default", old.client)
    return jobs[0]


class Fleet:
    """A server, and what its workers do."""

    def __init__(self, redis, url):
        self.redis, self.url = redis, url
        self.client = Client(url)
        self.outbox = Outbox(self.client, self.client.pool)
        self.performed = Counter()

    def claim(self, queue="default"):
        """The next job, which is nowhere else until it has ended."""
        text = self.redis.rpop(f"queue:{queue}")
        return None if text is None else json.loads(text)

    def end(self, payload, outcome="done"):
        self.performed[payload["class"], *payload["args"]] += 1
        end = FlowEnd(
            flow=payload.get("flow", {}),
            jid=payload["jid"],
            job_class=payload["class"],
            outcome=outcome,
            at=time.time(),
        )
        self.redis.zadd("kb:flow:ends", {end.to_text(): 0})
        self.apply()

    def apply(self):
        while self.redis.exists("kb:flow:ends"):
            self.outbox.look()

    def work(self):
        """Until nothing is left."""
        self.apply()
        while (payload := self.claim()) is not None:
            self.end(payload)

    def batch(self, bid):
        return Batch(bid, client=self.client)


@pytest.fixture
def old(redis, redis_url):
    fleet = Fleet(redis, redis_url)
    yield fleet
    fleet.client.close()


@pytest.fixture
def new(other_server):
    with redis_py.Redis.from_url(other_server.url) as redis:
        redis.flushall()
        fleet = Fleet(redis, other_server.url)
        yield fleet
        fleet.client.close()


@pytest.fixture
def run(run, old, new, monkeypatch, tmp_path):
    """Runs one command in this process, `restore` at the new server."""
    monkeypatch.chdir(tmp_path)

    def at_its_server(verb, *args, at=None):
        monkeypatch.setenv("REDIS_URL", (at or (new if verb == "restore" else old)).url)
        return run(verb, *args)

    return at_its_server


@pytest.fixture
def move(run):
    """Moves all that can be moved; what the two commands printed."""
    files = (f"moved{number}.jsonl" for number in itertools.count())

    def move(*args):
        file = next(files)
        _, taken, _ = run("export", file, *(args or TAKE))
        code, put_in, err = run("restore", file)
        assert code == 0
        return taken, put_in + err

    return move


@pytest.fixture
def note(jobs):
    return jobs[1]


@pytest.fixture
def once(jobs, send):
    return jobs[2]


@pytest.fixture
def made(send, note):
    """Makes a batch of so many jobs."""

    def made(count, **callbacks):
        with Batch(
            on_success=call(note, "success"),
            on_complete=call(note, "complete"),
            on_death=call(note, "death"),
        ) as batch:
            for number in range(count):
                send.perform_async(number)
        return batch

    return made


def of_flow(redis):
    return {key for key in redis.keys("kb:*") if not key.startswith(b"kb:audit")}


class TestBatches:
    def test_one_of_300_jobs_ends_at_the_new_server_with_its_callbacks(self, made, old, new, move):
        batch = made(300)

        taken, put_in = move()
        assert new.batch(batch.bid).status().pending == 300
        new.work()

        assert new.performed["Note", "success"] == new.performed["Note", "complete"] == 1
        assert new.batch(batch.bid).status().success
        assert sum(new.performed.values()) == 302
        assert of_flow(old.redis) == set()
        assert "left" not in taken
        assert "does not know" not in put_in

    def test_one_whose_jobs_partly_run_is_counted_at_both_and_announced_once(
        self, made, old, new, move
    ):
        batch = made(20)
        running = [old.claim() for _ in range(5)]

        taken, _ = move()
        assert f"batches with jobs that are still there, such as {batch.bid}: 1\n" in taken
        assert "pending jobs of these batches: 5\n" in taken
        assert len(new.batch(batch.bid).pending_jids()) == 20
        # Those of the other server are sought by no leader (kiqbridge.features.gone_jobs.search seeks `p`).
        members = f"kb:flow:batch:{batch.bid}:jobs"
        assert Counter(new.redis.hvals(members)) == {b"p": 15, b"e": 5}
        assert Counter(old.redis.hvals(members)) == {b"m": 15, b"p": 5}
        new.end(new.claim(), "dead")
        new.work()
        assert not new.performed["Note", "success"]
        for each in running[1:]:
            old.end(each)
        old.end(running[0], "dead")
        taken, _ = move()
        new.work()

        assert "batches" not in taken
        assert of_flow(old.redis) == set()
        assert not any(name == "Note" for name, *_ in old.performed)
        status = new.batch(batch.bid).status()
        assert (status.total, status.pending, status.failed) == (20, 0, 2)
        assert {what: n for what, n in new.performed.items() if what[0] == "Note"} == {
            ("Note", "complete"): 1,
            ("Note", "death"): 1,
        }

    def test_nested_ones_go_with_what_they_count_for(self, send, note, old, new, move):
        with Batch(on_success=call(note, "parent")) as parent:
            send.perform_async(0)
            with Batch(on_success=call(note, "child")) as child:
                send.perform_async(1)
                send.perform_async(2)
        running = old.claim(), old.claim()

        move()
        new.work()
        for each in running:
            old.end(each)
        move()
        new.work()

        assert new.batch(child.bid).status().success
        assert new.batch(parent.bid).status().success
        assert new.performed["Note", "child"] == new.performed["Note", "parent"] == 1
        assert of_flow(old.redis) == set()

    def test_one_of_a_queue_alone_goes_on_at_the_new_server(self, send, note, old, new, move):
        with Batch(on_success=call(note, "success")) as batch:
            send.set(queue="mail").perform_async(1)
            send.perform_async(2)

        taken, _ = move("--queue", "mail", "--take", "--yes")
        assert "left there:\n" in taken
        assert "  queue default: 1\n" in taken
        new.end(new.claim("mail"))
        old.work()
        assert new.batch(batch.bid).status().pending == 1
        assert old.batch(batch.bid).status().complete_at is None
        move()
        new.work()

        assert new.performed["Note", "success"] == 1
        assert of_flow(old.redis) == set()

    def test_what_runs_as_a_whole_at_the_old_server_ends_there(self, made, old, new, move):
        batch = made(2)
        running = old.claim(), old.claim()

        move()
        assert not new.redis.exists(f"kb:flow:batch:{batch.bid}")
        for each in running:
            old.end(each)
        assert old.redis.llen("queue:default") == 2  # its callbacks
        move()
        new.work()

        assert new.performed["Note", "success"] == 1
        assert of_flow(old.redis) == set()

    def test_a_dead_job_that_is_retried_at_the_new_server_makes_it_succeed(
        self, made, old, new, move
    ):
        batch = made(2)
        failed = old.claim()
        old.end(failed, "dead")
        old.redis.zadd("dead", {json.dumps(failed): time.time()})

        move()
        new.work()
        assert new.batch(batch.bid).status().failed == 1
        new.end(json.loads(new.redis.zrange("dead", 0, 0)[0]))
        new.work()

        assert new.performed["Note", "success"] == new.performed["Note", "death"] == 1

    def test_ends_that_nobody_has_applied_yet_come_along(self, made, old, new, move, monkeypatch):
        batch = made(3)
        with monkeypatch.context() as stopped:
            stopped.setattr(old, "apply", lambda: None)
            old.end(old.claim())

        taken, _ = move()
        assert "  set ends: 1\n" in taken
        new.work()

        assert new.batch(batch.bid).status().success
        assert new.performed["Note", "success"] == 1
        assert of_flow(old.redis) == set()

    def test_restored_again_at_any_time_it_changes_nothing(self, made, old, new, run, move):
        batch = made(3)
        move()
        run("restore", "moved0.jsonl")
        new.end(new.claim(), "dead")
        run("restore", "moved0.jsonl")
        new.work()
        before = new.batch(batch.bid).status()

        assert "3 jobs of it were put in before" in run("restore", "moved0.jsonl")[1]

        new.work()
        assert new.batch(batch.bid).status() == before
        assert new.performed["Note", "death"] == new.performed["Note", "complete"] == 1

    def test_one_that_is_put_back_where_it_was_goes_on_there(self, made, old, new, run):
        batch = made(4)
        running = old.claim()
        run("export", "back.jsonl", *TAKE)
        run("restore", "back.jsonl", at=old)
        old.end(running)
        old.work()

        assert old.batch(batch.bid).status().success
        assert old.performed["Note", "success"] == 1

    def test_cancelled_ones_are_cancelled_there(self, made, new, move):
        batch = made(3)
        batch.cancel()

        move()

        new.outbox.look_at_barriers()
        [barrier] = new.outbox.up
        assert barrier.bids == {batch.bid}
        assert new.batch(batch.bid).status().cancelled_at

    def test_a_copy_has_them_too(self, made, old, new, move):
        batch = made(3)
        before = of_flow(old.redis)

        move("--all")
        new.work()

        assert new.performed["Note", "success"] == 1
        assert of_flow(old.redis) == before
        assert batch.status().pending == 3


class TestAKillAtAnyMoment:
    @pytest.fixture(autouse=True)
    def few_at_a_time(self, monkeypatch):
        monkeypatch.setattr(reading, "FIRST_COUNT", 2)
        monkeypatch.setattr(reading, "next_count", lambda _members: 2)

    @pytest.mark.slow
    def test_no_end_is_lost_or_counted_twice(self, run, old, new, made, monkeypatch):
        for moment in itertools.count(step=sized(full=1, sample=7)):
            for fleet in (old, new):
                fleet.redis.flushall()
                fleet.performed.clear()
            for number in (1, 2):
                Path(f"part{number}.jsonl").unlink(missing_ok=True)
            batch = made(4)
            running = old.claim()

            with killed_at(monkeypatch, moment) as seen:
                run("export", "part1.jsonl", *TAKE)
                run("restore", "part1.jsonl")
                new.work()
                old.end(running)
                run("export", "part2.jsonl", *TAKE)
                run("restore", "part2.jsonl")
            if not old.performed:
                old.end(running)
            for number in (1, 2):
                assert run("export", f"part{number}.jsonl", *TAKE)[0] == 0
                assert run("restore", f"part{number}.jsonl")[0] == 0
            new.work()

            status = new.batch(batch.bid).status()
            assert (status.total, status.pending, status.failed) == (4, 0, 0), moment
            assert new.performed["Note", "success"] == 1, moment
            assert new.performed["Note", "complete"] == 1, moment
            assert of_flow(old.redis) == set(), moment
            if moment >= seen[0]:
                break
        assert moment > 60


class TestWhatBelongsToAJob:
    def test_a_lock_its_look_and_who_was_replaced(self, once, old, new, move, run):
        jid = once.perform_async(1)
        old.redis.zadd("kb:replaced", {jid: 4_000_000_000})
        lock = old.redis.hgetall("kb:locks")

        move()

        assert new.redis.hgetall("kb:locks") == lock
        assert new.redis.zcard("kb:locks:look") == 1
        assert new.redis.zscore("kb:replaced", jid) == 4_000_000_000
        assert of_flow(old.redis) == set()
        new.work()
        run("restore", "moved0.jsonl")
        assert not new.redis.exists("kb:locks"), "its job has ended there"

    def test_a_lock_that_another_job_has_there_stays_and_is_named(self, once, old, new, move):
        once.perform_async(1)
        [name] = old.redis.hkeys("kb:locks")
        new.redis.hset("kb:locks", name, "4000000000 theirs")

        _, said = move()

        assert "1 lock of unique jobs that were put in belong to other jobs" in said
        assert new.redis.hget("kb:locks", name) == b"4000000000 theirs"

    def test_a_chain_knows_its_last_step(self, send, old, new, move):
        chain(call(send, 1), call(send, 2), call(send, 3)).perform_async()
        first = old.claim()
        old.end(first)
        [key] = old.redis.keys("kb:flow:chain:*")

        move()

        assert new.redis.get(key) == old.redis.get(key)
        assert new.redis.ttl(key) > 86_400
        new.end(first)  # it has run twice
        new.work()
        assert new.performed["Send", 2] == new.performed["Send", 3] == 1

    def test_results_progress_and_debounced_jobs(self, jobs, send, old, new, move):
        jobs[3].perform_async(1)
        send.perform_async(1)
        jid = json.loads(old.redis.lindex("queue:default", 0))["jid"]
        old.redis.hset(f"it-{jid}", mapping={"ex": 3, "c": "7"})
        old.redis.expire(f"it-{jid}", 1000)
        old.redis.set("kb:result:ended", '{"outcome":"done"}', ex=1000)

        move()

        assert new.redis.hgetall(f"it-{jid}") == {b"ex": b"3", b"c": b"7"}
        assert 900 < new.redis.ttl(f"it-{jid}") <= 1000
        assert new.redis.get("kb:result:ended") == b'{"outcome":"done"}'
        assert 900 < new.redis.ttl("kb:result:ended") <= 1000
        assert not old.redis.exists(f"it-{jid}")
        new.client.push({"class": "Settled", "args": [1]})
        assert new.redis.hlen("kb:flow:spans") == 1
        assert new.redis.zcard("schedule") == 1

    def test_suspects_stay_suspects(self, old, new, move):
        old.redis.sadd("queues", "default")
        old.redis.lpush("kb:suspects:default", "a", "b")

        taken, _ = move()

        assert "  suspects default: 2\n" in taken
        assert new.redis.lrange("kb:suspects:default", 0, -1) == [b"b", b"a"]
        assert not old.redis.exists("kb:suspects:default")


def test_what_is_left_is_said_by_name_and_number(run, old):
    old.redis.sadd("queues", "default")
    old.redis.rpush("queue:default", "a")
    old.redis.lpush("kb:inflight:v2:a:1:b:1:t:0", "x", "y")
    old.redis.hset("kb:schedules", mapping={"A": "{}", "B": "{}", "C": "{}"})
    old.redis.hset("kb:guards", "key:1", "4000000000 j")
    old.redis.set("kb:limit:bucket:mail", "1 1", ex=60)

    _, out, _ = run("export", "q.jsonl", *TAKE)

    assert out == (
        "took 1 job to q.jsonl\n  queue default: 1\nleft there:\n  jobs that workers hold: 2\n"
        "  schedules: 3\n  guards against duplicates: 1\n  limiters: 1\n"
    )
    assert json.loads(run("export", "r.jsonl", *TAKE, "--json")[1])["left"][1] == {
        "name": "schedules",
        "count": 3,
    }


def test_a_file_of_version_1_is_put_in_and_jobs_without_their_batch_are_named(
    made, old, new, run, monkeypatch
):
    batch = made(3)
    texts = old.redis.lrange("queue:default", 0, -1)
    place = form.Place(kind="queue", name="default")
    lines = [
        form.Header(id="x", at=0.0, source="", namespace=""),
        form.Chunk(number=1, place=place, members=texts[::-1]),
        form.End(chunks=1, members=3),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(form, "VERSION", 1)
        Path("old.jsonl").write_bytes(b"".join(map(form.write_line, lines)))

    code, _, err = run("restore", "old.jsonl")

    assert code == 0
    assert (
        f"3 jobs that were put in belong to 1 batch that this server does not know, such as {batch.bid}"
        in err
    )
    assert new.redis.llen("queue:default") == 3


def test_jobs_that_are_given_back_are_pending_there_again(made, old, run, monkeypatch):
    batch = made(2)

    def dying(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(reading.Taker, "release", dying)
        run("export", "lost.jsonl", *TAKE)
    assert old.redis.hget(f"kb:flow:batch:{batch.bid}", "away") == b"2"

    run("export", "--give-back", "--yes")
    old.work()

    assert old.performed["Note", "success"] == 1


def test_the_rights_of_operators_are_enough(made, once, old, new, run):
    batch = made(3)
    once.perform_async(1)
    rules = [*rules_of("kiqbridge-worker"), *more_of_operators()]
    users = []
    for fleet in (old, new):
        fleet.redis.execute_command("ACL", "SETUSER", "mover", "reset", "on", ">pw", *rules)
        fleet.redis.execute_command("ACL", "LOG", "RESET")
        users.append(SimpleNamespace(url=fleet.url.replace("redis://", "redis://mover:pw@")))

    assert run("export", "q.jsonl", *TAKE, at=users[0])[::2] == (0, "")
    assert run("restore", "q.jsonl", at=users[1])[::2] == (0, "")

    for fleet in (old, new):
        assert {each["object"] for each in fleet.redis.acl_log()} <= {"client|setinfo"}
        fleet.redis.execute_command("ACL", "DELUSER", "mover")
    assert new.batch(batch.bid).status().pending == 3
