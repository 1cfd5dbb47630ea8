"""`kiqbridge job JID --follow` beside a real worker: each state until the end, or until Ctrl-C."""

import re
import signal

import pytest
from support.processes import OURS, ChildProcess
from support.waiting import wait_until

from kiqbridge import Client

pytestmark = pytest.mark.slow

JOBS = """
import os, time
from pathlib import Path
from kiqbridge import job

@job(name="Held", result_ttl=60)
def held():
    while not Path(os.environ["MARKS"], "go").exists():
        time.sleep(0.01)
    return 7
"""


def test_a_job_is_followed_from_its_queue_to_its_end(start, redis_url, tmp_path):
    client = Client(redis_url)
    handle = client.push({"class": "Held", "args": [], "flow": {"result_ttl_s": 60}})
    command = [*OURS, "job", handle, "--follow"]
    with (
        ChildProcess(command, env={"REDIS_URL": redis_url}) as followed,
        ChildProcess(command, env={"REDIS_URL": redis_url}) as left,
    ):
        followed.wait_for_output("queued", 60)
        start()
        followed.wait_for_output("running", 60)
        left.wait_for_output("running", 60)
        left.signal(signal.SIGINT)
        assert left.wait() == 130
        assert handle.status() == "running"
        (tmp_path / "go").touch()
        assert followed.wait() == 0
        lines = followed.output.splitlines()

    assert [re.split(r"  +", line)[1:] for line in lines] == [
        ["queued", "queue default"],
        ["running", "queue default"],
        ["done"],
    ]
    assert handle.result() == 7
    wait_until(lambda: handle.job() is None)
    client.close()
