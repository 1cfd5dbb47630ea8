"""Task scale-in protection, against an agent on loopback that answers as ECS' own does."""

import http.server
import json
import os
import shutil
import sys
import threading
from contextlib import ExitStack, closing

import pytest
from support.ecs_agent import EcsAgent
from support.processes import ChildProcess
from support.waiting import wait_until

from kiqbridge.features.ecs.protection import (
    ANSWER_S,
    EXPIRES_MIN,
    LOCK_FILE,
    RENEW_S,
    RETRY_S,
    TaskProtection,
    task_protection,
)
from kiqbridge.runtime.clock import lease_now

PROTECT = {"ProtectionEnabled": True, "ExpiresInMinutes": EXPIRES_MIN}
GIVE_BACK = {"ProtectionEnabled": False}


@pytest.fixture
def agent():
    with EcsAgent() as agent:
        yield agent


QUICK = {"look_s": 0.01, "after_s": 0.05, "clock": lease_now}


class Worker:
    """The protection of one process, and the jobs that it would be running."""

    def __init__(self, agent, folder, **options):
        self.now = 1000.0
        self.jobs = []
        defaults = {"after_s": 60, "clock": lambda: self.now, "folder": folder}
        self.protection = TaskProtection(
            agent_uri=agent.uri, running=lambda: self.jobs, **(defaults | options)
        )

    def begin(self, *jobs):
        self.jobs = jobs
        self.look()

    def look(self, after_s=0):
        self.now += after_s
        self.protection.look()

    def close(self):
        self.jobs = ()
        self.protection.stop(2 * ANSWER_S)
        self.look()


@pytest.fixture
def employ(agent, tmp_path):
    """Makes workers on the agent; they hold nothing after the test."""
    with ExitStack() as stack:

        def employ(folder=tmp_path, at=agent, **options):
            return stack.enter_context(closing(Worker(at, folder, **options)))

        yield employ


@pytest.fixture
def worker(employ):
    return employ()


class TestAJob:
    def test_nothing_is_asked_without_one_or_with_a_short_one(self, worker, agent):
        worker.look()
        worker.begin("job 1")
        worker.look(after_s=59)
        worker.begin("job 2")
        worker.look(after_s=59)

        assert agent.states == []

    def test_a_long_one_is_protected_until_it_ends_and_asked_again_before_it_expires(
        self, worker, agent
    ):
        worker.begin("job")
        worker.look(after_s=60)
        worker.look(after_s=RENEW_S - 1)
        assert agent.states == [PROTECT]
        worker.look(after_s=1)
        assert agent.states == [PROTECT, PROTECT]
        assert RENEW_S + RETRY_S < EXPIRES_MIN * 60
        worker.jobs = ()
        worker.look()
        worker.look()
        assert agent.states == [PROTECT, PROTECT, GIVE_BACK]


class TestItsThread:
    @pytest.mark.parametrize("is_quieted", [False, True])
    def test_it_protects_and_gives_back_by_itself_or_when_quiet(
        self, agent, employ, caplog, is_quieted
    ):
        worker = employ(**QUICK)
        worker.jobs = None
        worker.protection.start()
        wait_until(lambda: "an error ended the loop of thread ecs" in caplog.text)
        assert agent.states == []
        worker.jobs = ("job",)
        wait_until(lambda: agent.states == [PROTECT])
        if is_quieted:
            worker.protection.quiet()  # though the job goes on
        else:
            worker.jobs = ()
        wait_until(lambda: agent.states == [PROTECT, GIVE_BACK])
        worker.protection.stop(2 * ANSWER_S)
        assert len(agent.states) == 2


FAILURES = {
    "error": (
        403,
        {
            "requestID": "12345-abc",
            "error": {"Code": "AccessDeniedException", "Message": "not authorized", "Arn": "arn:…"},
        },
        "AccessDeniedException: not authorized",
    ),
    "failure": (
        200,
        {"failure": {"Reason": "TASK_NOT_VALID", "Detail": None, "Arn": "arn:…"}},
        "TASK_NOT_VALID",
    ),
    "not done": (200, {"protection": {"ProtectionEnabled": False}}, "is not understood"),
    "no JSON": (200, "<html>", "is not understood"),
    "no object": (200, "[]", "is not understood"),
    "HTTP alone": (500, "", "HTTP 500"),
}


class TestAnAgentThatFails:
    @pytest.mark.parametrize("failure", FAILURES)
    def test_it_is_told_once_and_tried_again(self, worker, agent, caplog, failure):
        *answer, told = FAILURES[failure]
        agent.answers = tuple(answer)
        worker.begin("job")
        worker.look(after_s=60)
        worker.look(after_s=RETRY_S - 1)
        assert len(agent.states) == 1
        worker.look(after_s=1)

        assert agent.states == [PROTECT, PROTECT]
        [record] = [record for record in caplog.records if record.levelname == "WARNING"]
        assert told in record.message
        assert "ecs:UpdateTaskProtection" in record.message

    def test_a_second_outage_is_told_again(self, worker, agent, caplog):
        worker.begin("job")
        for answers in (FAILURES["error"][:2], None, FAILURES["error"][:2]):
            agent.answers = answers
            worker.look(after_s=RENEW_S)

        assert [record.levelname for record in caplog.records].count("WARNING") == 2

    def test_no_agent_is_no_error_and_a_proxy_of_the_environment_not_asked(
        self, worker, agent, caplog, monkeypatch
    ):
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        worker.begin("job")
        worker.look(after_s=60)
        assert agent.states == [PROTECT]
        agent.close()
        worker.jobs = ()
        worker.look()
        assert caplog.text.count("was not changed") == 1

    def test_one_that_says_no_http_is_no_error(self, employ, caplog):
        class Odd(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                self.wfile.write(b"what?\r\n\r\n")

            def log_message(self, *args):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Odd) as odd:
            threading.Thread(target=odd.serve_forever, daemon=True).start()
            odd.uri = f"http://127.0.0.1:{odd.server_port}"
            worker = employ(at=odd)
            worker.begin("job")
            worker.look(after_s=60)
            odd.shutdown()

        assert "was not changed: what?" in caplog.text

    def test_one_that_is_silent_does_not_hold_the_end_up(self, agent, employ, monkeypatch):
        monkeypatch.setattr("kiqbridge.features.ecs.protection.ANSWER_S", 0.1)
        agent.silent.set()
        worker = employ(**QUICK)
        worker.jobs = ("job",)
        worker.protection.start()
        wait_until(lambda: agent.states)

        worker.protection.stop(0.2)  # comes back, whether or not the agent has answered

        wait_until(lambda: not worker.protection.alive)


PROTECT_UNTIL_KILLED = """
import sys, threading
from pathlib import Path
from kiqbridge.features.ecs.protection import task_protection
environ, folder = {"ECS_AGENT_URI": sys.argv[1]}, Path(sys.argv[2])
protection = task_protection(environ, after_s=1e-9, running=lambda: [1], folder=folder)
protection.look()
protection.look()
print("protected", flush=True)
threading.Event().wait()
"""


class TestSeveralProcessesOfOneTask:
    def test_only_the_last_one_gives_back(self, agent, employ):
        workers = [employ() for _ in range(3)]
        for worker in workers:
            worker.begin("job")
            worker.look(after_s=60)
        assert agent.states == [PROTECT] * 3

        for worker in workers:
            assert agent.states == [PROTECT] * 3
            worker.jobs = ()
            worker.look()

        assert agent.states == [*[PROTECT] * 3, GIVE_BACK]

    def test_a_folder_that_was_removed_is_made_again_and_its_lock_shared_again(
        self, agent, employ, tmp_path
    ):
        folder = tmp_path / "run"
        first, second = employ(folder), employ(folder)
        first.begin("job")
        first.look(after_s=60)
        shutil.rmtree(folder)
        second.begin("job")
        second.look(after_s=60)
        first.look(after_s=RENEW_S)  # it locks the new file, too
        second.jobs = ()
        second.look()

        assert agent.states == [PROTECT] * 3
        first.jobs = ()
        first.look()
        assert agent.states == [*[PROTECT] * 3, GIVE_BACK]

    def test_a_folder_of_another_user_is_not_used(self, agent, employ, tmp_path, caplog):
        folder = tmp_path / "run"
        folder.mkdir()
        folder.chmod(0o777)
        os.chown(folder, os.geteuid() or 65_534, -1)
        worker = employ(folder)
        worker.begin("job")
        worker.look(after_s=60)

        assert agent.states == [PROTECT]
        assert list(folder.iterdir()) == []
        assert "will not be given back" in caplog.text

    def test_who_comes_while_the_last_one_gives_back_waits_for_it(self, agent, employ):
        first, second = employ(), employ()
        first.begin("job")
        second.begin("job")
        first.look(after_s=60)
        second.now += 60
        first.jobs = ()
        agent.on_request = second.look  # amid the request that gives back
        first.look()
        agent.on_request = lambda: None
        assert agent.states == [PROTECT, GIVE_BACK]

        second.look(after_s=1)

        assert agent.states == [PROTECT, GIVE_BACK, PROTECT]

    def test_a_killed_one_holds_nobody_up(self, agent, worker, tmp_path):
        command = [sys.executable, "-c", PROTECT_UNTIL_KILLED, agent.uri, str(tmp_path)]
        with ChildProcess(command) as other:
            other.wait_for_output("protected")
            worker.begin("job")
            worker.look(after_s=60)
            other.kill()
        worker.jobs = ()
        worker.look()

        assert agent.states == [PROTECT, PROTECT, GIVE_BACK]

    def test_where_no_lock_can_be_the_protection_expires(self, agent, employ, tmp_path, caplog):
        (tmp_path / "file").touch()
        worker = employ(tmp_path / "file")
        worker.begin("job")
        worker.look(after_s=60)
        worker.look(after_s=RENEW_S)
        worker.jobs = ()
        worker.look()

        assert agent.states == [PROTECT, PROTECT]
        assert caplog.text.count("name a folder in KIQBRIDGE_RUN_DIR") == 1


class TestWhetherItIsWanted:
    def test_it_asks_the_agent_that_ecs_names(self, agent, tmp_path):
        environ = {"ECS_AGENT_URI": f"{agent.uri}/"}
        protection = make(environ, tmp_path, after_s=1e-9)
        protection.look()
        protection.look()
        assert agent.states == [PROTECT]
        assert (tmp_path / LOCK_FILE).exists()
        protection._give_back()

    @pytest.mark.parametrize(
        ("environ", "told"),
        [
            ({}, "ECS_AGENT_URI is not set"),
            ({"ECS_AGENT_URI": "file:///etc"}, "ECS_AGENT_URI is 'file:///etc', not an address"),
        ],
    )
    def test_outside_of_ecs_it_is_told_and_left(self, tmp_path, caplog, environ, told):
        assert make(environ, tmp_path, after_s=1) is None
        assert told in caplog.text


def make(environ, folder, *, after_s):
    return task_protection(environ, after_s=after_s, running=lambda: [1], folder=folder)


def test_the_fake_agent_refuses_what_the_real_one_would(agent):
    assert agent.refuses(json.dumps({"ProtectionEnabled": "yes"}).encode())
    assert agent.refuses(json.dumps({"ProtectionEnabled": True, "ExpiresInMinutes": 0}).encode())
    assert not agent.refuses(json.dumps(PROTECT).encode())
