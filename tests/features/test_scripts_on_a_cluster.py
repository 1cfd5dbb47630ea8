"""Every script, of the kernel and of all features, in cluster mode: all keys of a call lie in one slot."""

import json
import threading
import time
from types import SimpleNamespace

import pytest
from support.engine import EngineProcess, poller_on, put_back
from support.placing import place_due
from support.servers import one_node_cluster
from support.waiting import wait_until

from kiqbridge.api import DeadSet, Queue, find_job, open_operator, record_audit
from kiqbridge.client.client import Client
from kiqbridge.engine.inflight.incarnations import find_unregistered
from kiqbridge.engine.inflight.recovery import Reaper
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.engine.perform.ended import Ended
from kiqbridge.engine.perform.listening import Listening, PendingClaim
from kiqbridge.engine.perform.turns import State
from kiqbridge.engine.settle.metrics import Metrics, Stats
from kiqbridge.engine.settle.settling import acknowledge, repush
from kiqbridge.features.dead_letters.trim import DeadTrim
from kiqbridge.features.done.keeper import note
from kiqbridge.features.done.record import entry_of
from kiqbridge.features.dynamic.schedule import Schedule
from kiqbridge.features.dynamic.schedules import Schedules
from kiqbridge.features.gone_jobs.places import places
from kiqbridge.features.imports.sidekiq_cron import set_cron_status
from kiqbridge.features.limiters.store import Lock, note_terms, renew_lock
from kiqbridge.features.missed_ticks.missed import check_missed
from kiqbridge.features.publishing.function import publish_manifest
from kiqbridge.features.transfer.form import Place, Record
from kiqbridge.features.transfer.reading import Taker, find_held, give_back
from kiqbridge.features.transfer.state import StateSource, mark_away, put_records
from kiqbridge.features.transfer.writing import Restorer
from kiqbridge.features.unique import locks
from kiqbridge.features.unique.locks import ask_lock
from kiqbridge.flow import Batch, Debounce, Throttle, Unique, limiter
from kiqbridge.store import scripts
from kiqbridge.store.begin import begin
from kiqbridge.store.effects import Effect
from kiqbridge.store.forgetting import forget_what_is_over
from kiqbridge.store.outbox import apply_ends, take_ends
from kiqbridge.store.pauses import end_pause, read_entries
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.runs import RunMark, ask_run, end_run
from kiqbridge.wire.dead_bounds import DeadBounds
from kiqbridge.wire.flow_mark import FlowEnd
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import TickMark


class TestCluster:
    """A single node that owns all slots refuses scripts whose keys lie in different ones."""

    @pytest.fixture
    def cluster_url(self, session_server):
        with one_node_cluster(session_server.name) as server:
            yield server.url

    def test_every_script_runs_under_a_hash_tagged_namespace(self, cluster_url):
        pool, keys = RedisPool(cluster_url), Keys("{app}")
        client = Client(namespace="{app}", pool=pool)
        item = {"class": "Nop", "args": [1], "queue": "default"}
        poller = poller_on(pool, keys=keys, client=client)

        assert client.push_tick("s", 4_000_000_000, [item], by="test").kind == "enqueued"
        assert not client.push_once([item], ["event#0"])[0].duplicate
        pool.call("ZADD", keys.schedule, 1, '{"class":"Nop","args":[],"queue":"mail"}', 2, "junk")
        assert poller.move_due(keys.schedule, 10.0) == 2
        pool.call("ZADD", keys.ledgers, 1, "over")
        assert poller.lead()
        assert forget_what_is_over(pool.connection(), keys)
        assert pool.call("ZRANGE", keys.ledgers, 0, -1) == [b"s"]
        with EngineProcess(cluster_url, namespace="{app}") as process:
            process.keeper.current.valid_until = 0.0
            assert process.keeper.confirm(process.keeper.current)
            process.keeper.report(lambda news: None)
            process.keeper.watch([keys.suspects("low")], lambda exists: None)
            process.keeper._beat()
            assert process.keeper.watches
            dead = EngineProcess(cluster_url, namespace="{app}", identity="host:2:bbb")
            dead.keeper._register(dead.connect())
            pool.call("SET", keys.recovered("b" * 24), 2)
            pool.call("LPUSH", keys.queue("low"), b"low", b'{"jid":"%s"}' % (b"b" * 24))
            dead.claimer().claim(["low"], 2)
            beat = pool.call("HGET", keys.alive, dead.incarnation)
            assert Reaper(dead.connect(), keys).reap(dead.incarnation, beat) == 2
            assert pool.call("LLEN", keys.suspects("low")) == 1
            dead.keeper._register(dead.connect())
            pool.call("LPUSH", keys.queue("low"), b"low")
            dead.claimer().claim(["low"], 1)
            pool.call("SREM", keys.inflight, dead.incarnation)
            [found] = find_unregistered(dead.connect(), keys)
            assert Reaper(dead.connect(), keys).adopt(found.incarnation, found.tids).returned == 1
            claimer = process.claimer()
            chunk = claimer.claim(["default", "mail"], 5)
            assert chunk.size == 2
            assert process.settle(chunk, chunk.take(), keys.dead, 1.0, b"dead")
            acknowledge(process.connect(), keys, [(chunk, b"another")])
            assert put_back(claimer.connection, process.keys, chunk) == 1
            chunk = claimer.claim(["default", "mail"], 5)
            [job] = chunk.waiting
            assert repush(process.connect(), keys, chunk, job, queue="other", text=job)
            chunk = claimer.claim(["default", "mail"], 5)
            assert repush(
                process.connect(), keys, chunk, chunk.waiting[0], queue="mail", text=b"anew"
            )
        assert pool.call("LLEN", keys.queue("other")) == 1
        counter = SimpleNamespace(processed=2, failed=1)
        Stats([counter], keys, "host:1:aaa").flush(pool.connection(), 0.0)
        assert pool.call("GET", keys.stat("processed")) == b"2"
        client.pause_queue("default", for_s=0.001)
        [entry] = read_entries({b"queue:default": pool.call("HGET", keys.pauses, "queue:default")})
        wait_until(lambda: end_pause(pool.connection(), keys, entry) == 1)
        client.pause_class("Nop")
        assert client.resume_class("Nop")
        assert client.deploy_mark("v1").new
        pool.call("HSET", keys.cron_job("min"), "status", "enabled")
        assert set_cron_status(pool, keys, "min", "disabled")
        assert Schedules(client).save(Schedule("hourly", "Nop", every=3600)) == "created"
        assert place_due(client, by="test", horizon_s=7200).placed >= 2
        assert Schedules(client).skip_next("hourly")
        pool.call("ZADD", keys.task_reports, 0, "report")
        assert pool.connection().script(scripts.load("take_reports"), [keys.task_reports], [1, 60])[
            1:
        ] == [b"report"]
        pool.call("ZADD", keys.flow_ends, 0, "end")
        assert take_ends(pool.connection(), keys, most=1, for_s=60) == [b"end"]
        effects = [Effect("add", [keys.task_reports], [0, "report"])]
        assert apply_ends(pool.connection(), keys, [(b"end", effects)]) == [[1]]
        with Batch(client=client) as batch:
            client.push({**item, "queue": "flow"})
        outbox = Outbox(client, pool.connection())
        payload = json.loads(pool.call("RPOP", keys.queue("flow")))
        done = FlowEnd(
            flow={**payload["flow"], "next": {"id": "c", "n": 2, "steps": [{"job": payload}]}},
            jid=payload["jid"],
            job_class="Nop",
            outcome="done",
            at=1.0,
        )
        pool.call("ZADD", keys.flow_ends, 0, done.to_text())
        assert not outbox.look()
        assert batch.status().success
        batch.cancel()
        mark = RunMark(TickMark(schedule="s", at=60, overlap="skip"), "j1", "host:1:aaa")
        assert begin(pool.connection(), [ask_run(keys, mark, is_first=True)]) == [("run", [])]
        assert end_run(pool.connection(), keys, mark, is_over=True)
        push_by_rules(client, pool.connection(), keys)
        use_limits(client)
        metrics = Metrics(keys, identity="host:1:aaa")
        metrics.record("Nop", 5.0, False)
        metrics.flush(pool.connection(), 1_700_000_000.0)
        operator = open_operator(client=client, by="ann")
        pool.call("ZADD", keys.dead, 5, b'{"class":"X","args":[],"jid":"a"}')
        assert DeadSet(operator).retry_all() >= 1
        assert Queue("default", operator).apply_all("move", to="low") >= 1
        assert find_job("none", operator) == []
        assert Queue("low", operator).clear() >= 1
        record_audit(operator, "deploy", "all")
        move_and_give_back(pool, keys)
        assert all(key.startswith(b"{app}:") for key in pool.call("KEYS", "*"))
        poller.hand_over()
        rule = {"expression": "cron(* * * * ? *)", "jobs": [item], "origin": "template"}
        manifest = {"version": 1, "hash": "x", "schedules": {"A": rule}}
        assert publish_manifest(pool, keys, manifest, stack="shop", by="test").standing is None
        assert check_missed(pool, keys, client, by="test", now=time.time() + 900).new
        listen(cluster_url, pool, keys)
        record = entry_of(Ended("j", "Nop", "low", "done", 1.0, 0.1, "t", {}), "host:1:aaa")
        assert note(pool.connection(), keys, [record], 100) == 1
        pool.call("ZADD", keys.dead, 1, b"old")
        DeadTrim(keys, DeadBounds()).look(pool.connection())
        assert pool.call("ZCARD", keys.dead) == 0
        pool.close()

    def test_the_files_are_all_that_there_are(self):
        folders = (scripts.FOLDER, *scripts.FOLDER.parents[1].glob("features/*/scripts"))
        names = sorted(path.stem for folder in folders for path in folder.glob("*.lua"))

        known = """
            acknowledge apply_ends audit_note beat begin bucket bury claim claim_hand_on concurrent cron_status deploy_mark due end_cleared end_pause end_run flow_scan flush_metrics flush_stats forget_batch
            forget_guards forget_ledgers give_back hold_export hold_schedule lead level limits locks_due locks_looked mark_away note_done operate operate_clear pause place promote publish_manifest push push_flow push_tick read_queue read_set
            reap_adopt reap_begin reap_end reap_inspect reap_return reap_suspect record_missed register release_export renew renew repush restore_chunk restore_state return_export save_schedule seek settle take_reports terms trim_dead unpause
            wake_check wake_forget wake_renew window
        """
        assert names == known.split(), "a new script must also run in the test above"


def listen(url, pool, keys):
    """All scripts of processes that wait for jobs."""
    with EngineProcess(url, namespace="{app}") as process:
        listening = Listening(["woken"], keys, pool.raw_connection)
        offer = PendingClaim(process.claimer(), ["woken"])
        taken = []
        waiting = threading.Thread(target=lambda: taken.append(listening.wait(offer)))
        waiting.start()
        wait_until(lambda: listening.state is State.LISTENING and not listening.is_alone)
        wait_until(lambda: pool.call("LLEN", keys.wake("woken")[0]), what="it has renewed its sign")
        pool.call("LPUSH", keys.queue("woken"), b"job")
        waiting.join(10)
        assert list(taken[0].waiting) == [b"job"]
        listening.close()


def push_by_rules(client, connection, keys):
    """All scripts of unique, debounced and throttled jobs."""
    item = {"class": "Ruled", "args": [1]}
    rules = {"unique": Unique(), "debounce": Debounce(wait_s=1), "throttle": Throttle(per_s=1)}
    jid = client.push({**item, "unique": rules["unique"]})
    assert client.push({**item, "unique": rules["unique"]}) is None
    for name in ("debounce", "throttle"):
        assert client.push({**item, name: rules[name]})
    [name] = connection.call("HKEYS", keys.locks)
    held = {"jid": jid, "flow": {"lock": name.decode(), "until": "done"}}
    assert begin(connection, [ask_lock(keys, held).part]) == [("run", [])]
    connection.call("ZADD", keys.locks_look, 1, name)
    [lock] = locks.due(connection, keys)
    assert lock.jid == jid
    assert any(jid in part.jids for part in places(connection, keys))
    assert locks.end(connection, keys, [lock]) == 1
    effects = [Effect("unlock", [keys.locks, keys.locks_look, keys.replaced], [name, jid])]
    connection.call("ZADD", keys.flow_ends, 0, "end")
    assert apply_ends(connection, keys, [(b"end", effects)]) == [[0]]


def use_limits(client):
    """All scripts of limiters."""
    for made in (
        limiter.concurrent("a", 1, client=client),
        limiter.window("a", 1, per="day", client=client),
        limiter.bucket("a", 1, per="day", client=client),
        limiter.points("a", 1, refill_per_s=1e-5, client=client),
    ):
        with made.within_limit():
            assert made.status().used == pytest.approx(1, abs=0.01)
        note_terms(client.pool, client.keys, [made.asked()])
    pool, key = client.pool, client.keys.limit("concurrent", "a")
    assert not renew_lock(Lock(pool=pool, key=key, token="t", valid_s=1))


def move_and_give_back(pool, keys):
    """All scripts of export and restore."""
    place = Place(kind="queue", name="moved")
    state = StateSource(pool=pool, keys=keys, takes=True)
    taker = Taker(pool=pool, keys=keys, export="e1", file="f", state=state, is_all=True)
    pool.call("LPUSH", keys.queue("moved"), "a", "b")
    held = taker.hold(place, 1, 1)
    assert give_back(pool, keys, held) == 1
    held = taker.hold(place, 1, 1)
    assert Restorer(pool, keys, "e1").put(held.chunk) == 1
    taker.release(held)
    assert find_held(pool, keys) is None
    records = [
        Record("batch", "b", 4e9, [b"created_at", b"1", b"sealed", b"1"]),
        Record("jobs", "b", 4e9, [b"j", b"p"]),
        Record("announce", "b", 0.0),
        *(Record(kind, "x", 4e9, [b"1"]) for kind in ("chain", "result", "lock", "span")),
        *(Record(kind, "x", 4e9) for kind in ("replaced", "cancelled")),
        Record("progress", "x", 4e9, [b"c", b"7"]),
    ]
    assert put_records(pool, keys, records) == 0
    assert mark_away(pool, keys, "b", ["j"]) == 1
    rest = state.rest(is_all=True, with_spans=True)
    kinds = {record.kind for line in rest for record in line.records}
    assert kinds >= {"batch", "jobs", "announce", "result", "span"}
    state.forget()
    assert not pool.call("EXISTS", keys.batch("b"))
