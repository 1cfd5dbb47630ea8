"""`kiqbridge worker --processes N`: real processes that are killed, frozen, replaced and stopped."""

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
from support import notes
from support.fleet import incarnations, is_frozen
from support.processes import is_process_running
from support.waiting import wait_until

JOBS = """
import ctypes, os, random, time
from kiqbridge import job
from support.noting import hold, note

note("loaded")
HELD = []

@job
def note_it(name):
    note(name)

@job
def short(name):
    time.sleep(0.005)
    note(name)

@job
def draw():
    note(f"drawn {random.random()}")
    hold()

@job
def until_open(name):
    note("begin " + name)
    hold()
    note("end " + name)

@job
def holds_the_interpreter(seconds):
    note("begin held")
    ctypes.PyDLL(None).sleep(seconds)
    note("end held")

@job
def keep(megabytes):
    HELD.append(os.urandom(1 << 20) * megabytes)
    note("kept")
"""
SOON = {"KIQBRIDGE_RECOVER_AFTER_S": "3"}


ENV = {"KIQBRIDGE_BEAT_S": "0.1"}


class Notes(notes.Notes):
    """Besides that of loading."""

    def pairs(self):
        """Event and pid."""
        return [(each["event"], each["pid"]) for each in self.all()]

    def texts(self):
        return [text for text in self.events() if text != "loaded"]

    def pids(self, beginning=""):
        return [pid for text, pid in self.pairs() if text.startswith(beginning)]


@pytest.fixture
def seen(tmp_path):
    return Notes(tmp_path)


@pytest.fixture
def start(redis, start):
    """Supervisors instead of workers."""

    def start_supervisor(*args, processes=2, ready=True, **options):
        supervisor = start("--processes", str(processes), *args, ready=False, **options)
        if ready:
            supervisor.wait_for_output(f"all {processes} processes are ready")
            supervisor.wait_for(lambda: len(beating(redis)) == processes, what="their beats")
        return supervisor

    return start_supervisor


def text(name, *args, jid="0123456789abcdef01234567"):
    return json.dumps({"class": name, "args": list(args), "jid": jid, "retry": True}).encode()


def beating(redis):
    """The pids of all processes that Ruby's UI lists."""
    return {int(name.split(b":")[-2]) for name in redis.smembers("processes") if redis.exists(name)}


def children_of(pid):
    """The pids of all children that are not dead."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return {int(child) for child in listed if is_process_running(int(child))}


def nothing_is_left(redis):
    """Processes that ended in order leave no trace but what expires: their counts, and the leader's look at the clock."""
    kept = (b"kb:metrics:", b"kb:poller:clock", b"kb:done", b"kb:queues:")
    assert not [key for key in redis.keys("kb:*") if not key.startswith(kept)]
    assert not redis.exists("processes")
    assert not redis.keys("*:work")


class TestProcesses:
    def test_each_is_a_process_of_its_own_and_every_job_is_performed_once(self, redis, start, seen):
        supervisor = start("-c", "2", processes=3)
        children = children_of(supervisor.pid)
        assert len(children) == 3
        assert beating(redis) == children

        redis.lpush("queue:default", *(text("short", str(number)) for number in range(300)))
        supervisor.wait_for(lambda: len(seen.texts()) == 300)

        assert sorted(map(int, seen.texts())) == list(range(300))
        assert set(seen.pids()[1:]) == children
        assert supervisor.stop() == 0
        assert redis.get("stat:processed") == b"300"
        assert not any(map(is_process_running, children))
        nothing_is_left(redis)

    def test_the_jobs_are_loaded_once_by_the_supervisor_which_opens_no_connection_before_it_forks(
        self, redis, start, seen
    ):
        supervisor = start()

        assert seen.pairs() == [("loaded", supervisor.pid)]
        assert "has started" not in supervisor.output
        assert "has opened" not in supervisor.output
        assert [len(incarnations(redis, pid)) for pid in children_of(supervisor.pid)] == [1, 1]
        assert len(incarnations(redis)) == 2

    def test_chance_is_not_the_same_in_all_of_them(self, redis, start, seen):
        supervisor = start("-c", "1", processes=3)
        redis.lpush("queue:default", *[text("draw")] * 3)

        supervisor.wait_for(lambda: len(seen.texts()) == 3)

        assert len(set(seen.pids("drawn"))) == 3
        assert len(set(seen.texts())) == 3

    def test_a_client_that_was_used_before_the_fork_serves_all_of_them(
        self, redis, start, folder, seen
    ):
        (folder / "pushing.py").write_text(
            "import jobs\nfrom kiqbridge import Client, job\n"
            "from support.noting import note\n"
            "client = Client()\n"
            "client.push({'class': 'never', 'args': [], 'queue': 'elsewhere'})\n"
            "@job\n"
            "def push(name):\n"
            "    jids = [client.push({'class': 'note_it', 'args': [f'{name}.{number}'],\n"
            "        'jid': f'{name}.{number}'}) for number in range(50)]\n"
            "    assert jids == [f'{name}.{number}' for number in range(50)]\n"
            "    note('pushed')\n"
        )
        supervisor = start("-c", "3", processes=3, require="pushing.py")
        redis.lpush("queue:default", *(text("push", number) for number in range(9)))

        supervisor.wait_for(lambda: len(seen.texts()) == 9 * 51, 30, "all jobs")

        expected = {f"{name}.{number}" for name in range(9) for number in range(50)}
        assert Counter(seen.texts()) == Counter({**dict.fromkeys(expected, 1), "pushed": 9})
        assert supervisor.stop() == 0
        assert not redis.exists("retry", "dead")

    def test_what_a_fork_does_not_carry_over_is_told(self, redis_url, start, folder):
        port = redis_url.rpartition(":")[2].partition("/")[0]
        (folder / "odd_jobs.py").write_text(
            "import socket, threading\n"
            "threading.Thread(target=threading.Event().wait, daemon=True, name='mine').start()\n"
            f"CONNECTION = socket.create_connection(('127.0.0.1', {port}))\n"
        )

        supervisor = start("--allow-no-jobs", require="odd_jobs.py")

        assert "has started 1 thread (mine)" in supervisor.output
        assert f"has opened 1 connection (127.0.0.1:{port})" in supervisor.output


class TestCrash:
    def test_a_killed_process_gets_a_successor_and_the_others_are_left_alone(
        self, redis, start, seen
    ):
        supervisor = start("-c", "1", **SOON)
        redis.lpush("queue:default", text("until_open", "a"), text("until_open", "b"))
        supervisor.wait_for(lambda: len(seen.texts()) == 2)
        (victim_job, victim), (other_job, other) = seen.pairs()[1:]

        os.kill(victim, signal.SIGKILL)
        supervisor.wait_for_output(f"(pid {victim}) was killed by SIGKILL")
        supervisor.wait_for(
            lambda: len(beating(redis) & children_of(supervisor.pid)) == 2, what="a successor"
        )
        supervisor.wait_for(lambda: seen.texts().count(victim_job) == 2, what="its job elsewhere")
        seen.release()
        both = {each.replace("begin", "end") for each in (victim_job, other_job)}
        supervisor.wait_for(lambda: both <= set(seen.texts()), what="both ends")

        assert other in children_of(supervisor.pid)
        assert seen.texts().count(victim_job.replace("begin", "end")) == 1
        ends = [pid for each, pid in seen.pairs() if each == other_job.replace("begin", "end")]
        assert ends == [other]
        assert seen.texts().count(other_job) == 1
        assert supervisor.stop() == 0
        assert not incarnations(redis)
        assert not redis.exists("queue:default", "retry", "dead")

    def test_a_fork_that_the_system_refuses_is_tried_again(self, redis, start, folder):
        (folder / "refused.py").write_text(
            "import os\n"
            "fork = os.fork\n"
            "def refuse():\n"
            "    os.fork = fork\n"
            "    raise BlockingIOError(11, 'Resource temporarily unavailable')\n"
            "os.fork = refuse\n"
        )
        supervisor = start("--allow-no-jobs", require="refused.py")

        assert "process 1 could not be forked: [Errno 11]" in supervisor.output
        assert "trying again in 0.5 s" in supervisor.output
        assert supervisor.stop() == 0

    @pytest.mark.slow
    def test_who_says_nothing_for_long_is_killed_and_its_job_runs_elsewhere(
        self, redis, start, folder, seen
    ):
        (folder / "hanging.py").write_text(
            "import ctypes\nfrom support.noting import is_first, note\n"
            "from kiqbridge import job\nfrom kiqbridge.commands import supervisor\n"
            "supervisor.HUNG_AFTER_S = 2\n"
            "@job\n"
            "def hang_once():\n"
            "    note('begun')\n"
            "    if is_first('hanging'):\n"
            "        ctypes.PyDLL(None).sleep(600)\n"
        )
        supervisor = start("-c", "1", require="hanging.py", **SOON)
        redis.lpush("queue:default", text("hang_once"))

        supervisor.wait_for(lambda: seen.texts() == ["begun"] * 2, 20, "it running again")

        first, second = seen.pids("begun")
        assert first != second
        assert f"(pid {first}) has reported nothing for" in supervisor.output
        assert f"(pid {first}) was killed by SIGKILL: it hung" in supervisor.output
        assert supervisor.stop() == 0
        assert redis.get("stat:processed") == b"1"

    def test_as_process_1_of_a_container_it_collects_what_jobs_leave_behind(
        self, redis, start, folder, seen
    ):
        (folder / "leaving.py").write_text(
            "import ctypes, subprocess\nfrom support.noting import note\n"
            "from kiqbridge import job\n"
            "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # it inherits orphans, as process 1 does\n"
            "@job\n"
            "def leave():\n"
            "    command = ['sh', '-c', 'sleep 0.3 >/dev/null & echo $!']\n"
            "    orphan = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout\n"
            "    note(f'orphan {int(orphan)}')\n"
        )
        supervisor = start(require="leaving.py")
        redis.lpush("queue:default", text("leave"))
        supervisor.wait_for(seen.texts)
        orphan = Path("/proc", seen.texts()[0].split()[1])

        supervisor.wait_for(lambda: not orphan.exists(), what="the orphan being collected")

        assert len(children_of(supervisor.pid)) == 2
        assert "another is started" not in supervisor.output


@pytest.mark.slow
class TestMemory:
    def test_a_process_above_the_ceiling_is_replaced_once_its_successor_is_ready(
        self, redis, start, seen
    ):
        supervisor = start("-c", "1", "--max-memory-mb", "250")
        before = children_of(supervisor.pid)

        redis.lpush("queue:default", text("keep", 300))
        supervisor.wait_for(lambda: "kept" in seen.texts())
        [fat] = seen.pids("kept")

        supervisor.wait_for_output(f"(pid {fat}) ended with exit code 0, as requested", 20)
        supervisor.wait_for(lambda: len(beating(redis)) == 2, what="its successor")
        assert before - children_of(supervisor.pid) == {fat}
        output = supervisor.output
        assert "the ceiling is 250" in output
        assert output.index("is to replace") < output.index("is asked to end")
        assert output.index("is asked to end") < output.index(f"(pid {fat}) ended")
        assert seen.texts() == ["kept"]
        assert supervisor.stop() == 0
        nothing_is_left(redis)

    def test_a_ceiling_below_what_the_code_takes_is_refused(self, start):
        supervisor = start("--max-memory-mb", "1", ready=False)

        assert supervisor.wait() == 1
        assert "kiqbridge: max_memory_mb: 1 is less than the" in supervisor.output


class TestSignals:
    def running(self, redis, supervisor, seen):
        """Each of two processes with one thread is in the midst of a job."""
        redis.lpush("queue:default", text("until_open", "a"), text("until_open", "b"))
        supervisor.wait_for(lambda: len(seen.texts()) == 2)
        assert set(seen.pids("begin")) == children_of(supervisor.pid)

    @pytest.mark.parametrize(
        "end",
        [
            lambda supervisor: supervisor.signal(signal.SIGTERM),
            lambda supervisor: os.killpg(supervisor.pid, signal.SIGINT),
            lambda supervisor: supervisor.kill(),
        ],
        ids=["TERM", "Ctrl-C in a terminal", "killed"],
    )
    def test_however_it_ends_the_jobs_that_run_may_finish(self, redis, start, seen, end):
        supervisor = start("-c", "1")
        self.running(redis, supervisor, seen)
        children = children_of(supervisor.pid)
        redis.lpush("queue:default", text("note_it", "later"))

        end(supervisor)
        wait_until(lambda: supervisor.output.count("no new jobs are taken") == 2, 10, "their drain")
        seen.release()

        wait_until(
            lambda: not any(map(is_process_running, children)), 15, "the end of its children"
        )
        assert supervisor.wait() in (0, -signal.SIGKILL)
        assert sorted(seen.texts()) == ["begin a", "begin b", "end a", "end b"]
        assert redis.lrange("queue:default", 0, -1) == [text("note_it", "later")]
        assert "Traceback" not in supervisor.output
        nothing_is_left(redis)

    @pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
    def test_int_beside_the_supervisors_term_is_no_second_one(self, redis, start, seen, first):
        supervisor = start("-c", "1")
        self.running(redis, supervisor, seen)
        children = children_of(supervisor.pid)

        for number in (first, *({signal.SIGTERM, signal.SIGINT} - {first}), signal.SIGINT):
            for pid in children:
                os.kill(pid, number)
            supervisor.wait_for(lambda: supervisor.output.count("no new jobs are taken") == 2)
        supervisor.signal(signal.SIGTERM)
        seen.release()

        assert supervisor.wait() == 0
        assert sorted(seen.texts()) == ["begin a", "begin b", "end a", "end b"]
        nothing_is_left(redis)

    def test_tstp_makes_all_of_them_quiet_and_starts_no_more(self, redis, start, seen):
        supervisor = start("-c", "1")
        supervisor.signal(signal.SIGTSTP)
        supervisor.wait_for(
            lambda: (
                [redis.hget(name, "quiet") for name in redis.smembers("processes")] == [b"true"] * 2
            ),
            what="both being quiet",
        )
        redis.lpush("queue:default", text("note_it", "not taken"))

        victim = min(children_of(supervisor.pid))
        os.kill(victim, signal.SIGKILL)
        supervisor.wait_for_output(f"(pid {victim}) was killed by SIGKILL")
        supervisor.wait_for_output("no other is started")

        assert supervisor.stop() == 0
        assert seen.texts() == []
        assert redis.llen("queue:default") == 1

    def test_usr2_replaces_one_after_another_under_load(self, redis, start, seen):
        supervisor = start("-c", "2")
        before = children_of(supervisor.pid)
        redis.lpush("queue:default", *(text("short", str(number)) for number in range(1500)))
        supervisor.wait_for(lambda: len(seen.texts()) > 50)
        counts = set()

        def replaced():
            children = children_of(supervisor.pid)
            counts.add(len(children))
            return not children & before and len(children) == 2

        supervisor.signal(signal.SIGUSR2)
        supervisor.wait_for(replaced, what="two new processes")
        supervisor.wait_for(lambda: len(seen.texts()) >= 1500, 30, "all jobs")

        assert counts <= {2, 3}
        assert sorted(map(int, seen.texts())) == list(range(1500))
        assert supervisor.stop() == 0
        nothing_is_left(redis)


class TestItsEnd:
    def test_without_the_kernels_help_they_hear_its_pipe_end(self, redis, start, folder):
        (folder / "no_prctl.py").write_text(
            "import ctypes\nfrom kiqbridge.commands import forked\n"
            "forked._PR_SET_PDEATHSIG = 0x7fffffff  # a request that the kernel does not know\n"
        )
        supervisor = start("--allow-no-jobs", require="no_prctl.py")
        children = children_of(supervisor.pid)

        supervisor.kill()

        wait_until(
            lambda: not any(map(is_process_running, children)), 15, "the end of its children"
        )
        assert supervisor.output.count("the supervisor has ended") == 2
        nothing_is_left(redis)

    def test_they_work_on_while_it_is_frozen(self, redis, start, seen):
        supervisor = start("-c", "1", **SOON)
        leases = incarnations(redis)
        supervisor.signal(signal.SIGSTOP)
        wait_until(lambda: is_frozen(supervisor.pid), what="its freeze")
        redis.delete("kb:alive")  # only what is written from now on counts

        redis.lpush("queue:default", *(text("short", str(number)) for number in range(400)))
        wait_until(lambda: len(seen.texts()) == 400, 15, "all jobs")

        wait_until(lambda: all(redis.hexists("kb:alive", name) for name in leases), 5)
        assert incarnations(redis) == leases
        supervisor.signal(signal.SIGCONT)
        assert supervisor.stop() == 0


@pytest.mark.slow
class TestLiveness:
    SECONDS = 12
    RECOVER: ClassVar = {"KIQBRIDGE_RECOVER_AFTER_S": "6"}

    def test_a_c_call_that_holds_the_interpreter_is_no_death_under_a_supervisor(
        self, redis, start, seen
    ):
        supervisor = start("-c", "1", **self.RECOVER)
        leases = incarnations(redis)
        redis.lpush("queue:default", text("holds_the_interpreter", self.SECONDS))

        supervisor.wait_for(lambda: "end held" in seen.texts(), self.SECONDS + 15)

        assert seen.texts() == ["begin held", "end held"]
        assert incarnations(redis) == leases
        assert "died" not in supervisor.output
        assert supervisor.stop() == 0
        assert redis.get("stat:processed") == b"1"
        nothing_is_left(redis)

    @pytest.mark.parametrize("with_supervisor", [False, True])
    def test_a_frozen_process_is_found_dead_all_the_same(self, redis, start, seen, with_supervisor):
        supervisor = start("-c", "1", **SOON)
        redis.lpush("queue:default", text("until_open", "x"))
        supervisor.wait_for(lambda: seen.texts() == ["begin x"])
        [frozen] = seen.pids("begin")

        os.kill(frozen, signal.SIGSTOP)
        if with_supervisor:
            supervisor.signal(signal.SIGSTOP)

        supervisor.wait_for(lambda: len(seen.pids("begin x")) == 2, what="its job elsewhere")
        # The reaper returns the jobs before it removes whose they were.
        supervisor.wait_for(lambda: incarnations(redis, frozen) == set(), what="its end")
        seen.release()
        supervisor.signal(signal.SIGCONT)
        os.kill(frozen, signal.SIGCONT)
        supervisor.wait_for(lambda: incarnations(redis, frozen), what="a new lease")
        assert supervisor.stop() == 0
