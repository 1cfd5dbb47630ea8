"""A real worker whose task is protected, from a long job to its end."""

import signal
from functools import partial

import pytest
from support.ecs_agent import EcsAgent

pytestmark = pytest.mark.any_server

JOBS = """
import os, time
from kiqbridge import job

@job
def until_open():
    while not os.path.exists("open"):
        time.sleep(0.005)
"""
FLAGS = ("-c", "2", "-g", "shop")
ENV = {"KIQBRIDGE_BEAT_S": "0.1"}


@pytest.fixture
def start(start):
    return partial(start, ready=False)


@pytest.fixture
def agent():
    with EcsAgent() as agent:
        yield agent


@pytest.fixture
def variables(agent):
    return {"ECS_AGENT_URI": agent.uri, "KIQBRIDGE_ECS_PROTECT_AFTER_S": "0.2"}


@pytest.mark.slow
def test_term_ends_the_protection_drains_and_gives_back_before_the_kill(
    redis, start, client, agent, variables
):
    worker = start("-t", "3", **variables)
    client.push({"class": "until_open", "args": []})
    worker.wait_for(lambda: agent.is_protected, what="the protection")

    worker.signal(signal.SIGTERM)
    worker.wait_for(lambda: not agent.is_protected, what="the end of the protection")
    assert worker.is_running
    assert redis.llen("queue:default") == 0  # the job goes on

    assert worker.wait(timeout_s=3 + 10) == 0
    assert redis.llen("queue:default") == 1
    assert not redis.keys("kb:inflight*")
