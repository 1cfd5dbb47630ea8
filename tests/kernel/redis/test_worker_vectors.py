"""Our worker writes what Sidekiq's writes: the recorded process, its beats, failures and signals.

The recorded text goes into the queue, so its jid and times are given and compared like all else;
masked are the times of failing and moving. What is added on purpose is named where it is left out:
the second name of the work hash (for readers up to 6.4), both forms of concurrency in `info`, the
hint behind the message about an unknown class. Death handlers and metrics are not built.
"""

import json
import logging
import re
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from support.bad_payloads import raw_of
from support.engine import capsule_of, heartbeat_of, poller_on
from support.jobs import own_declarations
from support.launched import launched
from support.vectors import (
    FILES,
    Moment,
    comparable,
    given_in,
    of_kind,
    profile_of,
    put_state,
    recorded_state,
    state_of,
)
from support.waiting import wait_until

from kiqbridge import job
from kiqbridge.client.client import Client
from kiqbridge.client.server import Server
from kiqbridge.engine.heartbeat import Heartbeat, ProcessInfo
from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.engine.settle.error_report import error_class
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.json_text import loads
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import read_timestamp

ArgumentError = type("ArgumentError", (Exception,), {"__module__": "builtins"})
"""Ruby's name for it, told like a builtin: without the module before it."""

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class Jobs:
    """The job classes of the recording.

    `performed` are the arguments of those that ran, `died` what death handlers got.
    """

    def __init__(self):
        self.performed = []
        self.died = []
        self.started = threading.Event()

        @job(name="EchoJob")
        def echo(*args):
            self.performed.append(list(args))

        @job(name="SlowJob")
        def slow(*args):
            self.started.set()
            while True:  # until it is interrupted: not one long wait, which would not notice
                threading.Event().wait(0.01)

        @job(name="FailJob", retry=2, backtrace=3)
        def fail(*args):
            def first():
                second()

            def second():
                raise ArgumentError('boom: café <b>"q"</b>')

            first()

        for name, message, options in (
            ("NoRetryJob", "no retry", {"retry": False}),
            ("ZeroRetryJob", "zero retry", {"retry": 0}),
            ("NotDeadJob", "never dead", {"retry": 0, "dead": False}),
            ("RetryQueueJob", "elsewhere", {"retry": 3, "retry_queue": "later"}),
            ("FailDefaultJob", "default retry", {}),
            ("BadBytesJob", f"bad \udcff\udcfe bytes {'x' * 20_000}", {"retry": 1}),
            ("FailNs", "ns", {"retry": 1}),
            ("RetryInJob", "custom delay", {"retry": 5, "retry_in": lambda c, _e, _p: 3600 + c}),
            ("DiscardJob", "discard me", {"retry_in": lambda *_: "discard"}),
            ("KillJob", "kill me", {"retry_in": lambda *_: "kill"}),
        ):
            self.declare_failing(name, message, options)

    def declare_failing(self, name, message, options):
        @job(name=name, **options)
        def perform():
            raise RuntimeError(message)


@pytest.fixture
def jobs():
    with own_declarations():
        yield Jobs()


@pytest.fixture
def working(jobs, redis_url, caplog):
    """A running worker, as `with working(profile) as launcher`."""
    # The bytes of one message cannot be sent by pytest-xdist, which would report what is logged.
    caplog.set_level(logging.CRITICAL, "kiqbridge.job")

    @contextmanager
    def working(profile="7", queues=("default",), **settings):
        server = Server()
        server.death_handler(lambda payload, error: jobs.died.append((payload, error)))
        with launched(
            redis_url, server, profile=profile, queues=list(queues), **settings
        ) as launcher:
            yield launcher

    return working


def commands_of(operation):
    """The recorded commands as words, whatever the file's form; those within scripts too."""
    for command in operation["commands"]:
        if isinstance(command, dict):
            command = command.get("cmd") or command["lua"]  # noqa: PLW2901 - the same, unwrapped
        if all(isinstance(word, str) for word in command):
            yield [command[0].lower(), *command[1:]]


def kept(operation, place):
    """The one recorded (text, score) in a sorted set, or None."""
    entries = recorded_state(operation["keys"]).get(place, ("zset", []))[1]
    return entries[0] if entries else None


def without_hint(text):
    return re.sub(rb'(uninitialized constant [\w:]+); [^"]*"', rb'\1"', text)


def assert_kept_alike(redis, operation, given, then):
    """`retry` and `dead` hold what the recording holds, with scores of the same meaning."""
    for place in ("retry", "dead"):
        entries = redis.zrange(place, 0, -1, withscores=True)
        theirs = kept(operation, place)
        assert len(entries) == (theirs is not None)
        if theirs is None:
            continue
        assert [theirs[0].decode()] == [
            words[3] for words in commands_of(operation) if words[:2] == ["zadd", place]
        ]
        if not theirs[0].startswith(b'{"'):
            # Here it becomes a job that every reader of the set can show; Ruby keeps what it cannot read.
            assert [raw_of(text) for text, _ in entries] == [theirs[0]]
            continue
        now = Moment(at=time.time(), given=given)
        assert comparable(without_hint(entries[0][0]), now) == comparable(theirs[0], then)
        for text, score in (entries[0], theirs):
            assert_score(place, text, score)


def assert_score(place, text, score):
    if not text.startswith(b'{"'):
        return
    payload = loads(text)
    count = payload["retry_count"]
    failed = read_timestamp(
        payload["retried_at"] if "retried_at" in payload else payload["failed_at"]
    )
    if payload["class"] == "RetryInJob":  # its own delay, which replaces the first part
        score -= 3600 - 15
    least, most = (count**4 + 15, count**4 + 15 + 9 * (count + 1)) if place == "retry" else (0, 0)
    assert least - 0.01 <= score - failed <= most + 0.5


@pytest.mark.parametrize(("file", "name"), of_kind("failure"))
def test_a_failure_leaves_the_recorded_bytes(file, name, working, jobs, redis):
    operation = FILES[file][name]
    pushed = operation["pushed"].encode()
    given = given_in(pushed)
    redis.lpush("queue:default", pushed)

    with working(profile_of(file)):
        if name == "invalid_json":
            wait_until(lambda: redis.exists("dead"))
        else:
            wait_until(lambda: redis.get("stat:failed") == b"1")

    assert_kept_alike(redis, operation, given, Moment(at=operation["wall_clock"], given=given))
    assert not redis.exists("queue:default")
    counted = None if name == "invalid_json" else b"1"
    assert (redis.get("stat:processed"), redis.get("stat:failed")) == (counted, counted)
    if (file, name) != ("worker-7.3.10", "fail_discard"):  # 8.0.7 began to tell them
        assert_died_alike(jobs.died, operation["death_handler_got"])


def assert_died_alike(ours, theirs):
    """Death handlers got the same payloads, attribute by attribute, but for when and for our hints."""
    varies = {"failed_at", "retried_at", "discarded_at", "error_backtrace", "error_message"}
    # 8.0.8 began to say when a job was discarded.
    names = [[name for name in payload if name != "discarded_at"] for payload, _ in ours]
    assert names == [[name for name in each["job"] if name != "discarded_at"] for each in theirs]
    for (payload, error), each in zip(ours, theirs, strict=True):
        assert error_class(error) == each["error"]
        assert {k: v for k, v in payload.items() if k not in varies} == {
            k: v for k, v in each["job"].items() if k not in varies
        }


def is_kept(redis, count):
    """Counted is a failure before it is kept."""
    counted = redis.get("stat:failed") == str(count).encode()
    return counted and redis.zcard("retry") + redis.zcard("dead") == 1


@pytest.mark.parametrize("file", sorted({file for file, _ in of_kind("life")}))
def test_a_job_fails_until_it_is_dead(file, working, redis):
    steps = [FILES[file][name] for each, name in of_kind("life") if each == file]
    first = kept(steps[0], "retry")[0]
    pushed = first[: first.index(b',"error_message"')] + b"}"
    assert len(steps) == 3
    redis.lpush("queue:default", pushed)

    with working(profile_of(file)):
        for count, operation in enumerate(steps, start=1):
            wait_until(lambda count=count: is_kept(redis, count))

            # From the second on it was moved by the poller, which writes a new time.
            given = given_in(pushed, without=b"enqueued_at" if count > 1 else b"")
            assert_kept_alike(
                redis, operation, given, Moment(at=operation["wall_clock"], given=given)
            )
            for member in redis.zrange("retry", 0, -1):
                redis.zadd("retry", {member: 1})  # its time has come

    assert redis.zcard("dead") == 1


@pytest.mark.parametrize(("file", "name"), of_kind("run"))
def test_a_job_that_succeeds_leaves_nothing(file, name, working, jobs, redis):
    client = Client(redis=redis, profile=profile_of(file))
    client.push({"class": "EchoJob", "args": [1, "two"]})
    client.close()

    with working(profile_of(file)):
        wait_until(lambda: redis.get("stat:processed") == b"1")

    assert jobs.performed == [[1, "two"]]
    assert FILES[file][name]["keys"] == []
    assert not redis.exists("queue:default", "retry", "dead", "schedule")
    assert redis.get("stat:failed") == b"0"


@pytest.mark.parametrize(("file", "name"), of_kind("interruption"))
def test_an_interrupted_job_goes_back_byte_for_byte(file, name, working, jobs, redis):
    operation = FILES[file][name]
    redis.sadd("queues", "default")
    redis.lpush("queue:default", operation["pushed"])

    theirs = recorded_state(operation["keys"])
    with working(profile_of(file), timeout_s="0.1", beat_s="60") as launcher:
        assert jobs.started.wait(10)
        wait_until(lambda: "process_cleanup" not in theirs or redis.exists("process_cleanup"))

    ours = state_of(redis)
    (identity,) = [key for key in theirs if key.startswith("vm:")]
    assert shown(ours, launcher.identity) == shown(theirs, identity)
    assert ours["queue:default"] == ("list", [operation["pushed"].encode()])
    assert operation["exit_code"] == 0


def shown(state, identity):
    """Keys with days named alike, without metrics and the process' own hash (see the beats)."""
    return {
        DAY.sub("DAY", key): value
        for key, value in state.items()
        if key != identity and not key.startswith("j|")
    }


def due_member(operation):
    return next(
        words[2] for words in commands_of(operation) if words[:2] == ["zrem", "schedule"]
    ).encode()


@pytest.fixture
def poller(pool):
    return lambda profile="7": poller_on(pool, profile=profile)


@pytest.mark.parametrize(("file", "name"), of_kind("move"))
def test_a_due_job_is_moved_with_the_recorded_bytes(file, name, poller, redis):
    operation = FILES[file][name]
    member, now = due_member(operation), time.time()
    given = given_in(member)
    redis.zadd("schedule", {member: now - 1})

    assert poller(profile_of(file)).move_due("schedule", now) == 1

    (theirs,) = [words[2].encode() for words in commands_of(operation) if words[0] == "lpush"]
    (queue,) = [words[1] for words in commands_of(operation) if words[0] == "lpush"]
    (ours,) = redis.lrange(queue, 0, -1)
    then = Moment(at=operation["wall_clock"], given=given)
    assert comparable(ours, Moment(at=now, given=given)) == comparable(theirs, then)
    assert [b"sadd", b"queues", *redis.smembers("queues")] == [
        word.encode() for words in commands_of(operation) if words[0] == "sadd" for word in words
    ]
    assert not redis.exists("schedule")


@pytest.mark.parametrize(("file", "name"), of_kind("sets"))
def test_due_members_of_any_writer_are_moved_and_the_dead_stay(file, name, poller, redis):
    now, state = 1_795_174_900.5, FILES[file][name]["state"]
    put_state(redis, state)
    recorded = recorded_state(state)

    for source in ("retry", "schedule"):
        poller().move_due(source, now)

    members = [text for source in ("retry", "schedule") for text, _ in recorded[source][1]]
    expected = [re.sub(rb'"enqueued_at":[\d.]+', b'"enqueued_at":1795174900.5', m) for m in members]
    expected[-1] = expected[-1][:-1] + b',"enqueued_at":1795174900.5}'
    assert redis.lrange("queue:default", 0, -1)[::-1] == expected
    assert redis.zrange("dead", 0, -1, withscores=True) == recorded["dead"][1]
    assert not redis.exists("retry", "schedule")


@pytest.mark.parametrize(("file", "name"), of_kind("paused"))
def test_a_paused_queue_is_left_alone(file, name, working, jobs, redis):
    put_state(redis, FILES[file][name]["state"])
    redis.lpush("queue:other", '{"class":"EchoJob","args":["paused"],"jid":"a"}')

    with working(queues=("other", "default")):
        wait_until(lambda: redis.get("stat:processed") == b"1")

    assert jobs.performed == [[1]]
    assert redis.llen("queue:other") == 1


@pytest.mark.parametrize("case", of_kind("revived"), ids="-".join)
def test_what_an_operator_leaves_runs_here(case, working, jobs, poller, redis):
    file, name = case
    put_state(redis, FILES[file][name]["keys"])
    if name == "api_schedule_reschedule":
        assert poller().move_due("schedule", 1_900_000_004.9) == 0
        assert poller().move_due("schedule", 1_900_000_005.0) == 1
    queued = redis.lrange("queue:default", 0, -1)
    assert queued

    with working():
        wait_until(lambda: redis.get("stat:processed") == str(len(queued)).encode())

    assert jobs.performed == [loads(text)["args"] for text in queued]
    assert redis.get("stat:failed") == b"0"


class Process:
    """Our heartbeat in the name of a recorded process, with its commands noted."""

    def __init__(self, proxy, info, *, processors=()):
        self.quiet = threading.Event()
        self.signals = []
        connection = RedisPool(proxy.url).connection()
        capsule = info["weights"][0] if info.get("weights") else {"default": 0}
        self.heartbeat = Heartbeat(
            info=ProcessInfo(
                identity=info["identity"],
                hostname=info["hostname"],
                pid=info["pid"],
                tag=info["tag"],
                labels=info["labels"],
                concurrency=info.get("concurrency", 2),
                capsules=[capsule_of(capsule, concurrency=info.get("concurrency", 2))],
                version=info["version"],
                started_at=info["started_at"],
                beat_s=60,
            ),
            keys=Keys(),
            connection=connection,
            **heartbeat_of(processors, is_quiet=self.quiet.is_set),
            on_signal=self._on_signal,
        )

    def _on_signal(self, name):
        self.signals.append(name)
        if name == "TSTP":
            self.quiet.set()


def beat_commands(operation):
    """The commands of the recorded beat, without metrics and the question whether it is the first."""
    for words in commands_of(operation):
        is_bare = words[0] in {"multi", "exec", "ping"}
        is_ours = words[0] in {"incrby", "expire", "unlink", "hset", "sadd", "exists", "rpop"} and (
            words[1].startswith(("stat:", "vm:")) or words[1] == "processes"
        )
        if is_bare or is_ours:
            yield words


def our_commands(proxy, version):
    """Ours in the same form, as a process of that version would send them."""
    for command in proxy.commands:
        words = [word.decode() for word in command]
        words[0] = words[0].lower()
        if words[0] == "unlink" and words[1].startswith("kb:"):
            continue  # our own guards
        if words[0] == "evalsha" and words[3].startswith("kb:stats:"):
            yield from within_flush_stats(words)
            continue
        if words[0] == "eval":
            continue  # the same once more, for a server that did not know the script
        if words[0] in {"hset", "expire"} and words[1].endswith(":workers"):
            continue
        words = [word for word in words if not word.endswith(":workers")]
        if words == ["unlink"]:
            continue
        if words[:1] == ["hset"] and "info" in words:
            words = as_version(words, version)
        yield words


def within_flush_stats(words):
    """What the script does: our counters are guarded, so that a lost reply does not count twice."""
    keys = words[4 : 3 + int(words[2])]
    args = words[3 + int(words[2]) + 2 :]
    for key, added, ttl in zip(keys, args[::2], args[1::2], strict=True):
        yield ["incrby", key, added]
        if ttl:
            yield ["expire", key, ttl]


def as_version(words, version):
    """Our process hash serves both versions: each finds its own form of concurrency in it."""
    fields = dict(zip(words[2::2], words[3::2], strict=True))
    info = json.loads(fields["info"])
    del info["capsules" if version == "7.3.10" else "concurrency"]
    fields["info"] = json.dumps(info, separators=(",", ":"))
    if version == "7.3.10":
        del fields["concurrency"]
    return [*words[:2], *(part for pair in fields.items() for part in pair)]


def compared_beat(commands):
    """The commands with what varies masked: days, and the values of beat, rtt_us and rss."""
    compared = []
    for given in commands:
        words = [DAY.sub("DAY", word) if word.startswith("stat:") else word for word in given]
        for name, form in (("beat", r"\d{10}\.\d+"), ("rtt_us", r"\d+"), ("rss", r"\d+")):
            if name in words[2::2]:
                place = words.index(name, 2) + 1
                assert re.fullmatch(form, words[place])
                words[place] = form
        compared.append(words)
    return compared


def process_hash(operation):
    (found,) = [words for words in beat_commands(operation) if "info" in words]
    return json.loads(found[found.index("info") + 1])


@pytest.mark.parametrize(("file", "name"), of_kind("beat"))
def test_a_beat_sends_the_recorded_commands(file, name, proxy):
    operation = FILES[file][name]
    theirs = list(beat_commands(operation))
    counted = {w[1]: int(w[2]) for w in theirs if w[0] == "incrby"}
    processors = [
        SimpleNamespace(
            tid=tid,
            current=RunningJob(work["queue"], work["payload"].encode(), work["run_at"] + 0.75),
            processed=0,
            failed=0,
        )
        for words in theirs
        if words[0] == "hset" and words[1].endswith(":work")
        for tid, work in zip(words[2::2], map(json.loads, words[3::2]), strict=True)
    ]
    processors += [
        SimpleNamespace(
            tid="idle",
            current=None,
            processed=counted.get("stat:processed", 0),
            failed=counted.get("stat:failed", 0),
        )
    ]
    process = Process(proxy, process_hash(operation), processors=processors)

    process.heartbeat.beat()

    ours = list(our_commands(proxy, file.removeprefix("worker-")))
    assert compared_beat(ours) == compared_beat(theirs)


@pytest.mark.parametrize(("file", "name"), of_kind("quiet"))
def test_quieted_from_outside_the_hash_says_so(file, name, proxy, redis):
    operation = FILES[file][name]
    (recorded,) = [
        value
        for key, (kind, value) in recorded_state(operation["keys"]).items()
        if key.startswith("vm:") and kind == "hash"
    ]
    process = Process(proxy, json.loads(recorded[b"info"]))
    signal = next(words for words in commands_of(operation) if words[0] == "lpush")

    process.heartbeat.beat()
    redis.execute_command(*signal)
    process.heartbeat.beat()
    process.heartbeat.beat()

    assert process.signals == ["TSTP"]
    ours = redis.hgetall(json.loads(recorded[b"info"])["identity"])
    assert recorded.keys() <= ours.keys() <= recorded.keys() | {b"concurrency"}
    assert (ours[b"quiet"], ours[b"busy"]) == (recorded[b"quiet"], recorded[b"busy"])
    assert recorded[b"quiet"] == b"true"


@pytest.mark.parametrize(("file", "name"), of_kind("sign_off"))
def test_a_process_that_ends_signs_off_as_recorded(file, name, proxy, redis):
    operation = FILES[file][name]
    info = process_hash(FILES[file]["boot_and_first_beat"])
    process = Process(proxy, info)
    process.heartbeat.beat()
    proxy.commands.clear()

    process.heartbeat.stop()

    assert list(our_commands(proxy, "")) == list(commands_of(operation))
    assert redis.exists(info["identity"])  # left to expire, as theirs
    assert info["identity"] in recorded_state(operation["keys"])


@pytest.mark.parametrize(("file", "name"), of_kind("signal"))
def test_a_signal_sent_by_the_api_arrives(file, name, proxy, redis):
    operation = FILES[file][name]
    put_state(redis, operation["before"])
    (signal,) = [words for words in commands_of(operation) if words[0] == "lpush"]
    info = json.loads(redis.hget("host-1:123:0123456789ab", "info"))
    process = Process(proxy, info)

    redis.execute_command(*signal)
    process.heartbeat.beat()

    expected = {"api_quiet": "TSTP", "api_stop": "TERM", "api_dump_threads": "TTIN"}
    assert process.signals == [expected[name]]
    assert not redis.exists(signal[1])


@pytest.mark.parametrize(("file", "name"), of_kind("namespaced_worker"))
def test_a_namespaced_worker_writes_the_recorded_keys(file, name, working, redis):
    operation = FILES[file][name]
    recorded = recorded_state(operation["keys"])
    theirs = recorded["my_ns:retry"][1][0][0]
    pushed = theirs[: theirs.index(b',"error_message"')] + b"}"
    given = given_in(pushed)
    redis.sadd("my_ns:queues", "default")
    redis.lpush("my_ns:queue:default", pushed)

    with working(namespace=operation["namespace"]) as launcher:
        wait_until(lambda: redis.get("my_ns:stat:failed") == b"1" and redis.exists("my_ns:retry"))
        names = {
            DAY.sub("DAY", key.decode().replace(launcher.identity, "IDENTITY"))
            for key in redis.scan_iter()
        }

    expected = {DAY.sub("DAY", re.sub(r"vm:\d+:[0-9a-f]{12}", "IDENTITY", key)) for key in recorded}
    assert expected <= names
    assert all(name.startswith("my_ns:") for name in names)
    (ours,) = redis.zrange("my_ns:retry", 0, -1)
    failed_at = json.loads(theirs)["failed_at"]
    assert comparable(ours, Moment(at=time.time(), given=given)) == comparable(
        theirs, Moment(at=failed_at, given=given)
    )
