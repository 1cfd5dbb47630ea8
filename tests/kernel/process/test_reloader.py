"""`kiqbridge worker --reload`: the real command, while its code changes."""

import argparse
import json
import signal

import pytest
from support.workers import WorkerProcess

from kiqbridge.commands import worker_command
from kiqbridge.commands.reloader import arguments_of, check
from kiqbridge.config.merge import merge
from kiqbridge.errors import ConfigError

PATIENT_S = 60
"""Two workers start one after the other, on a machine that may be busy."""

JOB = """
import time
from kiqbridge import job

@job
def work(seconds):
    print("VERSION begins", flush=True)
    time.sleep(seconds)
    print("VERSION ends", flush=True)
"""


def push(redis, seconds, jid):
    item = {"class": "work", "args": [seconds], "jid": jid, "queue": "default", "retry": True}
    redis.lpush("queue:default", json.dumps(item))


def put(path, text):
    """Write a file in one step, as editors do: the worker never reads a half."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


@pytest.mark.slow
def test_code_that_changes_runs_and_no_job_is_lost(redis, redis_url, tmp_path):
    code = tmp_path / "reload_jobs.py"
    code.write_text(JOB.replace("VERSION", "first"))
    with WorkerProcess(
        "-r", "reload_jobs", "-t", "0.2", "-q", "default", "--reload",
        redis_url=redis_url, cwd=tmp_path,
    ) as worker:  # fmt: skip
        push(redis, 600, "a" * 24)
        worker.wait_for_output("first begins", PATIENT_S)

        put(code, "def (\n")
        worker.wait_for_output(
            "cannot be compiled; the worker continues with the former code", PATIENT_S
        )
        assert redis.llen("queue:default") == 0

        second = JOB.replace("VERSION", "second")
        put(code, second.replace("(seconds)\n    print", "(0)\n    print"))
        worker.wait_for_output(
            "the worker is restarted; running jobs end or are given back", PATIENT_S
        )
        # The job that the first one has given back.
        worker.wait_for_output("second ends", PATIENT_S)

        worker.signal(signal.SIGTERM)
        assert worker.wait(PATIENT_S) == 0
    assert redis.smembers("processes") == set()


def options(*words):
    parser = argparse.ArgumentParser()
    worker_command.add_arguments(parser)
    return parser.parse_args(words)


def test_the_worker_gets_all_flags_but_this_one():
    given = options("-r", "a", "-r", "b", "-q", "x,2", "-c", "3", "-v", "--reload", "-C", "x.yml")

    words = arguments_of(given)

    assert {**vars(options(*words)), "reload": True} == vars(given)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"processes": "2"}, "--reload runs one process"),
        ({"max_memory_mb": "100"}, "--reload runs one process"),
        ({"environment": "production"}, "--reload is for development"),
    ],
)
def test_it_is_refused_where_it_makes_no_sense(flags, message):
    config = merge(file={}, file_name="", environ={}, flags=flags)

    with pytest.raises(ConfigError, match=message):
        check(config)
