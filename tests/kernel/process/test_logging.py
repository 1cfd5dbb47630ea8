"""What a real worker says on standard output: every job's lines, in order, and no secret."""

import json
from collections import Counter

import pytest
from support.waiting import wait_until

JOBS = """
from kiqbridge import job

@job
def quick(number): ...

@job
def crash():
    import ctypes
    ctypes.string_at(0)
"""
MANY = 3_000


FLAGS = ("-c", "3")
ENV = {"KIQBRIDGE_LOG_FORMAT": "json"}


@pytest.mark.parametrize("form", ["json", "plain"])
def test_every_job_has_its_two_lines_and_an_orderly_end_loses_none(start, client, redis, form):
    worker = start(KIQBRIDGE_LOG_FORMAT=form)

    jids = client.push_bulk({"class": "quick", "args": [[number] for number in range(MANY)]})
    wait_until(lambda: redis.llen("queue:default") == 0, 30, "an empty queue")
    assert worker.stop() == 0

    said = Counter()
    for line in worker.output.splitlines():
        if form == "json" and line.startswith("{"):
            entry = json.loads(line)
            said[entry.get("ctx", {}).get("jid"), entry["msg"]] += 1
        elif form == "plain" and " jid=" in line:
            said[line.split(" jid=")[1].split()[0], line.rpartition(": ")[2]] += 1
    given_back = {json.loads(text)["jid"] for text in redis.lrange("queue:default", 0, -1)}
    wanted = [0 if jid in given_back else 1 for jid in jids]
    assert [said[jid, "start"] for jid in jids] == wanted
    assert [said[jid, "done"] for jid in jids] == wanted
    assert sum(wanted) > MANY / 2


def test_a_worker_that_dies_in_c_says_in_which_job(start, client):
    worker = start()

    client.push({"class": "crash", "args": []})

    worker.wait_for_output("Segmentation fault")
    worker.wait_for_output("in crash")
