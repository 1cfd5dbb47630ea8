"""`kiqbridge stats`, `ps`, `queue show`, `retries`, `dead`, `scheduled`: what they print of what anybody wrote."""

import json
import os
import re
import shlex
import struct
import subprocess
import sys
import time

import pytest

from kiqbridge.engine.settle.metrics import Metrics
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.amounts import instant_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.measures import histogram_minute_8

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\r\n\x9b31m"


def answer(result):
    code, out, err = result
    assert (code, err) == (0, "")
    return json.loads(out)


def text(jid, name="Mail", **more):
    item = {"class": name, "args": [jid], "jid": jid, "queue": "default", **more}
    return json.dumps(item).encode()


def add_process(redis, identity, **more):
    info = {
        "hostname": identity.split(":")[0],
        "pid": 7,
        "tag": "shop",
        "queues": ["default"],
        "concurrency": 5,
        "labels": [],
        "version": "8.1.7",
        "started_at": time.time() - 7200,
    }
    redis.sadd("processes", identity)
    fields = {"info": json.dumps(info), "busy": 1, "beat": time.time(), "rss": 51_200, **more}
    redis.hset(identity, mapping=fields)


class TestStats:
    def test_counts_and_queues_with_their_latency(self, run, redis):
        redis.sadd("queues", "default", "mail")
        redis.lpush("queue:mail", text("a", enqueued_at=time.time() - 600), text("b"))
        redis.set("stat:processed", 1234)
        redis.sadd("paused", "mail")

        found = answer(run("stats", "--json"))
        _, out, _ = run("stats")

        assert (found["processed"], found["enqueued"], found["dead"]) == (1234, 2, 0)
        [mail, default] = found["queues"]
        assert mail.pop("latency") == pytest.approx(600, abs=30)
        assert mail == {"name": "mail", "size": 2, "paused": True}
        assert default["size"] == 0
        assert "processed 1,234   failed 0" in out
        assert re.search(r"^mail +2 +10 min +paused$", out, re.MULTILINE)

    def test_a_name_of_a_megabyte_is_cut_for_people_and_whole_in_json(self, run, redis):
        name = "q" * 1_000_000
        redis.sadd("queues", name)

        assert len(run("queue", "list")[1]) < 12_000
        assert name in run("queue", "list", "--json")[1]
        for command in ("doctor", "stats"):
            assert len(run(command)[1]) < 12_000

    def test_what_takes_the_memory_is_shown_when_asked_for_or_when_it_is_nearly_full(
        self, run, redis
    ):
        redis.sadd("queues", "mail")
        redis.lpush("queue:mail", *(b"y" * 1000 for _ in range(1000)))
        redis.mset({f"session:{number}": b"x" * 1000 for number in range(3000)})

        calm = run("stats")[1]
        asked = answer(run("stats", "--memory", "--json"))["memory"]
        used = redis.info("memory")["used_memory"]
        redis.config_set("maxmemory", int(used / 0.89))
        try:
            full = run("stats")[1]
        finally:
            redis.config_set("maxmemory", 0)

        assert "session" not in calm
        assert [each["kind"] for each in asked["kinds"][:2]] == ["foreign session:*", "queues"]
        assert asked["kinds"][1]["largest"] == "queue:mail"
        assert re.search(r"^foreign session:\* +3,000 +3\.\d MB +\d+% ", full, re.MULTILINE)
        assert re.search(r"^queues +2 +1\.\d MB +\d+% +queue:mail 1\.\d MB$", full, re.MULTILINE)
        assert re.search(r"^other databases, connections, buffers +- ", full, re.MULTILINE)

    def test_without_the_right_to_ask_that_is_said(self, run, redis, redis_url, monkeypatch):
        rules = ("reset", "on", ">pw", "~*", "&*", "+@all", "-memory")
        redis.execute_command("ACL", "SETUSER", "poor", *rules)
        monkeypatch.setenv("REDIS_URL", redis_url.replace("://", "://poor:pw@"))
        try:
            code, out, err = run("stats", "--memory")
        finally:
            redis.execute_command("ACL", "DELUSER", "poor")

        assert (code, out.startswith("processed 0")) == (0, True)
        assert "what takes the memory is not known" in err and "memory|usage" in err

    def test_an_empty_database(self, run):
        code, out, _ = run("stats")

        assert code == 0
        assert "No job was ever pushed to a queue here." in out


class TestProcesses:
    def test_one_whose_clock_is_behind_is_not_silent(self, run, redis):
        add_process(redis, "web-1:7:abc", beat=time.time() - 300)
        redis.expire("web-1:7:abc", 58)
        add_process(redis, "web-2:7:abc", beat=time.time())
        redis.expire("web-2:7:abc", 20)

        found = answer(run("ps", "--json"))["processes"]

        assert [each["silent"] for each in found] == [False, True]

    def test_processes_and_their_jobs(self, run, redis):
        add_process(redis, "web-1:7:abc")
        add_process(redis, "web-2:7:abc", quiet="true")
        add_process(redis, "web-3:7:abc", beat=time.time() - 45)
        work = {"queue": "default", "run_at": time.time() - 90, "payload": text("j1").decode()}
        redis.hset("web-1:7:abc:work", "tid1", json.dumps(work))

        found = answer(run("ps", "--jobs", "--json"))
        _, out, _ = run("ps", "--jobs")

        assert [each["identity"][:5] for each in found["processes"]] == ["web-1", "web-2", "web-3"]
        assert [each["quiet"] for each in found["processes"]] == [False, True, False]
        assert [each["silent"] for each in found["processes"]] == [False, False, True]
        assert (found["jobs"][0]["jid"], found["jobs"][0]["process"]) == ("j1", "web-1:7:abc")
        assert re.search(
            r"^web-1:7:abc +8\.1\.7 +shop +default +1/5 +50 MB +2 h +running$", out, re.MULTILINE
        )
        assert re.search(r"^web-2:7:abc .* quiet$", out, re.MULTILINE)
        assert re.search(r"^web-3:7:abc .* silent for 4\d s$", out, re.MULTILINE)
        assert re.search(r'^web-1:7:abc +tid1 +j1 +Mail +default +"j1" +\d+ s$', out, re.MULTILINE)

    def test_a_job_that_runs_far_longer_than_others_of_its_class_is_marked(self, run, redis):
        add_process(redis, "web-1:7:abc")
        work = {"queue": "default", "run_at": time.time() - 90, "payload": text("j1").decode()}
        redis.hset("web-1:7:abc:work", "tid1", json.dumps(work))
        minute = histogram_minute_8(time.gmtime(time.time() - 60))
        redis.set(Keys().histogram_8("Mail", minute), struct.pack(">26H", *[100] + [0] * 25))

        _, out, _ = run("ps", "--jobs")

        assert re.search(r"^web-1:7:abc .* Mail .* 9\d s, 4,\d+ x p95$", out, re.MULTILINE)
        assert "x p95: so many times as long as 95 of 100 jobs" in out

    def test_what_a_worker_may_be_stuck_in_is_shown_while_its_heartbeat_is_late_or_gone(
        self, run, redis
    ):
        now = time.time()
        add_process(redis, "host:7:abc", beat=now - 25)
        add_process(redis, "host:8:abc", beat=now - 3)
        redis.sadd("kb:inflight", "v9:x", "v2:\x1b[2J")  # of anybody
        for name in ("v2:host:7:abc:1", "v2:host:8:abc:1", "v2:host:9:abc:1"):
            redis.sadd("kb:inflight", name)
            redis.hset("kb:alive", name, f"3 {now:.3f} 10000")
            redis.hset(f"kb:claims:{name}", "t1", "1 default")
            redis.lpush(f"kb:inflight:{name}:t1:1", text(f"of-{name[8]}"))

        found = answer(run("ps", "--jobs", "--json"))
        _, out, _ = run("ps", "--jobs")

        assert [(each["process"], each["jid"], each["run_at"]) for each in found["jobs"]] == [
            ("host:7:abc", "of-7", None),
            ("host:9:abc", "of-9", None),
        ]
        [*_, lost] = found["processes"]
        assert (lost["identity"], lost["pid"], lost["silent"]) == ("host:9:abc", 9, True)
        assert re.search(r"^host:9:abc .* no heartbeat$", out, re.MULTILINE)
        assert re.search(r"^host:9:abc +t1 +of-9 +Mail .* unknown$", out, re.MULTILINE)
        assert "The job runs if the worker is stuck in it" in out

    def test_nobody(self, run):
        assert run("ps")[:2] == (0, "No process is alive; `kiqbridge worker` starts one.\n")
        assert answer(run("ps", "--json")) == {"processes": []}


class TestSets:
    @pytest.mark.parametrize(
        ("command", "key", "order"),
        [
            ("retries", "retry", ["j0", "j1", "j2"]),
            ("scheduled", "schedule", ["j0", "j1", "j2"]),
            ("dead", "dead", ["j2", "j1", "j0"]),
        ],
    )
    def test_a_set_in_the_order_that_people_expect(self, run, redis, command, key, order):
        for number in range(3):
            redis.zadd(key, {text(f"j{number}"): 1000 + number})

        found = answer(run(command, "--json"))

        assert found["total"] == 3
        assert [each["jid"] for each in found["jobs"]] == order
        assert found["jobs"][0]["at"] == 1000 + int(order[0][1])
        lines = run(command, "list", "--limit", "2")[1].splitlines()
        assert [line.split()[-1 if command == "scheduled" else -2] for line in lines[1:3]] != []
        assert lines[-1] == "2 of 3; --limit shows more"

    def test_only_those_that_match(self, run, redis):
        redis.zadd("dead", {text("a", error_class="OSError", error_message="no route"): 1})
        redis.zadd("dead", {text("b", "Report", tags=["eu"]): 2, text("c", failed_at=1000.0): 3})

        def jids(*options):
            return {each["jid"] for each in answer(run("dead", *options, "--json"))["jobs"]}

        assert jids("--class", "Rep*") == {"b"}
        assert jids("--error", "ROUTE") == jids("--error-class", "OS*") == {"a"}
        assert jids("--tag", "eu") == jids("--arg", "b") == jids("--text", "Report") == {"b"}
        assert jids("--older-than", "2h") == {"c"}
        assert jids("--newer-than", "2h") == set()
        assert run("dead", "--class", "Never")[1] == (
            "There is no dead job that matches class:Never; the set has 3 members.\n"
        )

    def test_more_than_a_page_in_order_and_as_lines(self, run, redis):
        redis.zadd("retry", {text(f"j{number}"): 1000 + number for number in range(230)})

        code, out, _ = run("retries", "--jsonl")
        found = answer(run("retries", "--limit", "230", "--json"))["jobs"]

        assert code == 0
        assert {json.loads(line)["jid"] for line in out.splitlines()} == {
            f"j{number}" for number in range(230)
        }
        assert [each["jid"] for each in found] == [f"j{number}" for number in range(230)]

    @pytest.mark.parametrize(
        "args", [["--limit", "0"], ["--older-than", "soon"], ["lisst"], ["--json", "--jsonl"]]
    )
    def test_bad_usage(self, run, args):
        assert run("dead", *args)[0] == 2


class TestQueue:
    def test_the_next_to_be_taken_comes_first(self, run, redis):
        for number in range(120):
            redis.lpush("queue:mail", text(f"j{number}", enqueued_at=time.time() - 60))

        found = answer(run("queue", "show", "mail", "--limit", "110", "--json"))

        assert (found["size"], found["paused"]) == (120, False)
        assert [each["jid"] for each in found["jobs"]] == [f"j{number}" for number in range(110)]
        out = run("queue", "show", "mail", "--arg", "j119")[1]
        assert out.startswith("mail: 120 jobs waiting, the oldest for 6")
        assert re.search(r'^\d+ s ago +j119 +Mail +"j119"$', out, re.MULTILINE)

    def test_why_it_does_not_move_stands_below_its_name(self, run, redis):
        redis.lpush("queue:default", text("j1"))

        def why():
            return run("queue", "show", "default")[1].splitlines()[1]

        assert why() == "Queue default: no process serves it."
        add_process(redis, "web-1:7:abc")
        assert why() == ""
        work = {"queue": "default", "run_at": time.time() - 90, "payload": text("j2").decode()}
        redis.hset("web-1:7:abc:work", mapping={f"t{n}": json.dumps(work) for n in range(5)})
        assert re.fullmatch(
            r"Queue default: all 5 threads that serve it are busy; the longest running job is Mail j2, for 9\d s\.",
            why(),
        )
        run("queue", "pause", "default", "--reason", "move", "--by", "ann")
        assert why() == "Queue default is paused by ann: move."
        run("class", "pause", "Mail", "--by", "ann")
        assert "The class Mail is paused" in run("queue", "show", "other")[1]

    def test_an_unknown_queue_is_empty(self, run):
        assert run("queue", "show", "mial")[1] == "mial: 0 jobs waiting\n"


class TestHostileContent:
    """What is in Redis may come from anybody, and must not reach the terminal as it is."""

    @pytest.fixture(autouse=True)
    def written(self, redis):
        odd = text(HOSTILE, HOSTILE, args=[HOSTILE], error_class=HOSTILE, error_message=HOSTILE)
        redis.sadd("queues", HOSTILE, b"\xff\xfe")
        for member in (odd, b"\xff\xfe\x1b[2Jno json", b"null", b"", b"[1,2", b'{"class":3}'):
            redis.lpush(f"queue:{HOSTILE}", member)
            for key in ("retry", "dead", "schedule"):
                redis.zadd(key, {member: 5.5})
        add_process(redis, HOSTILE)
        redis.hset(
            f"{HOSTILE}:work",
            HOSTILE,
            json.dumps({"queue": HOSTILE, "run_at": 1, "payload": odd.decode()}),
        )

    @pytest.mark.parametrize("form", [[], ["--json"]])
    @pytest.mark.parametrize(
        "command",
        [
            *(["stats"], ["ps", "--jobs"], ["retries"], ["dead"], ["scheduled"]),
            *(["queue", "show", HOSTILE], ["queue", "list"]),
        ],
    )
    def test_nothing_but_visible_signs_is_printed(self, run, command, form):
        code, out, err = run(*command, *form)

        assert (code, err) == (0, "")
        assert all(sign.isprintable() for line in out.split("\n") for sign in line), repr(out)
        assert "owned" in out

    def test_what_cannot_be_read_is_listed_all_the_same(self, run):
        found = answer(run("dead", "--json"))

        assert found["total"] == 6
        assert [each["readable"] for each in found["jobs"]].count(False) == 4
        assert run("dead")[1].count("(unreadable)") == 4


class TestTheRealCommand:
    def test_a_reader_that_has_seen_enough_ends_it_in_silence(self, redis, redis_url):
        redis.zadd("dead", {text(f"j{number}"): number for number in range(5000)})

        line = f"{shlex.quote(sys.executable)} -m kiqbridge dead --jsonl | head -n 1"
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            env={**os.environ, "REDIS_URL": redis_url},
            capture_output=True,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, b"")
        assert len(done.stdout.splitlines()) == 1

    @pytest.mark.parametrize("command", ["stats", "dead --jsonl", "export - --set dead"])
    def test_a_full_disk_ends_it_with_one_line(self, redis, redis_url, command):
        redis.zadd("dead", {text(f"j{number}"): number for number in range(100)})

        done = subprocess.run(
            ["bash", "-c", f"{shlex.quote(sys.executable)} -m kiqbridge {command} > /dev/full"],
            env={**os.environ, "REDIS_URL": redis_url},
            capture_output=True,
            check=False,
        )

        said = b"kiqbridge: not all was written: [Errno 28] No space left on device\n"
        assert (done.returncode, done.stderr) == (1, said)
        assert redis.zcard("dead") == 100

    def test_ctrl_c_ends_a_command_without_a_traceback(self, run, monkeypatch):
        def interrupted(_options):
            raise KeyboardInterrupt

        monkeypatch.setattr("kiqbridge.commands.metrics_command.run", interrupted)

        code, _, err = run("metrics")

        assert code == 130
        assert err == "\nkiqbridge: interrupted; what was done until now stays done\n"


class TestMetrics:
    def test_up_to_when_they_are_complete_is_said_since_they_come_with_heartbeats(
        self, run, redis, redis_url
    ):
        now = time.time()
        add_process(redis, "slow:7:aa", beat=now - 40)
        add_process(redis, "fast:7:bb", beat=now - 2)

        found = answer(run("metrics", "--json"))
        _, none, _ = run("metrics", "--minutes", "10")
        metrics = Metrics(Keys(), identity="fast:7:bb")
        metrics.record("Mail", 20.0, failed=False)
        metrics.flush(RedisPool(redis_url).connection(), now)
        redis.zadd("retry", {text("j1", error_class="OSError", error_message="no room"): now})
        metrics.record("Mail", 20.0, failed=True)
        metrics.flush(RedisPool(redis_url).connection(), now)
        _, table, _ = run("metrics")
        _, one, _ = run("metrics", "Mail")

        assert found["until"] == pytest.approx(now - 40, abs=0.1)
        up_to = f", up to {instant_text(found['until'])} ("
        assert none.startswith(f"No job ran in the last 10 minutes{up_to}4")
        assert none.endswith(" ago): a process writes what it measured with its next heartbeat.\n")
        assert f"This is all{up_to}" in table and up_to in one
        assert one.splitlines()[-1] == "1 of 1 next retries: OSError: no room"
