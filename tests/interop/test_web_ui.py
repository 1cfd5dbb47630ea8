"""Sidekiq's Web UI shows what our client and worker wrote, and its buttons act on it."""

import json
import time

import pytest
from support.bad_payloads import UNREADABLE, raw_of
from support.waiting import wait_until
from support.web_ui import WebUI

from kiqbridge import Client

pytestmark = [pytest.mark.interop, pytest.mark.web_ui]

DIRECTION = "Python writes, Ruby's Web UI shows and acts"

JOBS = """
import time
from pathlib import Path
import os

from kiqbridge import Job
from support.evidence import testify


class Hold(Job):
    def perform(self, release):
        testify(self.jid, "began")
        while not Path(os.environ["EVIDENCE"], release).exists():
            time.sleep(0.01)
        testify(self.jid, "finished")


class CloseMonth(Job):
    class_name = "Billing::CloseMonth"

    def perform(self, *args):
        testify(self.jid, args)
        raise LookupError("no such month")

"""
ARGS = [2**70, "<b>bold</b>", {"day": None}]
PATHS = ("/", "/busy", "/queues", "/queues/parked", "/retries", "/scheduled", "/morgue")


@pytest.fixture(scope="module")
def client(server):
    client = Client(server.url)
    yield client
    client.close()


@pytest.fixture(scope="module")
def worker(server, client, evidence, python_worker):
    """Ours, with one job running, one waiting for its retry and one dead; others wait and are due later."""
    with python_worker(JOBS, "-c", "2", "-g", "shop") as worker:
        yield worker
        (evidence.folder / "release").touch()


@pytest.fixture(scope="module")
def held(worker, client, evidence):
    jid = client.push({"class": "Hold", "args": ["release"], "tags": ["month-end"]})
    evidence.wait(jid)
    return jid


@pytest.fixture(scope="module")
def web(server, worker, held):
    with WebUI(server.url) as web:
        web.wait_ready()
        wait_until(lambda: held in web.get("/busy").text, what="the running job on the Busy page")
        yield web


@pytest.fixture
def in_set(worker, client, redis):
    """Pushes a job that fails, and waits until it is in `retry` or `dead`."""

    def push(which, **item):
        given = {"class": "Billing::CloseMonth", "args": ARGS, "backtrace": True, **item}
        jid = client.push(given).encode()
        wait_until(
            lambda: any(jid in member for member in redis.zrange(which, 0, -1)),
            what=lambda: f"{jid} in {which}; {worker.output}",
        )

    return push


@pytest.mark.operation("all pages")
def test_every_page_renders_on_our_data(web, client, in_set):
    client.push({"class": "Billing::CloseMonth", "args": ARGS, "queue": "parked"})
    client.push({"class": "Billing::CloseMonth", "args": ARGS, "at": time.time() + 9000})
    in_set("retry")
    in_set("dead", retry=0)

    pages = {path: web.get(path) for path in PATHS}

    assert {path: page.status for path, page in pages.items()} == dict.fromkeys(PATHS, 200)
    for path in ("/queues/parked", "/retries", "/scheduled", "/morgue"):
        assert "Billing::CloseMonth" in pages[path].text, path
        assert str(2**70) in pages[path].text and "<b>bold</b>" in pages[path].text, path
        assert "<b>bold</b>" not in pages[path].source, path
    assert "Error" not in web.output


@pytest.mark.operation("Dead")
def test_the_dead_page_shows_what_nobody_can_read(web, redis, worker):
    too_long = b'{"class":"Long","args":[' + b"[]," * 4_000_000 + b'[]],"jid":"too-long"}'
    texts = [*UNREADABLE.values(), too_long]
    redis.delete("dead")
    redis.lpush("queue:default", *texts[::2])
    redis.zadd("schedule", dict.fromkeys(texts[1::2], 1.0))
    wait_until(lambda: redis.zcard("dead") == len(texts), 60, what=lambda: worker.output)
    rows = redis.zrange("dead", 0, -1, withscores=True)

    pages = [web.get(f"/morgue?page={number}") for number in (1, 2)]
    each = [web.get(f"/morgue/{score!r}-{json.loads(member)['jid']}") for member, score in rows]

    assert [page.status for page in [*pages, *each]] == [200] * (2 + len(texts))
    assert sum(page.text.count("Unreadable") for page in pages) == len(texts)
    assert "max_payload_bytes" in pages[0].text + pages[1].text
    assert sorted(raw_of(member) for member, _ in rows) == sorted(texts)
    redis.delete("dead")
