"""The rights that docs/reference/security.md asks for: a worker and the enqueue function do all under them."""

import json
import re
import signal
import time
from pathlib import Path

import pytest
import redis as redis_py
from support.enqueue_function import ENVIRONMENT, Context, load_app, read_event
from support.notes import Notes
from support.processes import ran
from support.servers import debian_server
from support.waiting import wait_until

from kiqbridge import Client, RedisRefused, Schedule, Schedules
from kiqbridge.errors import QueueTooDeep
from kiqbridge.features.missed_ticks.missed import check_missed
from kiqbridge.features.publishing.function import publish_manifest, stands
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

pytestmark = [pytest.mark.slow, pytest.mark.redis_server, pytest.mark.any_server]

ROOT = Path(__file__).parents[2]
NAMESPACE = "myapp"
KEYS = Keys(NAMESPACE)
WORKER, FUNCTION = "kiqbridge-worker", "kiqbridge-enqueue"
PASSWORD = "CHANGE-ME"

JOBS = """
import asyncio
from kiqbridge import IterableJob, job
from support.noting import hold, is_first, note

@job
def plain(name):
    note(name)

@job
async def later(name):
    await asyncio.sleep(0)
    note(name)

@job(pool="process")
def apart(name):
    note(name)

@job(retry=3, retry_in=lambda *_: 1)
def fails_once(name):
    if is_first(name):
        raise ValueError("the first time")
    note(name)

@job(retry=0)
def dies(name):
    raise ValueError("always")

@job
def hangs(name):
    note("begin " + name)
    hold()
    note(name)

class Steps(IterableJob):
    def build_enumerator(self, name, *, cursor):
        for number in range(cursor or 0, 3):
            yield number, number + 1

    def each_iteration(self, number, name):
        note(f"{name} {number}")
"""


@pytest.fixture
def seen(tmp_path):
    return Notes(tmp_path)


def rules_of(user: str) -> list[str]:
    """What the document says of a user, as ACL SETUSER takes it."""
    text = (ROOT / "docs" / "reference" / "security.md").read_text(encoding="utf-8")
    [block] = re.findall(rf"```text\nuser {user} (.*?)```", text, re.DOTALL)
    return block.split()


@pytest.fixture(scope="module")
def server():
    """Redis 7.0 with both users; `raw` is its owner."""
    with debian_server() as server, redis_py.Redis.from_url(server.url) as raw:
        for user in (WORKER, FUNCTION):
            raw.execute_command("ACL", "SETUSER", user, "reset", *rules_of(user))
        yield server


@pytest.fixture
def raw(server):
    with redis_py.Redis.from_url(server.url) as raw:
        raw.flushall()
        raw.execute_command("ACL", "LOG", "RESET")
        yield raw


def address(server, user):
    return server.url.replace("redis://", f"redis://{user}:{PASSWORD}@")


def refused(raw):
    """What was refused since the test began: (user, what)."""
    log = raw.execute_command("ACL", "LOG")
    return [
        tuple(each[name].decode() for name in (b"username", b"reason", b"object")) for each in log
    ]


FLAGS = ("-c", "3", "-t", "5")
ENV = {
    "KIQBRIDGE_NAMESPACE": NAMESPACE,
    "KIQBRIDGE_RECOVER_AFTER_S": "4",
    "KIQBRIDGE_ORPHAN_LIMIT": "1",
}


@pytest.fixture
def redis_url(server):
    """Of the user of the document."""
    return address(server, WORKER)


@pytest.fixture
def client(redis_url):
    """Pushes and pauses under the worker's user."""
    made = Client(redis_url, namespace=NAMESPACE)
    yield made
    made.close()


def command(server, *words):
    """One of our commands under the worker's user; its exit code and output."""
    environ = {
        "REDIS_URL": address(server, WORKER),
        "KIQBRIDGE_NAMESPACE": NAMESPACE,
        "KIQBRIDGE_RECOVER_AFTER_S": "4",
    }
    return ran(*words, env=environ)


def push(client, name, *args, **more):
    return client.push({"class": name, "args": list(args), **more})


def test_a_worker_does_all_that_it_does(raw, start, client, seen):
    worker = start(ready="is ready")
    push(client, "plain", "at once")
    push(client, "later", "on the loop")
    push(client, "apart", "in a child")
    push(client, "fails_once", "tried again")
    push(client, "dies", "dead", retry=0)
    push(client, "plain", "scheduled", at=time.time() + 0.5)
    push(client, "Steps", "step")
    client.push_once([{"class": "plain", "args": ["guarded"]}] * 2, ["k", "k"])
    client.push_tick("s", int(time.time()), [{"class": "plain", "args": ["ticked"]}], by="test")

    done = {"at once", "on the loop", "in a child", "tried again", "scheduled", "guarded", "ticked"}
    done |= {"step 0", "step 1", "step 2"}
    wait_until(lambda: set(seen.events()) >= done, 60, lambda: f"{seen.events()}: {refused(raw)}")
    wait_until(lambda: raw.zcard(KEYS.dead) == 1, 20, "the dead one")
    assert sorted(seen.events()) == sorted(done)

    client.pause_queue("default", for_s=0.5)
    client.pause_class("dies")
    push(client, "plain", "after the pause")
    seen.wait("after the pause")
    assert client.resume_class("dies")
    assert push(client, "Steps", "cancelled", at=time.time() + 3600)
    assert client.cancel("0123456789abcdef01234567")

    wait_until(lambda: raw.smembers(KEYS.processes), 20, "its heartbeat")
    worker.signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert raw.get(KEYS.stat("processed"))
    assert list(raw.scan_iter("myapp:j|*")), "its metrics"
    assert {key for key in raw.scan_iter() if not key.startswith(b"myapp:")} == set()
    assert "refuses" not in worker.output, worker.output
    assert refused(raw) == []


def test_the_jobs_of_a_killed_worker_are_given_back_and_suspects_run_alone(
    raw, start, client, seen
):
    first = start(ready="is ready")
    push(client, "hangs", "rescued")
    seen.wait("begin rescued")
    first.kill()
    seen.release()

    second = start(ready="is ready")  # with an orphan limit of 1 it runs alone, in a child
    seen.wait("rescued")

    assert "runs alone" in second.output
    second.signal(signal.SIGTERM)
    assert second.wait(30) == 0, second.output
    assert refused(raw) == []


def test_a_job_that_cannot_end_in_time_is_given_back(raw, start, client, seen):
    worker = start("-t", "1", ready="is ready")
    push(client, "hangs", "given back")
    seen.wait("begin given back")

    worker.signal(signal.SIGTERM)

    assert worker.wait(30) == 0
    assert raw.llen(KEYS.queue("default")) == 1
    assert refused(raw) == []


def test_supervised_processes_and_basic_fetch_need_nothing_else(raw, start, client, seen):
    for number, (args, env) in enumerate(
        [(["--processes", "2"], {}), ([], {"KIQBRIDGE_FETCH": "basic"})]
    ):
        worker = start(*args, ready="is ready", **env)
        push(client, "plain", f"job {number}")
        seen.wait(f"job {number}")
        worker.signal(signal.SIGTERM)
        assert worker.wait(40) == 0

    assert refused(raw) == []


def test_the_commands_of_operators_work(server, raw, client):
    push(client, "plain", "x")
    client.push_once([{"class": "plain", "args": []}], ["k"])

    answers = {
        words: command(server, *words.split())
        for words in (
            "doctor --ignore no-worker",
            "recover",
            "queue pause default",
            "queue list",
            "queue resume default",
            "class pause plain",
            "class list",
            "class resume plain",
            "deploy-mark v1",
        )
    }

    assert {words: code for words, (code, _) in answers.items()} == dict.fromkeys(answers, 0), (
        answers
    )
    _, told = answers["doctor --ignore no-worker"]
    assert "checks found nothing wrong" in told
    assert " not known" not in told
    assert refused(raw) == []


def test_the_enqueue_function_pushes_all_forms_of_events(server, raw, monkeypatch, capsys):
    for name, value in {
        **ENVIRONMENT,
        "REDIS_URL": address(server, FUNCTION),
        "KIQBRIDGE_NAMESPACE": NAMESPACE,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("kiqbridge.store.redis_connection.PROBE_AFTER_IDLE_S", 0.0)
    app = load_app()
    now = time.time()
    events = [
        read_event("direct_one"),
        read_event("direct_one", dedupe_key="k"),
        read_event("direct_one", dedupe_key="k") | {"in": 60},
        read_event("direct_many"),
        read_event("bus_event"),
        read_event("bus_event_replayed"),
        read_event("scheduler_tick", tick={"schedule": "s", "at": now}),
        read_event("scheduler_tick", tick={"schedule": "s", "at": now}),
    ]
    # One that is over, so that this push forgets it.
    raw.hset(KEYS.guards, "old", "1000 j")
    raw.zadd(KEYS.guards_until, {"old": 1000})

    answers = [app.lambda_handler(event, Context()) for event in events]

    assert [bool(answer["duplicates"]) for answer in answers] == [
        *(False, False, True, False, False, False, False, True)
    ]
    assert not raw.hexists(KEYS.guards, "old")
    # A request of several jobs, whose key is looked up first.
    request = read_event("http/url_iam")
    request["headers"]["idempotency-key"] = "k"
    job = {"class": "HealthPulse", "args": []}
    statuses = [
        app.lambda_handler(request | {"body": json.dumps({"jobs": [job, *others]})}, Context())[
            "statusCode"
        ]
        for others in ([job], [job], [job | {"args": [1]}])
    ]
    assert statuses == [202, 200, 422]
    assert refused(raw) == []


def test_the_functions_of_each_minute_need_what_a_worker_needs(server, raw, client, monkeypatch):
    monkeypatch.setenv("REDIS_URL", address(server, WORKER))
    monkeypatch.setenv("KIQBRIDGE_NAMESPACE", NAMESPACE)
    monitor, tick = (load_app(name) for name in ("monitor", "tick"))
    Schedules(client).save(Schedule("Pulse", "plain", args=["a"], every=60))
    push(client, "plain", "a")
    name = "v2:host:1:ab:1"
    raw.sadd(KEYS.inflight, name)
    raw.hset(KEYS.claims(name), "t1", "4 default")
    raw.lpush(KEYS.inflight_list(name, "t1", 4), '{"class":"plain","args":[],"jid":"b"}')
    raw.hset(KEYS.alive, name, f"7 {time.time() - 60} 500")

    looked = monitor.lambda_handler({}, Context())
    placed = tick.lambda_handler({}, Context())["placed"]

    assert (looked["orphans_given_back"], looked["queues"]) == (1, {"default": 1})
    assert placed > 0
    assert refused(raw) == []
    for app in (monitor.monitor(), tick.tick()):
        app.close()


@pytest.mark.parametrize(
    ("user", "words"),
    [
        (WORKER, ["FLUSHALL"]),
        (WORKER, ["CONFIG", "GET", "*"]),
        (WORKER, ["KEYS", "*"]),
        (WORKER, ["GET", "of-somebody-else"]),
        (FUNCTION, ["LRANGE", KEYS.queue("default"), "0", "-1"]),
        (FUNCTION, ["DEL", KEYS.queue("default")]),
        (FUNCTION, ["ZADD", KEYS.dead, "1", "x"]),
        (FUNCTION, ["SMEMBERS", KEYS.processes]),
    ],
)
def test_nothing_else_is_allowed(server, raw, user, words):
    pool_client = Client(address(server, user), namespace=NAMESPACE)

    with pytest.raises(RedisRefused, match="permission"):
        pool_client.pool.call(*words)
    pool_client.close()


@pytest.mark.parametrize("user", [WORKER, FUNCTION])
def test_no_command_is_allowed_that_nothing_of_ours_calls(user):
    sources = [*(ROOT / "worker").rglob("*.py"), *(ROOT / "worker").rglob("*.lua")]
    called = set(re.findall(r"['\"]([A-Z]{3,})['\"]", "".join(map(Path.read_text, sources))))

    allowed = {rule[1:].partition("|")[0].upper() for rule in rules_of(user) if rule[0] == "+"}

    assert allowed - called == set()


def test_the_rules_are_read_from_the_document():
    assert {"on", f"~{NAMESPACE}:*", "-@all", "+evalsha"} <= set(rules_of(WORKER))
    assert json.dumps(rules_of(FUNCTION)).count("+") > 10


def test_the_function_publishes_schedules_and_a_worker_looks_for_their_ticks(server, raw):
    rule = {"expression": "cron(* * * * ? *)", "origin": "template", "missed": "last"}
    rule["jobs"] = [{"class": "Nop", "args": []}]
    manifest = {"version": 1, "hash": "x", "schedules": {"A": rule}}
    keys = Keys(NAMESPACE)
    function = RedisPool(address(server, FUNCTION))
    client = Client(address(server, WORKER), namespace=NAMESPACE)

    assert not stands(function, keys, "shop", manifest)
    for version in (1, 2):
        changed = manifest | {"version": version, "hash": str(version)}
        done = publish_manifest(function, keys, changed, stack="shop", by="test")
        assert done.outcome == "published"
    found = check_missed(client.pool, keys, client, by="test", now=time.time() + 600)

    assert found.new
    assert found.enqueued == 1
    assert refused(raw) == []
    function.close()
    client.close()


def test_limits_of_queues_need_the_right_that_the_document_names_for_them(server, raw):
    text = (ROOT / "docs" / "reference" / "security.md").read_text(encoding="utf-8")
    [right] = re.findall(r"Add `(\S+)` for `KIQBRIDGE_QUEUE_LIMITS`", text)
    item = {"class": "plain", "args": [], "queue": "low"}
    client = Client(address(server, FUNCTION), namespace=NAMESPACE)
    try:
        with pytest.raises(RedisRefused, match="can't run this command"):
            client.push_once([item], ["k"], limits={"low": 1})
        raw.execute_command("ACL", "SETUSER", FUNCTION, right)
        client.push_once([item], ["k"], limits={"low": 1})
        with pytest.raises(QueueTooDeep):
            client.push_once([item], ["other"], limits={"low": 1})
    finally:
        client.close()
        raw.execute_command("ACL", "SETUSER", FUNCTION, "reset", *rules_of(FUNCTION))
