"""The real command as a child process, with real signals: what an operator relies on."""

import json
import os
import signal

import pytest
import redis as redis_py
from support.processes import ran
from support.servers import embedded_server, find_free_port
from support.workers import find_identity

JOBS = """
import threading, time
from kiqbridge import job
from support.noting import hold, note

@job
def note_it(name):
    note(name)

@job
def short(name):
    time.sleep(0.001)
    note(name)

@job
def until_open(name):
    note("begin " + name)
    hold()
    note("end " + name)

@job
def until_interrupted(name):
    note("begin " + name)
    try:
        while True:
            time.sleep(0.005)
    finally:
        note("cleanup " + name)

@job
def stuck_in_sleep():
    note("begin stuck")
    time.sleep(600)

@job
def stuck_in_lock():
    note("begin stuck")
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
"""
JID = "0123456789abcdef01234567"


ENV = {"KIQBRIDGE_BEAT_S": "0.1", "KIQBRIDGE_LOG_FORMAT": "json"}


def text(name, *args, **attributes):
    payload = {"class": name, "args": list(args), "jid": JID, "retry": True, **attributes}
    return json.dumps(payload).encode()


def enqueue(redis, *texts, queue="default"):
    redis.lpush(f"queue:{queue}", *texts)


def nothing_is_left(redis):
    """A worker that ended in order leaves no trace but the hash that expires."""
    kept = (
        b"kb:poller:clock",
        b"kb:done",
        b"kb:queues:",
    )  # for an hour, and of what has ended
    assert not [key for key in redis.keys("kb:*") if not key.startswith(kept)]
    assert not redis.exists("processes")
    assert not redis.keys("*:work")


class TestPerforming:
    def test_it_performs_jobs_and_counts_them(self, redis, start, seen):
        enqueue(redis, *(text("note_it", str(number)) for number in range(20)))

        worker = start("-c", "1")
        worker.wait_for(lambda: len(seen.events()) == 20)

        assert seen.events() == [str(number) for number in range(20)]
        assert worker.stop() == 0
        assert redis.get("stat:processed") == b"20"
        nothing_is_left(redis)


class TestLookAhead:
    def test_a_long_job_does_not_hold_back_the_short_ones_behind_it(self, redis, start, seen):
        worker = start("-c", "2")
        for number in range(100):  # short ones make claims grow first
            enqueue(redis, text("short", f"before {number}"))
        worker.wait_for(lambda: len(seen.events()) == 100)
        batch = [text("short", f"{number}") for number in range(300)]
        batch.insert(20, text("until_open", "long"))
        enqueue(redis, *batch)

        worker.wait_for(lambda: len(seen.events()) == 100 + 300 + 1)

        assert "end long" not in seen.events()
        seen.release()
        worker.wait_for(lambda: "end long" in seen.events())
        assert len(set(seen.events())) == len(seen.events()) == 402


class TestTerm:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_running_job_may_finish_and_no_further_one_begins(self, redis, start, seen, number):
        enqueue(redis, text("until_open", "first"), text("note_it", "second"))
        worker = start("-c", "1")
        worker.wait_for(lambda: seen.events() == ["begin first"])

        worker.signal(number)
        worker.wait_for_output("no new jobs are taken")
        seen.release()

        assert worker.wait() == 0
        assert seen.events() == ["begin first", "end first"]
        assert redis.lrange("queue:default", 0, -1) == [text("note_it", "second")]
        nothing_is_left(redis)

    def test_at_the_deadline_a_running_job_goes_back_as_it_was_and_runs_next(
        self, redis, start, seen
    ):
        original = b'{ "class":"until_interrupted", "args":["x"], "jid":"j", "n":1e400 }'
        enqueue(redis, original)
        worker = start("-c", "1", "-t", "0.3")
        worker.wait_for(lambda: seen.events() == ["begin x"])
        enqueue(redis, text("note_it", "younger"))

        assert worker.stop() == 0

        assert seen.events() == ["begin x", "cleanup x"]
        assert redis.lrange("queue:default", 0, -1) == [text("note_it", "younger"), original]
        assert not redis.exists("retry", "dead")
        nothing_is_left(redis)

    @pytest.mark.parametrize("name", ["stuck_in_sleep", "stuck_in_lock"])
    def test_a_thread_stuck_in_c_does_not_hang_the_exit(self, redis, start, seen, name):
        enqueue(redis, text(name))
        worker = start("-c", "1", "-t", "0.2")
        worker.wait_for(lambda: seen.events() == ["begin stuck"])

        assert worker.stop(timeout_s=10) == 0

        assert redis.lrange("queue:default", 0, -1) == [text(name)]
        nothing_is_left(redis)

    def test_right_after_boot(self, redis, start):
        for _ in range(3):
            worker = start(ready=False)
            worker.wait_for(lambda: redis.scard("kb:inflight"), what="its registration")

            assert worker.stop() == 0
            nothing_is_left(redis)

    @pytest.mark.slow
    def test_while_redis_is_frozen_it_ends_soon_and_its_job_is_not_lost(
        self, redis, server, start, seen
    ):
        enqueue(redis, text("until_open", "x"))
        soon = {"KIQBRIDGE_RECOVER_AFTER_S": "3"}
        worker = start("-c", "1", "-t", "0.5", **soon)
        worker.wait_for(lambda: seen.events() == ["begin x"])

        server.pause()
        try:
            assert worker.stop(timeout_s=14) == 0
        finally:
            server.resume()

        assert "Traceback" not in worker.output
        seen.release()
        start("-c", "1", **soon).wait_for(lambda: "end x" in seen.events())


class TestCtrlC:
    def test_it_says_how_long_it_waits_and_a_second_one_waits_no_longer(self, redis, start, seen):
        enqueue(redis, text("until_interrupted", "x"))
        worker = start("-c", "1", "-t", "300")
        worker.wait_for(lambda: seen.events() == ["begin x"])

        worker.signal(signal.SIGINT)
        worker.wait_for_output("running jobs have 300 s to end; Ctrl-C once more")
        worker.signal(signal.SIGINT)

        assert worker.wait(30) == 0
        assert seen.events() == ["begin x", "cleanup x"]
        assert redis.lrange("queue:default", 0, -1) == [text("until_interrupted", "x")]
        nothing_is_left(redis)

    def test_term_after_it_is_no_second_one(self, redis, start, seen):
        enqueue(redis, text("until_open", "x"))
        worker = start("-c", "1", "-t", "300")
        worker.wait_for(seen.events)
        worker.signal(signal.SIGINT)
        worker.wait_for_output("no new jobs are taken")

        worker.signal(signal.SIGTERM)
        seen.release()

        assert worker.wait(30) == 0
        assert seen.events() == ["begin x", "end x"]

    def test_under_a_supervisor_a_second_one_reaches_all_processes(self, redis, start, seen):
        enqueue(redis, text("until_interrupted", "x"))
        worker = start("-c", "1", "-t", "300", "--processes", "2", ready=False)
        worker.wait_for(lambda: seen.events() == ["begin x"], 30)

        worker.signal(signal.SIGINT)
        worker.wait_for_output("no new jobs are taken")
        worker.signal(signal.SIGINT)

        assert worker.wait(30) == 0
        assert redis.lrange("queue:default", 0, -1) == [text("until_interrupted", "x")]


class TestOtherSignals:
    def hash_of(self, redis, worker):
        return redis.hgetall(find_identity(redis, worker.pid))

    def test_tstp_takes_no_more_jobs_and_shows_it(self, redis, start, seen):
        worker = start("-c", "2")
        enqueue(redis, text("until_open", "running"))
        worker.wait_for(lambda: seen.events() == ["begin running"])
        worker.wait_for(lambda: self.hash_of(redis, worker)[b"busy"] == b"1")

        worker.signal(signal.SIGTSTP)
        worker.wait_for(lambda: self.hash_of(redis, worker)[b"quiet"] == b"true")
        enqueue(redis, text("note_it", "not taken"))
        redis.zadd("schedule", {text("note_it", "not moved"): 1.0})
        seen.release()
        worker.wait_for(lambda: "end running" in seen.events())
        worker.wait_for(lambda: self.hash_of(redis, worker)[b"busy"] == b"0")

        assert worker.stop() == 0
        assert seen.events() == ["begin running", "end running"]
        assert (redis.llen("queue:default"), redis.zcard("schedule")) == (1, 1)
        nothing_is_left(redis)

    def test_ttin_tells_where_each_thread_is(self, redis, start, seen):
        worker = start("-c", "1")
        enqueue(redis, text("until_open", "x"))
        worker.wait_for(seen.events)

        worker.signal(signal.SIGTTIN)

        worker.wait_for_output("in until_open")
        worker.wait_for_output("kiqbridge-lease")
        assert worker.is_running

    def test_signals_sent_through_redis_do_the_same(self, redis, start):
        worker = start()
        identity = find_identity(redis, worker.pid)
        for name in ("TTIN", "NONSENSE", "TSTP", "TERM"):
            redis.lpush(f"{identity}-signals", name)

        assert worker.wait() == 0
        assert "kiqbridge-lease" in worker.output
        assert "unknown signal 'NONSENSE' is ignored" in worker.output
        assert worker.output.index("no new jobs") < worker.output.index("TERM: stopping")
        nothing_is_left(redis)

    def test_tstp_before_redis_is_there_holds_when_it_comes(self, start, seen):
        port = find_free_port()
        worker = start(ready=False, url=f"redis://127.0.0.1:{port}/0")
        worker.wait_for_output("cannot be reached")
        worker.signal(signal.SIGTSTP)
        worker.wait_for_output("no new jobs are taken")
        with embedded_server(port=port) as server:
            with redis_py.Redis.from_url(server.url) as client:
                client.lpush("queue:default", text("note_it", "not taken"))
                worker.wait_for_output("is ready")
                worker.wait_for(
                    lambda: (
                        (name := find_identity(client, worker.pid))
                        and client.hget(name, "quiet") == b"true"
                    )
                )
                assert client.llen("queue:default") == 1
            assert worker.stop() == 0
        assert seen.events() == []


class TestRedisDown:
    def test_each_attempt_is_one_line_and_term_is_heard(self, start):
        url = f"redis://user:secret@127.0.0.1:{find_free_port()}/0"
        worker = start(ready=False, url=url, KIQBRIDGE_LOG_FORMAT="plain")

        worker.wait_for(lambda: worker.output.count("cannot be reached") >= 2)

        assert worker.stop(timeout_s=5) == 0
        tries = [line for line in worker.output.splitlines() if "cannot be reached" in line]
        assert "trying again in 0.5 s" in tries[0]
        assert "trying again in 1.0 s" in tries[1]
        assert "Traceback" not in worker.output
        assert "secret" not in worker.output


def test_a_worker_that_is_to_have_no_jobs_starts(start):
    worker = start("--allow-no-jobs", require="", ready="is ready")

    assert "no code is named that declares jobs" in worker.output
    assert worker.stop() == 0


class TestExitCodes:
    @pytest.mark.parametrize(
        ("args", "code", "words"),
        [
            (["worker", "-r", "nowhere.py"], 1, "-r nowhere.py: there is no such file"),
            (["worker", "-r", "no.such.module"], 1, "-r no.such.module"),
            (["worker", "-c", "0"], 1, "concurrency: '0' is not a whole number from 1 (from -c)"),
            (["worker", "-C", "nowhere.yml"], 1, "-C nowhere.yml: there is no such file"),
            (
                ["worker"],
                1,
                "no code is named that declares jobs: each job that comes would fail; name",
            ),
            (
                ["worker", "-r", "py"],
                1,
                "-r py declares no job: each job that comes would fail; name",
            ),
            (["worker", "--nonsense"], 2, "usage: kiqbridge worker "),
            ([], 2, "COMMAND"),
            (["worker", "--help"], 0, "--concurrency"),
            (["--version"], 0, "kiqbridge "),
        ],
    )
    def test_it_ends_with_the_code_and_says_why(self, tmp_path, args, code, words):
        (tmp_path / "py").mkdir()
        (tmp_path / "py" / "tools.py").touch()

        found, output = ran(*args, cwd=tmp_path)

        assert found == code, output
        assert words in output
        assert "Traceback" not in output

    @pytest.mark.parametrize(
        ("patch", "words"),
        [
            (
                "from gevent import monkey; monkey.patch_all()",
                "gevent has replaced Python's threading",
            ),
            (
                "from gevent import monkey; monkey.patch_all(thread=False)",
                "gevent has replaced Python's socket",
            ),
        ],
    )
    def test_code_that_replaces_threads_or_sockets_is_refused_in_one_line(
        self, folder, redis_url, patch, words
    ):
        (folder / "green.py").write_text(f"{patch}\nfrom kiqbridge import job\njob(print)\n")
        env = {"REDIS_URL": redis_url, "PYTHONWARNINGS": "ignore"}

        code, output = ran("worker", "-r", "green.py", cwd=folder, env=env)

        assert (code, output.count("\n")) == (1, 1), output
        assert output.startswith(f"kiqbridge: {words}")

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ("import inner\n", ["ZeroDivisionError: division by zero", 'inner.py", line 3, in f']),
            ("def f(:\n", ["SyntaxError", 'broken.py", line 1\n    def f(:']),
            (
                "from kiqbridge import job\n@job(que='x')\ndef f(): ...\n",
                ["que: is no option of a job", 'broken.py", line 2, in <module>\n    @job(que='],
            ),
            ("import sys\nsys.exit(3)\n", ["sys.exit(3)", 'broken.py", line 2, in <module>']),
        ],
    )
    def test_code_that_fails_while_it_is_imported_shows_where_and_only_the_users_frames(
        self, folder, source, words
    ):
        (folder / "broken.py").write_text(source)
        (folder / "inner.py").write_text("\ndef f():\n    return 1 / 0\nf()\n")

        code, output = ran("worker", "-r", "broken.py", cwd=folder)

        assert code == 1
        assert all(text in output for text in words), output
        assert "importlib" not in output
        assert f"kiqbridge{os.sep}client{os.sep}require.py" not in output
        assert "Traceback" not in output
