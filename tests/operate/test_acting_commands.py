"""What the command line does to jobs, queues and processes: the bytes left behind, the question, the audit log."""

import base64
import io
import json
import re
import sys
import time
import zlib

import pytest

from kiqbridge import Client
from kiqbridge.api import actions

HOSTILE = "\x1b]0;owned\x07\u202e\n"


@pytest.fixture
def answering(monkeypatch):
    """Puts somebody at the terminal who gives this answer."""

    def answering(text):
        terminal = io.StringIO(text)
        terminal.isatty = lambda: True
        monkeypatch.setattr(sys, "stdin", terminal)

    return answering


def text(jid, name="Mail", **more):
    item = {"class": name, "args": [jid], "jid": jid, "queue": "default", "retry": True, **more}
    return json.dumps(item).encode()


def fill(redis, key, count=5, name="Mail"):
    redis.zadd(key, {text(f"{key}{number}", name): 1000 + number for number in range(count)})


def jids(texts):
    return [json.loads(each)["jid"] for each in texts]


def audited(run, *options):
    code, out, err = run("audit", "--json", *options)
    assert (code, err) == (0, "")
    return json.loads(out)["entries"]


class TestSets:
    @pytest.mark.parametrize(
        ("command", "key"), [("retries", "retry"), ("dead", "dead"), ("scheduled", "schedule")]
    )
    def test_those_that_match_are_pushed(self, run, redis, command, key):
        fill(redis, key)
        fill(redis, key, 2, "Report")

        code, out, err = run(command, "retry", "--class", "Mail", "--limit", "3")

        assert (code, out, err) == (0, "pushed 3 jobs\n", "")
        assert jids(redis.lrange("queue:default", 0, -1)) == [f"{key}2", f"{key}1", f"{key}0"]
        assert redis.zcard(key) == 4

    def test_named_ones_are_killed(self, run, redis):
        fill(redis, "retry")

        code, out, _ = run("retries", "kill", "retry1", "retry3", "--yes", "--json")

        assert code == 0
        assert json.loads(out) == {
            "dry_run": False,
            "action": "kill",
            "target": "retry",
            "filter": "",
            "count": 2,
            "left": 0,
            "refused": 0,
            "reason": "",
        }
        assert sorted(jids(redis.zrange("dead", 0, -1))) == ["retry1", "retry3"]
        assert redis.zcard("retry") == 3

    @pytest.mark.parametrize(
        ("command", "key"), [("retries", "retry"), ("dead", "dead"), ("scheduled", "schedule")]
    )
    def test_what_cannot_be_pushed_is_counted_apart_from_what_has_left_meanwhile(
        self, run, redis, monkeypatch, command, key
    ):
        fill(redis, key, 3)
        redis.zadd(key, {b"no json": 5, b"[1]": 6})
        # Somebody else takes two once they are counted.
        operate = actions.operating.operate

        def late(*args, **more):
            redis.zrem(key, text(f"{key}0"), text(f"{key}1"))
            return operate(*args, **more)

        monkeypatch.setattr(actions.operating, "operate", late)

        code, out, err = run(command, "retry", "--all")

        assert (code, err) == (0, "")
        assert out.startswith(
            "pushed 1 job; 2 had left meanwhile; 2 cannot be pushed and stay, the first one: job (without jid): it "
            "cannot be pushed, since its text cannot be read"
        )
        assert redis.zrange(key, 0, -1) == [b"no json", b"[1]"]

    def test_a_time_is_given_as_a_moment_or_from_now(self, run, redis):
        fill(redis, "schedule", 2)

        run("scheduled", "reschedule", "schedule0", "--at", "2040-01-01T00:00:00+01:00")
        code, out, _ = run("scheduled", "reschedule", "schedule1", "--in", "2h")

        assert code == 0
        assert re.fullmatch(r"rescheduled 1 job to \d{4}-\S+Z\n", out)
        scores = {
            json.loads(member)["jid"]: score for member, score in redis.zscan_iter("schedule")
        }
        assert scores["schedule0"] == 2_208_985_200
        assert scores["schedule1"] == pytest.approx(time.time() + 7200, abs=60)

    def test_jobs_of_a_window_are_moved_by_a_time_and_keep_their_distances(self, run, redis):
        new_year = 1_893_456_000
        due = {f"j{hour}": new_year + hour * 3600.5 for hour in range(1, 700)}
        redis.zadd("schedule", {text(jid): at for jid, at in due.items()})
        window = "--due-after", "2030-01-01T02:00:00Z", "--due-before", "2030-01-02T00:00:00Z"

        assert run("scheduled", "reschedule", *window, "--by", "2h")[:2] == (
            0,
            "rescheduled 22 jobs by 2 h\n",
        )
        run("scheduled", "reschedule", "--all", "--by=-30m")

        scores = redis.zrange("schedule", 0, -1, withscores=True)
        assert {json.loads(each)["jid"]: at for each, at in scores} == {
            jid: at + (7200 if jid in list(due)[1:23] else 0) - 1800 for jid, at in due.items()
        }

    def test_one_instant_for_many_is_asked_and_may_be_spread(self, run, redis, answering):
        fill(redis, "retry", 300)
        at = "--at", "2040-01-01T00:00:00Z"

        answering("n\n")
        code, _, err = run("retries", "reschedule", "--all", *at)
        assert code == 1
        assert err.startswith(
            "All of them are due at one instant then; --spread 30m distributes them, --by 2h keeps their distances. "
            "Reschedule 300 retries to 2040-01-01T00:00:00Z? [y/N]"
        )
        code, out, _ = run("retries", "reschedule", "--all", *at, "--spread", "30m")

        assert (code, out) == (
            0,
            "rescheduled 300 jobs to 2040-01-01T00:00:00Z and up to 30 min later\n",
        )
        scores = [score for _, score in redis.zrange("retry", 0, -1, withscores=True)]
        assert min(scores) >= 2_208_988_800 and max(scores) <= 2_208_988_800 + 1800
        assert len(set(scores)) > 250
        code, _, err = run("retries", "reschedule", "--all", "--by", "2h", "--spread", "1h")
        assert (code, "keep their distances" in err) == (2, True)

    def test_before_jobs_are_destroyed_the_number_is_asked(self, run, redis, answering):
        fill(redis, "dead", 1204)

        answering("n\n")
        code, out, err = run("dead", "delete", "--class", "Mail")
        assert (code, out) == (1, "")
        assert err == ("Delete 1,204 dead jobs that match class:Mail? [y/N] Nothing was changed.\n")
        answering("")
        assert run("dead", "clear")[0] == 1
        assert redis.zcard("dead") == 1204

        answering("y\n")
        assert run("dead", "delete", "--class", "Mail")[:2] == (0, "deleted 1,204 jobs\n")
        assert redis.zcard("dead") == 0

    @pytest.mark.parametrize(
        "args",
        [["delete", "--all"], ["delete", "dead1"], ["clear"], ["delete", "--class", "Mail"]],
    )
    def test_without_a_terminal_nothing_is_destroyed_unasked(self, run, redis, args):
        fill(redis, "dead")

        code, _, err = run("dead", *args)

        assert code == 2
        assert "Repeat it with --yes, or look first with --dry-run" in err
        assert redis.zcard("dead") == 5

    @pytest.mark.parametrize(
        ("args", "sentence"),
        [
            (["dead", "delete", "--all"], "would delete 5 dead jobs"),
            (["dead", "clear"], "would delete 5 dead jobs"),
            (
                ["dead", "retry", "--class", "Mail", "--limit", "2"],
                "would push 2 dead jobs that match class:Mail",
            ),
            (["retries", "kill", "retry1"], "would kill 1 retry"),
            (["retries", "delete", "--all"], "would delete 5 retries"),
            (["retries", "retry", "--arg", "retry4"], "would push 1 retry that matches arg:retry4"),
            (
                ["scheduled", "reschedule", "--all", "--at", "2040-01-01"],
                "would reschedule 5 scheduled jobs to 2040-01-01T00:00:00Z",
            ),
        ],
    )
    def test_a_dry_run_says_what_would_happen_and_changes_nothing(self, run, redis, args, sentence):
        for key in ("dead", "retry", "schedule"):
            fill(redis, key)
        before = {key: redis.dump(key) for key in redis.scan_iter()}

        assert run(*args, "--dry-run") == (0, f"{sentence}\n", "")

        assert {key: redis.dump(key) for key in redis.scan_iter()} == before

    @pytest.mark.parametrize(
        ("args", "reason"),
        [
            (["delete"], "say which jobs"),
            (["delete", "--all", "--class", "Mail"], "say which jobs"),
            (["delete", "dead1", "--all"], "say which jobs"),
            (
                ["delete", "dead1", "never", HOSTILE],
                r"\x1b]0;owned\x07\u202e\n, never: not in dead",
            ),
        ],
    )
    def test_it_must_be_clear_what_is_meant(self, run, redis, args, reason):
        fill(redis, "dead")

        code, _, err = run("dead", *args, "--yes")

        assert code == 2
        assert reason in err
        assert redis.zcard("dead") == 5

    def test_nothing_that_matches_is_no_question(self, run):
        assert run("dead", "delete", "--class", "Never")[:2] == (0, "deleted 0 jobs\n")


class TestQueue:
    @pytest.fixture(autouse=True)
    def waiting(self, redis):
        redis.sadd("queues", "default")
        for number in range(5):
            redis.lpush("queue:default", text(f"j{number}", "Mail" if number % 2 else "Report"))

    @pytest.mark.parametrize(
        ("line", "said", "left"),
        [
            ("move --class Report --to low", "moved 3 jobs to low from", "j3 j1"),
            ("delete j1 --yes", "deleted 1 job of", "j4 j3 j2 j0"),
            ("kill --arg j4 --yes", "killed 1 job of", "j3 j2 j1 j0"),
            ("clear --dry-run", "would delete 5 waiting jobs of", "j4 j3 j2 j1 j0"),
            ("clear --yes", "deleted 5 jobs of", ""),
        ],
    )
    def test_each_verb(self, run, redis, line, said, left):
        verb, *options = line.split()

        assert run("queue", verb, "default", *options)[:2] == (0, f"{said} queue default\n")

        assert jids(redis.lrange("queue:default", 0, -1)) == left.split()

    @pytest.mark.parametrize(
        ("words", "reason"),
        [
            (["clear", "default"], "Repeat it with --yes"),
            (["delete", "default", "never", "--yes"], "never: not in queue default"),
        ],
    )
    def test_what_is_refused(self, run, redis, words, reason):
        code, _, err = run("queue", *words)

        assert code == 2
        assert reason in err
        assert redis.llen("queue:default") == 5


class TestJob:
    def test_where_it_is_its_times_arguments_and_error(self, run, redis):
        lines = json.dumps(["app.py:3:in 'call'", f"lib.rb:4 {HOSTILE}"]).encode()
        redis.zadd(
            "retry",
            {
                text(
                    "a1",
                    tags=["eu"],
                    created_at=time.time() - 7200,
                    failed_at=time.time() - 60,
                    retry_count=2,
                    error_class="OSError",
                    error_message=f"no route {HOSTILE}",
                    error_backtrace=base64.b64encode(zlib.compress(lines)).decode(),
                ): time.time() + 600
            },
        )

        code, out, err = run("job", "show", "a1")

        assert (code, err) == (0, "")
        for line in (
            "class       Mail",
            "where       retry",
            "queue       default",
            "tags        eu",
            'arguments   "a1"',
            "retries     2 (0 is the first failure)",
            r"error       OSError: no route \x1b]0;owned\x07\u202e\n",
            "            app.py:3:in 'call'",
            r"            lib.rb:4 \x1b]0;owned\x07\u202e\n",
        ):
            assert f"\n{line}\n" in f"\n{out}"
        for moment in (
            r"2 h ago +Created",
            r"\S+ \S+ ago +Failed: OSError: .*",
            r"in 10 min +Next try",
        ):
            assert re.search(rf"^\S+Z  {moment}$", out, re.MULTILINE)
        assert re.search(r"^waits       its next try is due; \S+Z, in 10 min$", out, re.MULTILINE)

    def test_where_the_thread_of_a_running_job_is_or_how_to_ask(self, run, redis):
        redis.sadd("processes", "web1:1:abc")
        redis.hset("web1:1:abc", "info", '{"hostname": "web1", "pid": 1}')
        work = {"queue": "default", "run_at": time.time(), "payload": text("a1").decode()}
        redis.hset("web1:1:abc:work", "t1", json.dumps(work))
        assert "\nstack       not known: kill -TTIN its process" in run("job", "a1")[1]

        stack = f"File x.py\n  in hangs {HOSTILE}"
        record = {"run_at": work["run_at"], "at": time.time() - 60, "stack": stack}
        redis.hset("kb:stacks:web1:1:abc", "t1", json.dumps(record))

        said = "\nstack       60 s ago\n            File x.py\n              in hangs \\x1b"
        assert said in run("job", "a1")[1]
        assert json.loads(run("job", "a1", "--json")[1])["stack"]["text"] == stack

    @pytest.mark.parametrize("verb", [["show"], []])
    def test_as_json_and_raw(self, run, redis, verb):
        redis.lpush("queue:default", text("a1"))
        redis.sadd("queues", "default")

        [found] = json.loads(run("job", *verb, "--json", "a1")[1])["found"]
        raw = run("job", *verb, "a1", "--raw")[1]

        assert (found["place"], found["name"], found["class"]) == ("queue", "default", "Mail")
        assert found["raw"].encode() == text("a1") == raw.strip().encode()

    def test_one_that_is_nowhere(self, run):
        code, out, err = run("job", "show", HOSTILE)

        assert (code, out) == (1, "")
        assert err.startswith(
            r"kiqbridge: \x1b]0;owned\x07\u202e\n: no such job in any queue or set"
        )
        assert run("job", "delete", "never", "--yes")[0] == 1
        shown = json.loads(run("job", "show", "never", "--json")[1])
        assert (shown["status"], shown["found"], shown["end"]) == ("unknown", [], None)

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("retry retry0", "pushed 1 job (Mail retry0, in retry retry)"),
            ("kill retry0 --yes", "killed 1 job (Mail retry0, in retry retry)"),
            ("delete retry0 --yes", "deleted 1 job (Mail retry0, in retry retry)"),
            ("move retry0 --to low", "moved 1 job to queue low (Mail retry0, in retry retry)"),
            (
                "reschedule retry0 --at 2040-01-01",
                "rescheduled 1 job to 2040-01-01T00:00:00Z (Mail retry0, in retry retry)",
            ),
            ("move j0 --to low", "moved 1 job to queue low (Mail j0, in queue default)"),
            ("kill j0 --yes", "killed 1 job (Mail j0, in queue default)"),
        ],
    )
    def test_acting_on_one(self, run, redis, line, said):
        fill(redis, "retry", 1)
        redis.sadd("queues", "default")
        redis.lpush("queue:default", text("j0"))

        assert run("job", *line.split()) == (0, f"{said}\n", "")

        [found] = json.loads(run("job", "show", line.split()[1], "--json")[1])["found"] or [None]
        verb = line.partition(" ")[0]
        places = {"kill": "dead", "retry": "default", "move": "low", "reschedule": "retry"}
        assert (found and found["name"]) == places.get(verb)

    def test_what_is_no_use_is_refused(self, run, redis):
        redis.sadd("queues", "default")
        redis.lpush("queue:default", text("j0"))

        code, _, err = run("job", "retry", "j0")
        assert code == 2
        assert "j0: it waits in queue default already, and needs no retry" in err
        assert run("job", "delete", "j0")[0] == 2
        assert jids(redis.lrange("queue:default", 0, -1)) == ["j0"]

    def test_a_running_one_is_shown_and_left_alone(self, run, redis):
        redis.sadd("processes", "web:1:a")
        redis.hset("web:1:a", mapping={"info": "{}", "busy": 1, "beat": time.time()})
        work = {"queue": "default", "run_at": time.time(), "payload": text("busy").decode()}
        redis.hset("web:1:a:work", "t1", json.dumps(work))

        assert "where       working web:1:a t1\n" in run("job", "show", "busy")[1]
        code, _, err = run("job", "delete", "busy", "--yes")
        assert code == 2
        assert "busy: it runs at this moment (web:1:a t1)" in err

    def test_one_that_waits_to_run_alone_is_shown_and_left_alone(self, run, redis):
        redis.sadd("queues", "default")
        redis.lpush("kb:suspects:default", text("suspect"))

        assert "where       suspects default\n" in run("job", "show", "suspect")[1]
        code, _, err = run("job", "delete", "suspect", "--yes")
        assert code == 2
        assert (
            "it ran when a worker died, or hung when one stopped, and waits in queue default to run alone"
            in err
        )

    def test_following_one_shows_each_change_until_its_end(self, run, redis, monkeypatch):
        redis.sadd("queues", "default")
        failed = {"retry_count": 0, "error_class": "OSError", "error_message": HOSTILE}
        steps = [
            lambda: None,
            lambda: redis.delete("queue:default"),  # missed while it moves
            lambda: redis.zadd("retry", {text("j0", **failed): 2e9}),
            lambda: None,
            lambda: (redis.delete("retry"), redis.zadd("dead", {text("j0", **failed): 1e9})),
        ]
        monkeypatch.setattr("kiqbridge.commands.job_command.time.sleep", lambda _s: steps.pop(0)())
        redis.lpush("queue:default", text("j0"))

        code, out, err = run("job", "j0", "--follow")

        assert (code, err, steps) == (0, "", [])
        error = r"retry_count 0  OSError: \x1b]0;owned\x07\u202e"
        assert [line.partition("  ")[2] for line in out.splitlines()] == [
            "queued     queue default",
            f"retrying   queue default  next try 2033-05-18T03:33:20Z  {error}",
            f"dead       queue default  died 2001-09-09T01:46:40Z  {error}",
        ]

    @pytest.mark.parametrize(
        ("result", "said"),
        [
            ('{"outcome":"done","at":1,"value":3}', "done"),
            (
                '{"outcome":"discarded","at":1,"error":"OSError","message":"no route"}',
                "discarded  OSError: no route",
            ),
            (None, "unknown    it was performed, or deleted; no record of it is kept"),
        ],
    )
    def test_following_ends_with_how_it_has_ended(self, run, redis, monkeypatch, result, said):
        redis.sadd("queues", "default")
        redis.lpush("queue:default", text("j0"))

        def performed(_seconds):
            redis.delete("queue:default")
            if result:
                redis.set("kb:result:j0", result)

        monkeypatch.setattr("kiqbridge.commands.job_command._GRACE_S", 0.0)
        monkeypatch.setattr("kiqbridge.commands.job_command.time.sleep", performed)

        code, out, _ = run("job", "show", "j0", "--follow")

        assert code == 0
        assert out.splitlines()[-1].partition("  ")[2] == said

    def test_following_ends_with_ctrl_c_and_at_once_for_one_that_is_nowhere(
        self, run, redis, monkeypatch
    ):
        redis.sadd("queues", "default")
        redis.lpush("queue:default", text("j0"))

        def interrupted(_seconds):
            raise KeyboardInterrupt

        monkeypatch.setattr("kiqbridge.commands.job_command.time.sleep", interrupted)

        assert run("job", "j0", "--follow")[0] == 130
        code, out, err = run("job", "never", "--follow")
        assert (code, out) == (1, "")
        assert "never: no such job" in err


class TestProcesses:
    @pytest.fixture(autouse=True)
    def living(self, redis):
        for identity in ("web-1:7:aa", "web-2:7:bb", "batch-1:9:cc"):
            redis.sadd("processes", identity)
            info = json.dumps({"hostname": identity.split(":")[0]})
            redis.hset(identity, mapping={"info": info, "beat": time.time()})

    @pytest.mark.parametrize(
        ("args", "asked"),
        [
            (["web-1"], {"web-1:7:aa"}),
            (["--host", "web-*"], {"web-1:7:aa", "web-2:7:bb"}),
            (["--all"], {"web-1:7:aa", "web-2:7:bb", "batch-1:9:cc"}),
        ],
    )
    def test_the_signal_waits_in_redis_for_their_heartbeat(self, run, redis, args, asked):
        code, out, err = run("quiet", *args)

        assert (code, err) == (0, "")
        assert {line.split()[-1] for line in out.splitlines()} == asked
        assert {key.decode() for key in redis.keys("*-signals")} == {
            f"{each}-signals" for each in asked
        }
        assert redis.lrange(f"{min(asked)}-signals", 0, -1) == [b"TSTP"]
        assert len(audited(run, "--action", "quiet")) == len(asked)

    def test_stopping_is_asked(self, run, redis, answering):
        answering("\n")
        code, _, err = run("stop", "--host", "web-*")
        assert code == 1
        assert err.startswith("Stop 2 processes? [y/N] ")
        assert not redis.keys("*-signals")

        assert run("stop", "batch-1:9:cc", "--yes")[1] == "asked to stop: batch-1:9:cc\n"
        assert redis.lrange("batch-1:9:cc-signals", 0, -1) == [b"TERM"]

    def test_a_dry_run_and_what_is_not_there(self, run, redis):
        assert run("stop", "--all", "--dry-run")[1].splitlines()[0] == "would stop batch-1:9:cc"
        assert run("quiet", "--host", "none")[::2] == (0, "No living process matches.\n")
        assert run("quiet", "gone")[0] == run("quiet")[0] == 2
        assert not redis.keys("*-signals")


class TestAudit:
    def test_who_did_what(self, run, redis):
        fill(redis, "dead")
        run("dead", "delete", "--class", "Mail", "--yes")
        run("queue", "pause", "mail", "--reason", HOSTILE, "--by", "ann")
        run("queue", "resume", "mail")

        resume, pause, delete = audited(run)

        assert (delete["via"], delete["action"], delete["target"]) == ("cli", "delete", "dead")
        assert (delete["detail"], delete["count"]) == ("class:Mail", 5)
        assert (pause["by"], pause["action"], pause["target"]) == ("ann", "pause", "queue:mail")
        assert (resume["action"], "@" in resume["by"]) == ("resume", True)
        assert [each["action"] for each in audited(run, "--by", "ann")] == ["pause"]
        assert [each["action"] for each in audited(run, "--target", "dead")] == ["delete"]
        shown = run("audit")[1]
        assert "\x1b" not in shown and r"\x1b]0;owned" in shown
        assert len(run("audit", "--jsonl")[1].splitlines()) == 3
        assert run("audit", "--action", "never")[1] == "The audit log has no such entry.\n"


class TestMetrics:
    def test_nothing_ran(self, run):
        assert run("metrics")[1] == "No job ran in the last 60 minutes.\n"
        assert run("metrics", "Mail")[1] == "Mail did not run in the last 60 minutes.\n"

    def test_classes_and_one_of_them(self, run, redis, redis_url):
        minute = time.strftime("%y%m%d|%-H:%M", time.gmtime())
        redis.hset(f"j|{minute}", mapping={"Mail|p": 4, "Mail|f": 1, "Mail|ms": 300})
        client = Client(redis_url)
        client.deploy_mark("v2")
        client.close()

        found = json.loads(run("metrics", "--json")[1])
        one = json.loads(run("metrics", "Mail", "--json")[1])

        assert found["classes"] == [
            {"class": "Mail", "executions": 4, "failures": 1, "ms": 300, "average_ms": 100.0}
        ]
        assert [mark["label"] for mark in found["marks"]] == ["v2"]
        assert (one["executions"], one["series"][0]["failures"], one["p99_ms"]) == (4, 1, None)
        assert re.search(r"^Mail +4 +1 +100 ms +300 ms$", run("metrics")[1], re.MULTILINE)
        assert "Mail: 4 ran, 1 failed, average 100 ms" in run("metrics", "Mail")[1]
