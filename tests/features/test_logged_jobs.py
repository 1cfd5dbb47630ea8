"""The lines of jobs on threads, on the event loop and in child processes: level, context, current attributes."""

import json

import pytest
from support.waiting import wait_until

pytestmark = pytest.mark.any_server

JOBS = """
import logging
from contextvars import ContextVar

from kiqbridge import current_attributes, job, log_context

log = logging.getLogger("shop")
tenant = ContextVar("tenant")
current_attributes.persist(tenant=tenant)

@job
def quick(number): ...

@job
def chatty(order_id):
    with log_context(order_id=order_id):
        log.debug("a detail")
        log.info("sold to %s", tenant.get("nobody"))

@job
async def chatty_async(order_id):
    with log_context(order_id=order_id):
        log.debug("a detail")
        log.info("sold to %s", tenant.get("nobody"))

@job(pool="process")
def chatty_in_a_process(order_id):
    with log_context(order_id=order_id):
        log.debug("a detail")
        log.info("sold to %s", tenant.get("nobody"))
"""
FLAGS = ("-c", "3")
ENV = {"KIQBRIDGE_LOG_FORMAT": "json"}


def entries(worker):
    """The JSON lines so far."""
    return [json.loads(line) for line in worker.output.splitlines() if line.startswith("{")]


def of_job(worker, jid):
    return [each for each in entries(worker) if each.get("ctx", {}).get("jid") == jid]


def push(client, name, *args, **options):
    return client.push({"class": name, "args": list(args), **options})


def finished(worker, *jids):
    """Wait for the last line of each, and their entries."""

    def ended():
        return all(
            any(each["msg"] in ("done", "fail") for each in of_job(worker, jid)) for jid in jids
        )

    wait_until(ended, 20, lambda: worker.output[-3000:])
    return [of_job(worker, jid) for jid in jids]


@pytest.mark.parametrize("name", ["chatty", "chatty_async", "chatty_in_a_process"])
def test_a_job_may_have_a_level_context_and_attributes_of_its_own(start, client, name):
    worker = start()

    usual, loud, unset = finished(
        worker,
        push(client, name, 1, cattr={"tenant": "acme"}),
        push(client, name, 2, log_level="debug", cattr={"tenant": "umbrella"}),
        push(client, name, 3),
    )
    quiet = push(client, name, 4, log_level=3)
    finished(worker, push(client, name, 5), push(client, "quick", 1))

    # Sorted, since the lines of two processes meet in the order in which each writes.
    said = {each["msg"]: each["ctx"].get("order_id") for each in loud}
    assert said == {"start": None, "a detail": 2, "sold to umbrella": 2, "done": None}
    assert sorted(each["msg"] for each in usual) == ["done", "sold to acme", "start"]
    assert sorted(each["msg"] for each in unset) == ["done", "sold to nobody", "start"]
    assert of_job(worker, quiet) == []
