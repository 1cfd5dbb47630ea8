"""The thread that lets suspects run alone: whom it takes, when, and that none is lost on the way."""

import json
import threading
import tracemalloc
from types import SimpleNamespace

import pytest
from support.bad_payloads import raw_of
from support.engine import EngineProcess, in_flight
from support.jobs import own_declarations
from support.launched import launched
from support.runners import ends_in
from support.waiting import wait_until

from kiqbridge.client.job import job
from kiqbridge.client.registry import default_registry
from kiqbridge.client.server import Server
from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.engine.inflight.outage import Outage
from kiqbridge.engine.perform.execution import NotBegun
from kiqbridge.engine.settle.retry import RetryPolicy
from kiqbridge.engine.settle.settling import Settler
from kiqbridge.errors import ProcessDied
from kiqbridge.features.process_pool.messages import ChildSettings
from kiqbridge.features.process_pool.pool import ProcessPool
from kiqbridge.features.suspects.isolation import Isolation
from kiqbridge.features.suspects.runner import SuspectRunner
from kiqbridge.wire.keys import Keys

KEYS = Keys()
NO_HANDLERS = Server()
CODE = """
import os, resource, signal, time
from pathlib import Path
from kiqbridge import job

HERE = Path(__file__).parent

if (HERE / "limit").exists():  # as a container has one
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + int((HERE / "limit").read_text())
    resource.setrlimit(resource.RLIMIT_AS, (most, most))

@job(name="Good")
def good():
    with (HERE / "done").open("a") as file:
        file.write(f"{os.getpid()}\\n")

@job(name="Bad", retry=False, dead=False)
def bad():
    os.kill(os.getpid(), signal.SIGBUS)
    time.sleep(60)

@job(name="Slow", timeout_s=0.3)
def slow():
    time.sleep(60)

@job(name="Fails")
def fails(*args):
    raise ValueError(f"no luck with {len(args)}")

@job(name="Hold")
def hold():
    (HERE / "began").touch()
    while not (HERE / "release").exists():
        time.sleep(0.01)
"""


@pytest.fixture(autouse=True)
def declared():
    """The same names in this process; what they do is the children's matter."""

    def nothing() -> None:
        raise AssertionError("a suspect ran in the worker itself")

    with own_declarations():
        job(name="Good")(nothing)
        job(name="Bad", retry=False, dead=False)(nothing)
        job(name="Slow", timeout_s=0.3)(nothing)
        job(name="Hold")(nothing)
        job(name="Fails")(nothing)
        yield


def policy():
    return RetryPolicy(max_retries=25, profile="7")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "suspected.py").write_text(CODE)
    return tmp_path


@pytest.fixture
def isolate(redis_url, folder):
    """Makes isolations, each of a process of its own."""
    made = []

    def make(number=1, *, require="suspected.py", server=NO_HANDLERS, paused=(), **options):
        process = EngineProcess(redis_url, identity=f"host:{number}:aaa")
        process.__enter__()
        settings = ChildSettings(
            require=(str(folder / require),),
            log_level="warning",
            log_format="plain",
            redis=RedisAccess(url=redis_url),
            namespace="",
            profile="7",
            timeout_s=25.0,
        )
        pool = ProcessPool(settings, size=1)
        pool.starter.start()
        parts = SimpleNamespace(
            identity=f"host:{number}:aaa",
            keys=process.keys,
            connect=process.connect,
            keeper=process.keeper,
            settler=Settler(process.keys),
            outage=Outage(),
        )
        isolation = Isolation(
            parts,
            tid=f"iso{number}",
            queues=["default", "mail"],
            pool=pool,
            runner=lambda _queue: SuspectRunner(
                keys=process.keys,
                capsule="default",
                policy=policy,
                server=server,
                registry=default_registry,
                paused=lambda: frozenset(paused),
            ),
            **options,
        )
        made.append((isolation, pool, process))
        return isolation

    yield make
    for isolation, pool, process in made:
        isolation.stop()
        pool.stop()
        process.__exit__()


def suspect(redis, name, jid="j1", queue="default", **options):
    payload = {"class": name, "args": [], "jid": jid, "queue": queue, **options}
    return suspect_text(redis, json.dumps(payload).encode(), jid, queue)


def suspect_text(redis, text, jid="j1", queue="default"):
    redis.lpush(KEYS.suspects(queue), text)
    redis.set(KEYS.recovered(jid), 3)
    return text


def test_without_suspects_a_look_is_one_command(redis, isolate):
    isolation = isolate()
    before = redis.info("commandstats")

    assert not isolation.look()

    after = redis.info("commandstats")
    calls = {
        name: each["calls"] - before.get(name, {"calls": 0})["calls"]
        for name, each in after.items()
    }
    assert calls["cmdstat_exists"] == 1
    assert calls.get("cmdstat_evalsha", 0) == 0


def test_one_that_succeeds_is_acknowledged_reported_and_its_count_forgotten(redis, isolate, folder):
    suspect(redis, "Good", queue="mail", flow={"result_ttl_s": 60})
    isolation = isolate()

    assert isolation.look()

    assert (folder / "done").exists()
    assert not redis.exists(KEYS.suspects("mail"), KEYS.recovered("j1"), KEYS.isolation)
    assert in_flight(redis) == []
    assert (isolation.processed, isolation.failed) == (1, 0)
    assert repr(isolation) == "<Isolation iso1 idle>"
    [end] = ends_in(redis)
    assert (end.outcome, end.output) == ("done", "null")
    assert not isolation.look()


def children_started(isolation, monkeypatch):
    """Gets an entry for each child that is started from now on."""
    started, start = [], isolation._pool.start_child
    monkeypatch.setattr(isolation._pool, "start_child", lambda: started.append("child") or start())
    return started


def test_one_of_a_paused_queue_waits_without_a_child_and_holds_up_none_of_another_queue(
    redis, isolate, folder, monkeypatch
):
    suspect(redis, "Good", "j1")
    suspect(redis, "Good", "j2", queue="mail")
    redis.sadd("paused", "default", "other")
    isolation = isolate()
    started = children_started(isolation, monkeypatch)

    assert isolation.look()
    assert not any(isolation.look() for _ in range(3))

    assert started == ["child"]
    assert redis.llen(KEYS.suspects("default")) == 1
    assert not redis.exists(KEYS.suspects("mail"))
    redis.srem("paused", "default")
    assert isolation.look()
    assert len((folder / "done").read_text().split()) == 2


def test_for_a_key_of_a_foreign_type_no_child_is_started(redis, isolate, monkeypatch):
    redis.set(KEYS.suspects("default"), "not what it should be")
    isolation = isolate()
    started = children_started(isolation, monkeypatch)

    assert not isolation.look()

    assert started == []


def test_one_after_the_other_each_in_a_child_of_its_own(redis, isolate, folder):
    suspect(redis, "Good", "j1")
    suspect(redis, "Good", "j2")
    isolation = isolate()

    assert isolation.look()
    assert redis.llen(KEYS.suspects("default")) == 1
    assert isolation.look()

    assert len(set((folder / "done").read_text().split())) == 2
    assert in_flight(redis) == []


def test_one_that_kills_its_child_is_dead_whatever_its_options_say(redis, isolate, caplog):
    suspect(redis, "Bad", retry=False, dead=False, flow={"result_ttl_s": 60})

    assert isolate().look()

    [text] = redis.zrange("dead", 0, -1)
    kept = json.loads(text)
    assert kept["jid"] == "j1"
    assert kept["error_class"] == "kiqbridge.errors.ProcessDied"
    assert "was ended by SIGBUS" in kept["error_message"]
    assert not redis.exists("retry", KEYS.suspects("default"))
    assert in_flight(redis) == []
    assert any("job j1 of queue default is what killed" in message for message in caplog.messages)

    [end] = ends_in(redis)
    assert end.error == "kiqbridge.errors.ProcessDied"


def test_one_that_takes_too_long_is_no_killer(redis, isolate):
    suspect(redis, "Slow", retry=5)

    assert isolate().look()

    [text] = redis.zrange("retry", 0, -1)
    assert json.loads(text)["error_class"] == "kiqbridge.errors.JobTimeout"
    assert not redis.exists("dead")


def test_two_processes_run_one_suspect_at_a_time(redis, isolate, folder):
    suspect(redis, "Hold", "j1")
    suspect(redis, "Hold", "j2")
    first, second = isolate(1), isolate(2)
    running = threading.Thread(target=first.look)
    running.start()
    wait_until((folder / "began").exists, 20)

    assert not second.look()
    assert redis.llen(KEYS.suspects("default")) == 1
    assert ", in hold\n" in first.stacks()["iso1"]
    (folder / "release").touch()
    running.join(20)

    assert second.look()
    assert in_flight(redis) == []


def test_one_that_does_not_end_keeps_others_of_the_fleet_waiting_for_its_turn_alone(
    redis, isolate, folder, monkeypatch
):
    monkeypatch.setattr("kiqbridge.features.suspects.isolation.LOCK_S", 1.0)
    monkeypatch.setattr("kiqbridge.features.suspects.isolation.RENEW_S", 0.1)
    monkeypatch.setattr("kiqbridge.features.suspects.isolation.TURN_S", 2.0)
    suspect(redis, "Hold", "j1")
    first, second = isolate(1), isolate(2)
    running = threading.Thread(target=first.look)
    running.start()
    wait_until((folder / "began").exists, 20)
    suspect(redis, "Good", "j2")

    assert not second.look()
    wait_until(second.look, 20)

    assert running.is_alive()
    assert (folder / "done").exists()
    (folder / "release").touch()
    running.join(20)
    assert in_flight(redis) == []


def test_when_the_child_cannot_start_the_suspect_was_not_even_claimed(redis, isolate):
    suspect(redis, "Good")

    with pytest.raises(NotBegun, match=r"did not start: .*there is no such file"):
        isolate(require="missing.py").look()

    assert redis.llen(KEYS.suspects("default")) == 1
    assert not redis.exists(KEYS.isolation)


def test_replies_that_are_lost_cost_nothing_and_condemn_once(redis, isolate):
    suspect(redis, "Bad")
    isolation = isolate()
    isolation._connection.lose = {2, 4}  # 1 lock, 2 and 3 claim, 4 settling

    assert isolation.look()

    assert redis.zcard("dead") == 1
    assert in_flight(redis) == []


@pytest.mark.parametrize("error", [MemoryError(), SystemExit()])
def test_an_error_of_ours_gives_it_back_to_the_suspects(redis, isolate, monkeypatch, error):
    def fail(_runner, *_args):
        raise error

    text = suspect(redis, "Good")
    isolation = isolate()
    monkeypatch.setattr(SuspectRunner, "order", fail)

    with pytest.raises(type(error)):
        isolation.look()

    monkeypatch.undo()
    assert redis.lrange(KEYS.suspects("default"), 0, -1) == [text]
    assert isolation.look()
    assert in_flight(redis) == []


def test_a_claim_that_is_cut_short_leaves_it_among_the_suspects(redis, isolate, monkeypatch):
    text = suspect(redis, "Good")
    isolation = isolate()
    connection, script = isolation._connection, isolation._connection.script

    def cut_short(*args, **options):
        reply = script(*args, **options)
        if connection.scripts == 2:  # 1 lock, 2 claim
            raise SystemExit
        return reply

    monkeypatch.setattr(connection, "script", cut_short)

    with pytest.raises(SystemExit):
        isolation.look()

    assert redis.lrange(KEYS.suspects("default"), 0, -1) == [text]
    assert in_flight(redis) == []


def test_at_the_deadline_the_running_one_goes_back_to_the_suspects(redis, isolate, folder):
    text = suspect(redis, "Hold", queue="mail")
    isolation = isolate(look_s=0.01)
    isolation.start()
    wait_until((folder / "began").exists, 20)
    assert isolation.current.text == text
    child = isolation._child

    isolation.stop(0.1)

    wait_until(lambda: not isolation.alive, 10)
    assert redis.lrange(KEYS.suspects("mail"), 0, -1) == [text]
    assert not redis.exists("dead", "retry", "queue:mail")
    assert not child.is_running
    assert in_flight(redis) == []


def test_once_quiet_none_is_taken(redis, isolate):
    suspect(redis, "Good")
    isolation = isolate(look_s=0.01)
    isolation.quiet()
    isolation.start()

    wait_until(lambda: not isolation.alive, 5)

    assert redis.llen(KEYS.suspects("default")) == 1


def test_without_the_feature_suspects_stay_and_the_worker_is_not_ready(
    redis, redis_url, monkeypatch
):
    text = suspect(redis, "Good")
    monkeypatch.setattr("kiqbridge.seams.found", lambda *_args: iter(()))

    with launched(redis_url, recover_after_s=3.0) as launcher:
        parts = launcher.parts
        wait_until(lambda: any("lacks the feature suspects" in it for it in parts.all_troubles()))

        assert redis.lrange(KEYS.suspects("default"), 0, -1) == [text]


def test_a_worker_that_was_quieted_before_its_start_takes_none(redis, redis_url):
    suspect(redis, "Good")

    with launched(redis_url, is_quiet=True) as launcher:
        wait_until(lambda: not launcher.parts.suspects.alive, what="the end of its thread")
        assert redis.llen(KEYS.suspects("default")) == 1


@pytest.mark.slow
@pytest.mark.any_server
class TestATextThatKillsByMemory:
    """It is parsed in the child alone, so the worker survives it."""

    BOMB = b'{"class":"Good","args":[[' + b"[]," * 400_000 + b'[]]],"jid":"j1","retry_count":2}'

    @pytest.fixture(autouse=True)
    def limited(self, folder):
        (folder / "limit").write_text("20000000")

    def look(self, isolation):
        """Bytes that Python held at once in this process, at most."""
        tracemalloc.start()
        try:
            assert isolation.look()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def test_it_kills_the_child_and_is_dead_as_it_was_with_the_reason(self, redis, isolate):
        suspect_text(redis, self.BOMB)
        server, deaths, errors = Server(), [], []
        server.death_handler(lambda payload, error: deaths.append((payload, str(error))))
        server.error_handler(lambda error, context: errors.append((type(error), context["job"])))

        assert self.look(isolate(server=server)) < 17 * len(
            self.BOMB
        )  # parsed it takes more than 20 times

        [text] = redis.zrange("dead", 0, -1)
        assert text.startswith(self.BOMB[:-1])
        kept = json.loads(text)
        assert kept["error_class"] == "kiqbridge.errors.ProcessDied"
        assert (kept["jid"], kept["queue"], kept["retry_count"]) == ("j1", "default", 3)
        assert kept["retried_at"]
        assert kept["args"] == json.loads(self.BOMB)["args"]  # so it can be revived
        assert in_flight(redis) == []
        [(payload, message)] = deaths
        assert (payload["class"], payload["jid"]) == ("Good", "j1")
        assert "the child process" in message and "args" not in payload
        assert [(kind, job["jid"]) for kind, job in errors] == [(ProcessDied, "j1")]

    def test_one_that_is_no_object_is_dead_as_the_argument_of_a_job(self, redis, isolate):
        text = self.BOMB[:-1]
        suspect_text(redis, text)

        assert self.look(isolate()) < 17 * len(text)

        [kept] = redis.zrange("dead", 0, -1)
        assert raw_of(kept) == text
        assert json.loads(kept)["jid"] == "j1"

    def test_a_long_one_that_is_innocent_is_performed(self, redis, isolate, folder):
        (folder / "limit").unlink()
        payload = {"class": "Fails", "args": ["x" * 2_000_000], "jid": "j1", "retry": 5}
        suspect_text(redis, json.dumps(payload).encode())
        server, errors = Server(), []
        server.error_handler(lambda error, context: errors.append((error, context["job"])))

        isolation = isolate(server=server)
        assert isolation.look()

        [text] = redis.zrange("retry", 0, -1)
        kept = json.loads(text)
        assert (kept["error_class"], kept["error_message"]) == ("ValueError", "no luck with 1")
        assert kept["args"] == payload["args"]
        assert (isolation.processed, isolation.failed) == (1, 1)
        [(error, job)] = errors
        assert isinstance(error, ValueError) and str(error) == "no luck with 1"
        assert job == {"class": "Fails", "jid": "j1"}


def test_handlers_get_the_error_and_the_job_of_a_suspect_that_fails(redis, isolate):
    suspect(redis, "Fails", args=[1, 2], retry=0, flow={"result_ttl_s": 60})
    server, deaths, errors = Server(), [], []
    server.death_handler(lambda payload, error: deaths.append((payload, error)))
    server.error_handler(lambda error, context: errors.append((error, context)))

    assert isolate(server=server).look()

    [text] = redis.zrange("dead", 0, -1)
    [(payload, error)] = deaths
    assert payload == json.loads(text)
    assert isinstance(error, ValueError)
    [(error, context)] = errors
    assert str(error) == "no luck with 2"
    assert context["job"]["args"] == [1, 2]
    assert context["context"] == "a job raised an error"

    [end] = ends_in(redis)
    assert end.error == "ValueError"


def test_one_that_cannot_be_read_is_dead_as_the_argument_of_a_job(redis, isolate):
    suspect_text(redis, b'{"jid":"j1",')
    server, errors = Server(), []
    server.error_handler(lambda _error, context: errors.append(context))

    assert isolate(server=server).look()

    [kept] = redis.zrange("dead", 0, -1)
    assert raw_of(kept) == b'{"jid":"j1",'
    assert errors[0]["jobstr"] == b'{"jid":"j1",'


def test_one_whose_class_is_paused_is_put_off(redis, isolate, folder):
    text = suspect(redis, "Good")
    isolation = isolate(paused=["Good"])

    assert isolation.look()

    assert redis.zrange("schedule", 0, -1) == [text]
    assert not (folder / "done").exists()
    assert (isolation.processed, isolation.failed) == (0, 0)


def test_while_the_beat_finds_no_suspects_nothing_is_asked_for(redis, isolate, folder):
    isolation = isolate()
    isolation._look_s = 0.05
    asked = []
    look, isolation.look = isolation.look, lambda: asked.append("look") or look()
    isolation.note(False)
    suspect(redis, "Good", queue="mail")
    isolation.start()
    has_looked = threading.Event()
    assert not has_looked.wait(0.3)  # six times as long as until a look
    assert asked == []

    isolation.note(True)

    wait_until((folder / "done").exists, 20, "the suspect")
    isolation.stop()
