"""Jobs in child processes of real workers: what they see, how they fail, and who ends when."""

import base64
import itertools
import json
import os
import signal
import zlib
from pathlib import Path

import pytest
from support.fleet import KEYS, lists_in_flight
from support.processes import is_process_running
from support.waiting import wait_until

from kiqbridge.api import WorkSet, fetch_verdict, open_operator
from kiqbridge.api.works import fetch_stacks
from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.engine.perform.execution import NotBegun
from kiqbridge.errors import JobTimeout, ProcessDied
from kiqbridge.features.process_pool.child import Child
from kiqbridge.features.process_pool.messages import ChildJob, ChildSettings
from kiqbridge.features.process_pool.pool import ProcessPool

TESTS = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "jobs" / "pooled.py"


def failed_job(redis, jid):
    """The set in which a failed job lies, its score and its payload."""
    for key in (KEYS.retry, KEYS.dead):
        for text, score in redis.zrange(key, 0, -1, withscores=True):
            payload = json.loads(text)
            if payload["jid"] == jid:
                return key, score, payload
    return None


class TestRunning:
    def test_plain_and_async_jobs_see_what_they_would_see_in_the_worker(
        self, start, client, seen, redis
    ):
        worker = start("-c", "2", KIQBRIDGE_POOL_SIZE="1")
        jid = client.push({"class": "Plain", "args": [1]})
        other = client.push({"class": "Asynchronous", "args": [2]})
        skipped = client.push({"class": "Skipped", "args": []})
        again = client.push({"class": "Plain", "args": [3]})

        seen.wait("plain", 2)
        [asynchronous] = seen.wait("asynchronous")
        wait_until(lambda: not redis.exists("queue:default"), 10)
        assert worker.stop() == 0

        plain = {note["jid"]: note for note in seen.all("plain")}
        assert plain[jid]["number"] == 1
        assert plain[again]["number"] == 3
        assert plain[jid]["queue"] == "default"
        assert plain[jid]["database"] == "a database"
        assert plain[jid]["has_client"]
        assert (asynchronous["jid"], asynchronous["own_channel"]) == (other, True)
        children = {
            note["pid"] for note in seen.all() if note["event"] in {"plain", "asynchronous"}
        }
        assert len(children) == 1
        assert worker.pid not in children
        opened = [note["pid"] for note in seen.all("open")]
        assert sorted(opened) == sorted([worker.pid, *children])  # once in each process
        assert {note["pid"] for note in seen.all("close")} == {worker.pid, *children}
        names = [note["name"] for note in seen.all("middleware")]
        assert sorted(names) == ["Asynchronous", "Plain", "Plain"]
        assert {note["pid"] for note in seen.all("middleware")} == children
        assert not seen.all("skipped")
        assert f"jid={jid}" in worker.output
        assert worker.output.count("INFO: start") == worker.output.count("INFO: done") == 4
        assert not lists_in_flight(redis)
        assert redis.get("stat:processed") == b"4"
        assert redis.get("stat:failed") in (None, b"0")
        handles = [client.handle(each) for each in (jid, other, again, skipped)]
        assert [each.status() for each in handles] == ["done", "done", "done", "skipped"]

    def test_while_no_child_is_free_threads_run_other_jobs_and_hold_none_for_it(
        self, start, client, seen, redis
    ):
        start("-c", "3", "-q", "critical", "-q", "default", "-q", "low", KIQBRIDGE_POOL_SIZE="1")
        client.push_bulk({"class": "Hold", "args": [[]] * 6})
        seen.wait("hold")
        wait_until(lambda: redis.llen("queue:default") == 5, 30, "the others wait in their queue")
        for queue in ("critical", "low"):
            client.push_bulk(
                {"class": "InThread", "args": [[n] for n in range(10)], "queue": queue}
            )

        seen.wait("in thread", 20)
        assert len(seen.all("hold")) == 1
        seen.release()
        seen.wait("released", 6)
        wait_until(lambda: not lists_in_flight(redis), 30)


class TestFailures:
    @pytest.mark.parametrize("kind", ["own", "chain", "arguments", "long", "kill", "exit"])
    def test_what_is_kept_of_a_failure_is_what_a_thread_keeps(
        self, start, client, redis, kind, seen
    ):
        worker = start("-c", "1")
        names = ["FailInThread", "FailInProcess", "FailInCoroutine"]
        options = {"backtrace": True, "retry": 3}
        jids = {name: client.push({"class": name, "args": [kind], **options}) for name in names}
        wait_until(lambda: worker.output.count("INFO: fail") == 3, 30, lambda: worker.output)
        assert worker.stop() == 0

        kept = {name: failed_job(redis, jid) for name, jid in jids.items()}
        if kind == "exit":  # its rule: discard
            assert set(kept.values()) == {None}
            return
        comparable = {}
        for name, (key, score, payload) in kept.items():
            lines = json.loads(zlib.decompress(base64.b64decode(payload["error_backtrace"])))
            own = [line for line in lines if str(JOBS) in line]
            comparable[name] = (
                key,
                payload["error_class"],
                payload["error_message"],
                payload["retry_count"],
                list(payload),
                [line for line in own if "in 'fail'" in line],
                # With some seconds between the three, and a tenth of jitter beside.
                10_000 <= score - payload["failed_at"] <= 11_200 if key == KEYS.retry else None,
            )
            if name != "FailInCoroutine":  # plain middleware around it adds lines of the bridge
                assert lines == own
        assert comparable["FailInProcess"] == comparable["FailInThread"]
        assert comparable["FailInCoroutine"] == comparable["FailInThread"]
        assert comparable["FailInThread"][0] == (KEYS.dead if kind == "kill" else KEYS.retry)
        assert {note["name"] for note in seen.all("middleware")} == set(names)

    def test_arguments_that_do_not_fit_are_a_death_as_on_a_thread(self, start, client, redis):
        worker = start("-c", "1")
        names = ["FailInThread", "FailInProcess", "FailInCoroutine"]
        jids = {name: client.push({"class": name, "args": [5], "retry": 3}) for name in names}

        wait_until(lambda: redis.zcard(KEYS.dead) == len(names), 60, lambda: worker.output)

        for name, jid in jids.items():
            _, _, payload = failed_job(redis, jid)
            assert payload["error_class"] == "kiqbridge.errors.ArgumentMismatch"
            assert payload["error_message"].startswith(f"kind of {name}: expected str, got 5")

    def test_the_rules_of_a_job_that_cannot_be_made_count_as_little_as_on_a_thread(
        self, start, client, redis
    ):
        worker = start("-c", "1")
        names = ["UnmadeInThread", "UnmadeInProcess"]
        jids = [client.push({"class": name, "args": [], "retry": 3}) for name in names]

        wait_until(lambda: worker.output.count("INFO: fail") == 2, 30, lambda: worker.output)
        assert worker.stop() == 0

        kept = [failed_job(redis, jid) for jid in jids]
        assert [key for key, _, _ in kept] == [KEYS.retry, KEYS.retry]
        assert [payload["error_message"] for _, _, payload in kept] == ["not made", "not made"]

    def test_a_job_that_exceeds_its_time_is_killed_even_in_c(self, start, client, redis, seen):
        worker = start("-c", "1")
        jid = client.push({"class": "Busy", "args": []})

        wait_until(lambda: failed_job(redis, jid), 30, lambda: worker.output)

        _, _, payload = failed_job(redis, jid)
        assert payload["error_class"] == "kiqbridge.errors.JobTimeout"
        assert payload["error_message"].startswith("took longer than its timeout_s of 0.7 s")
        [note] = seen.all("busy")
        wait_until(lambda: not is_process_running(note["pid"]), 5)
        client.push({"class": "Plain", "args": [1]})
        seen.wait("plain")  # by a new child

    @pytest.mark.parametrize(
        "died",
        [
            ("SIGSEGV", "was ended by SIGSEGV (signal 11)"),
            ("SIGKILL", "was ended by SIGKILL (signal 9), as the system does when memory runs out"),
            ("exit", "ended with exit code 7"),
            ("parents", "was ended by SIGKILL"),
        ],
    )
    def test_a_child_that_dies_costs_its_job_a_try_and_its_neighbours_nothing(
        self, start, client, redis, seen, died
    ):
        how, told = died
        worker = start("-c", "2", KIQBRIDGE_POOL_SIZE="2")
        client.push({"class": "Hold", "args": []})
        [neighbour] = seen.wait("hold")

        jid = client.push({"class": "Dies", "args": [how]})
        wait_until(lambda: failed_job(redis, jid), 30, lambda: worker.output)
        key, _, payload = failed_job(redis, jid)
        seen.release()
        [released] = seen.wait("released")

        assert key == KEYS.retry
        assert payload["error_class"] == "kiqbridge.errors.ProcessDied"
        assert told in payload["error_message"]
        assert released["pid"] == neighbour["pid"]
        assert worker.is_running
        assert worker.stop() == 0
        assert len(seen.all("hold")) == 1

    def test_of_a_job_that_died_with_its_process_the_doctor_says_so(
        self, start, client, redis, redis_url
    ):
        worker = start("-c", "1", KIQBRIDGE_POOL_SIZE="1")

        client.push({"class": "Dies", "args": ["SIGKILL"], "retry": 0})
        wait_until(lambda: redis.zcard(KEYS.dead), 30, lambda: worker.output)

        [fact] = [
            each for each in fetch_verdict(open_operator(redis_url)).facts if each.kind == "deaths"
        ]
        assert (
            "1 Dies (kiqbridge.errors.ProcessDied: its process was killed, or crashed)" in fact.what
        )


class TestEnding:
    @pytest.mark.parametrize("name", ["Hold", "HoldInC"])
    def test_children_do_not_outlive_a_worker_that_is_killed(self, start, client, seen, name):
        worker = start("-c", "1")
        client.push({"class": name, "args": []})
        [note] = seen.wait("hold")
        assert is_process_running(note["pid"])

        worker.kill()

        wait_until(lambda: not is_process_running(note["pid"]), 5, "the child's end")

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("Hold", ", in hold_here\n"),
            ("HoldInC", "has not said within 2 s where it is: it is in C code"),
        ],
    )
    def test_a_child_says_where_its_job_is_and_is_killed_at_the_deadline_when_the_job_is_back(  # noqa: PLR0917 - fixtures
        self, start, client, redis, seen, operator, name, said
    ):
        worker = start("-c", "1", "-t", "1")
        jid = client.push({"class": name, "args": []})
        [note] = seen.wait("hold")
        [work] = wait_until(lambda: list(WorkSet(operator)), 30)

        worker.signal(signal.SIGTTIN)
        stacks = wait_until(lambda: fetch_stacks([work], operator), 30)

        [stack] = stacks.values()
        assert f"he child process {note['pid']}" in stack.text and said in stack.text
        assert worker.stop(20) == 0

        assert not is_process_running(note["pid"])
        assert [json.loads(text)["jid"] for text in redis.lrange("queue:default", 0, -1)] == [jid]
        assert redis.zcard(KEYS.retry) == redis.zcard(KEYS.dead) == 0
        assert not lists_in_flight(redis)

    def test_a_signal_to_all_of_the_group_is_the_workers_matter(self, start, client, seen, redis):
        worker = start("-c", "1", "-t", "20")
        client.push({"class": "Hold", "args": []})
        [note] = seen.wait("hold")

        os.killpg(worker.pid, signal.SIGTERM)
        worker.wait_for_output("stopping")
        assert is_process_running(note["pid"])
        seen.release()

        assert worker.wait(20) == 0
        assert len(seen.all("released")) == 1
        assert redis.zcard(KEYS.retry) == 0

    def test_under_a_supervisor_each_worker_has_children_of_its_own(
        self, start, client, seen, redis
    ):
        supervisor = start("-c", "1", "--processes", "2", ready=False, KIQBRIDGE_POOL_SIZE="1")
        client.push_bulk({"class": "Hold", "args": [[], []]})
        holding = {note["pid"] for note in seen.wait("hold", 2)}
        seen.release()
        seen.wait("released", 2)
        assert supervisor.stop(30) == 0

        assert len(holding) == 2
        wait_until(lambda: not any(map(is_process_running, holding)), 5, "their end")
        assert redis.zcard(KEYS.retry) == redis.zcard(KEYS.dead) == 0
        assert not lists_in_flight(redis)

    def test_a_job_is_told_that_its_worker_stops(self, start, client, seen):
        worker = start("-c", "1", "-t", "20")
        client.push({"class": "Polite", "args": []})
        seen.wait("polite")

        assert worker.stop(20) == 0

        assert len(seen.all("told")) == 1


@pytest.fixture
def pool(redis_url, tmp_path, monkeypatch):
    monkeypatch.setenv("MARKS", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    pools = []

    def make(**options):
        settings = ChildSettings(
            require=(str(JOBS),),
            log_level="warning",
            log_format="plain",
            redis=RedisAccess(url=redis_url),
            namespace="",
            profile="7",
            timeout_s=25.0,
        )
        pools.append(ProcessPool(settings, **{"size": 2, **options}))
        pools[-1].starter.start()
        return pools[-1]

    yield make
    for each in pools:
        each.stop()


def order(name, *args, **options):
    text = json.dumps({"class": name, "args": args, "jid": "j", "retry": True}).encode()
    return ChildJob(
        text=text, queue="q", tid="t", capsule="default", max_retries=25, profile="7", **options
    )


class TestThePool:
    def test_a_child_is_replaced_after_so_many_jobs(self, pool, seen):
        pool = pool(size=1, max_jobs=2)

        for number in range(4):
            pool.perform(order("Plain", number), "owner")

        pids = [note["pid"] for note in seen.all("plain")]
        assert pids[0] == pids[1] != pids[2] == pids[3]

    def test_one_without_work_is_ended_and_closes_what_it_has_open(self, pool, seen):
        pool = pool(idle_s=0.2)
        pool.perform(order("Plain", 1), "owner")
        [note] = seen.all("plain")
        assert repr(pool) == "<ProcessPool 1 of 2 children, 1 idle>"

        wait_until(lambda: not is_process_running(note["pid"]), 10, "its end")

        assert [each["pid"] for each in seen.all("close")] == [note["pid"]]
        assert repr(pool) == "<ProcessPool 0 of 2 children, 0 idle>"

    def test_only_the_one_that_died_is_replaced(self, pool, seen):
        pool = pool(size=1)
        pool.perform(order("Plain", 1), "owner")
        with pytest.raises(ProcessDied, match="SIGABRT"):
            pool.perform(order("Dies", "SIGABRT"), "owner")

        pool.perform(order("Plain", 2), "owner")

        first, second = (note["pid"] for note in seen.all("plain"))
        assert first != second
        assert repr(pool) == "<ProcessPool 1 of 1 children, 1 idle>"

    def test_a_child_whose_order_thread_was_ended_ends_and_is_replaced(self, pool, seen):
        pool = pool(size=1)
        pool.perform(order("EndsThread", "kiqbridge-worker"), "owner")

        with pytest.raises(ProcessDied, match="ended with exit code 72"):
            pool.perform(order("Plain", 1), "owner")
        pool.perform(order("Plain", 2), "owner")

        assert [note["number"] for note in seen.all("plain")] == [2]

    @pytest.mark.parametrize("owed", [1, 2], ids=["that it is ready", "that of a job"])
    def test_a_child_whose_answer_nobody_has_read_gets_no_other_job(
        self, pool, seen, monkeypatch, owed
    ):
        pool = pool(size=1)
        waits, wait = itertools.count(1), Child._wait_message

        def interrupted(child, *args):
            if next(waits) == owed:  # as by an error that another thread raises in this one
                raise SystemExit
            return wait(child, *args)

        monkeypatch.setattr(Child, "_wait_message", interrupted)
        with pytest.raises(SystemExit):
            pool.perform(order("Hold"), "owner")

        pool.perform(order("Plain", 1, timeout_s=20), "owner")

        assert [note["number"] for note in seen.all("plain")] == [1]

    def test_time_is_counted_from_the_start_of_the_job_not_of_the_child(self, pool):
        with pytest.raises(JobTimeout, match=r"took longer than its timeout_s of 0\.3 s"):
            pool().perform(order("Hold", timeout_s=0.3), "owner")

    def test_a_child_that_cannot_load_the_code_says_why(self, pool, monkeypatch, tmp_path):
        monkeypatch.setenv("MARKS", str(tmp_path / "missing"))

        pool = pool()
        with pytest.raises(NotBegun, match=r"did not start: .*No such file or directory"):
            pool.perform(order("Plain", 1), "owner")
        assert pool.slots.free == 0
