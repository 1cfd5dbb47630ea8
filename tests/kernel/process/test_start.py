"""The start of the real command: what it waits for, what ends it, and what it says about itself."""

import json
import os
import signal
from functools import partial

import pytest
from support.processes import ran
from support.proxy import Answer, InterceptingRedis
from support.servers import embedded_server, find_free_port

PATIENT_S = 60
JOBS = """
from kiqbridge import job

@job
def plain(): ...
"""


FLAGS = ("-c", "1", "-t", "1")
ENV = {"KIQBRIDGE_BEAT_S": "0.2"}


@pytest.fixture
def start(start):
    return partial(start, ready=False)


@pytest.fixture
def live(tmp_path):
    """What `kiqbridge health --live` says: whether all is well, and the faults."""

    def live():
        code, output = ran("health", "--live", "--json", "--run-dir", tmp_path / "run")
        answer = json.loads(output)
        assert answer["ok"] == (code == 0)
        return answer["ok"], [fault for each in answer["workers"] for fault in each["faults"]]

    return live


class TestHealth:
    @pytest.mark.parametrize("processes", [(), ("--processes", "2")])
    def test_a_worker_that_never_reaches_redis_is_not_live_after_its_start_period(
        self, start, live, processes
    ):
        nowhere = f"redis://127.0.0.1:{find_free_port()}/0"
        worker = start(*processes, url=nowhere, KIQBRIDGE_START_PERIOD_S="0.1")

        worker.wait_for(lambda: not live()[0] and live()[1], PATIENT_S, "its health being red")

        faults = live()[1]
        assert all("it has not reached Redis once in the " in fault for fault in faults), faults
        assert "start_period_s is 0.1" in faults[0]

    def test_a_worker_that_has_reached_redis_once_stays_live_through_an_outage(self, start, live):
        with embedded_server() as server:
            worker = start(
                url=server.url, KIQBRIDGE_START_PERIOD_S="0", KIQBRIDGE_RECOVER_AFTER_S="3"
            )
            worker.wait_for_output("is ready", PATIENT_S)

        worker.wait_for_output("cannot be reached", PATIENT_S)
        # Its status is written every few seconds, and the last one may be of before it reached Redis.
        worker.wait_for(lambda: live() == (True, []), PATIENT_S, "its health being green")

    def test_a_process_that_is_replaced_in_an_outage_is_live_as_its_supervisor_has_reached_redis(
        self, start, live, tmp_path
    ):
        with embedded_server() as server:
            worker = start("--processes", "2", url=server.url, KIQBRIDGE_START_PERIOD_S="0")
            worker.wait_for_output("all 2 processes are ready", PATIENT_S)
        first = {path.name for path in (tmp_path / "run").glob("worker-*.json")}
        killed = first.pop()
        os.kill(int(killed.split("-")[1]), signal.SIGKILL)

        def is_replaced():
            now = {path.name for path in (tmp_path / "run").glob("worker-*.json")}
            return len(now - first - {killed}) == 1

        worker.wait_for(is_replaced, PATIENT_S, "the status of the process that replaces it")
        worker.wait_for(lambda: live() == (True, []), PATIENT_S, "the health of all being green")


class TestAServerThatCannotBeUsed:
    """What cannot become right ends the start with status 1, in one line."""

    def ends(self, worker):
        assert worker.wait(PATIENT_S) == 1
        assert "Traceback" not in worker.output
        assert "trying again" not in worker.output
        [line] = [line for line in worker.output.splitlines() if line.startswith("kiqbridge: ")]
        return line

    @pytest.mark.parametrize("processes", [(), ("--processes", "2")])
    @pytest.mark.parametrize(
        ("address", "words"),
        [
            ("redis://127.0.0.1:{}/99", "write a smaller number, such as /0"),
            ("redis://who:s3cret@127.0.0.1:{}/0", "the user or the password is wrong"),
            ("rediss://127.0.0.1:{}/0", "write redis:// instead of rediss://"),
            (
                "redis://127.0.0.1:{}/0?sslcacerts=x",
                "sslcacerts is not an option of such an address",
            ),
        ],
    )
    def test_a_wrong_address(self, start, server, address, words, processes):
        line = self.ends(start(*processes, url=address.format(server.port)))

        assert words in line
        assert "s3cret" not in line

    def test_one_that_is_still_loading_is_waited_for(self, start, server):
        with InterceptingRedis(server.port) as proxy:
            proxy.decide = lambda _command: Answer(b"-LOADING Redis is loading\r\n")
            worker = start(url=proxy.url)
            worker.wait_for_output("trying again", PATIENT_S)
            proxy.decide = lambda _command: None

            worker.wait_for_output("is ready", PATIENT_S)
            assert worker.stop(PATIENT_S) == 0
