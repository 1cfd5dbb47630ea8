"""Jobs that a state machine waits for, in real workers against a Step Functions on loopback."""

import json
import signal
from pathlib import Path

import pytest
from support.step_functions import StepFunctionsStandIn
from support.waiting import wait_until

pytestmark = pytest.mark.slow

JOBS = Path(__file__).parent / "jobs" / "tasks.py"
TOKEN = "AQCEAAAAKgAAAAMAAAAAAAAAAb+secret/token=="
REPORTS = "kb:reports"


@pytest.fixture
def service():
    with StepFunctionsStandIn(TOKEN) as service:
        yield service


@pytest.fixture
def env(service):
    return service.env


@pytest.fixture
def push(client, service):
    def push(job_class, *args, **attributes):
        job = {"class": job_class, "args": list(args), "task_token": TOKEN, **attributes}
        return client.push(job)

    push.service = service
    return push


def one(service, name):
    """The parameters of the one call of a name, once it has come."""
    wait_until(lambda: service.named(name), 20, lambda: f"{name}; {service.calls}")
    [call] = service.named(name)
    assert call.parameters["taskToken"] == TOKEN
    return call.parameters


def outcome(service):
    return json.loads(one(service, "SendTaskSuccess")["output"])


def all_sent(redis):
    wait_until(lambda: not redis.exists(REPORTS), 10)


def times(folder, name, count):
    """Wait until a job has run so often."""
    path = folder / name
    wait_until(lambda: path.exists() and len(path.read_text()) >= count, 20)
    assert path.read_text() == "x" * count


class TestOutcomes:
    @pytest.mark.parametrize(
        "job",
        [
            ("Bill", 7, {"total": 7, "paid": True}),
            ("Asynchronous", "é", ["é"]),
            ("InChild", 2**70, {"pid": True, "value": 2**70}),
            ("AsyncInChild", "a", "a"),
            ("CoroutineInChild", "c", "c"),
        ],
        ids=lambda job: job[0],
    )
    def test_what_a_job_returns_is_the_output_of_its_task(self, start, push, redis, job):
        job_class, argument, output = job
        worker = start("-c", "1", "-v")
        jid = push(job_class, argument)

        assert outcome(push.service) == output
        all_sent(redis)
        assert worker.stop() == 0
        [line] = [each for each in worker.output.splitlines() if "reported the success" in each]
        assert f" class={job_class} jid={jid} " in line
        assert TOKEN not in worker.output  # at level debug, too
        assert redis.get("stat:processed") == b"1"
        assert redis.get("stat:failed") in (None, b"0")

    def test_an_iterable_job_that_goes_on_in_another_worker_reports_once(
        self, start, push, service, tmp_path
    ):
        first = start("-c", "1")
        push("Steps")
        times(tmp_path, "Steps", 2)
        first.signal(signal.SIGTERM)
        first.wait_for_output("quiet: no new jobs")
        (tmp_path / "stopping").touch()
        assert first.wait() == 0
        assert service.calls == []

        start("-c", "1")

        assert outcome(service) is None
        assert (tmp_path / "Steps").read_text() == "xxx"

    @pytest.mark.parametrize("job_class", ["Steps", "AsyncSteps", "StepsInChild"])
    def test_an_iterable_job_that_is_cancelled_fails_its_task(
        self, start, push, service, client, job_class
    ):
        client.cancel(jid := push(job_class))
        start("-c", "1")

        sent = one(service, "SendTaskFailure")

        assert sent["error"] == "kiqbridge.errors.JobCancelled"
        assert json.loads(sent["cause"])["jid"] == jid


class TestFaults:
    def test_a_worker_that_stops_sends_what_its_last_job_owes(
        self, start, push, service, tmp_path, redis
    ):
        worker = start("-c", "1")
        # One report before, so that boto3 is loaded: on a busy machine that takes longer than the end may.
        push("Bill", 0, task_token="nobody's")
        wait_until(lambda: service.calls, 20)
        all_sent(redis)
        service.calls.clear()
        service.delay_s = 0.3
        push("Waiting")
        times(tmp_path, "Waiting", 1)

        worker.signal(signal.SIGTERM)
        (tmp_path / "go").touch()

        assert worker.wait() == 0
        assert outcome(service) == "waited"
        assert not redis.exists(REPORTS)


class TestHeartbeats:
    def test_they_come_while_the_job_runs_and_end_with_it(self, start, push, service, tmp_path):
        start("-c", "1")
        push("Waiting", task_heartbeat_s=1)

        wait_until(lambda: len(service.named("SendTaskHeartbeat")) >= 2, 30)
        (tmp_path / "go").touch()

        assert outcome(service) == "waited"
        names = [call.name for call in service.calls]
        assert set(names[:-1]) == {"SendTaskHeartbeat"}
        assert names[-1] == "SendTaskSuccess"
