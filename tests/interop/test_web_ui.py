"""Sidekiq's Web UI shows what our client and worker wrote, and its buttons act on it."""

import json
import time

import pytest
from support.bad_payloads import UNREADABLE, raw_of
from support.waiting import wait_until
from support.web_ui import WebUI
from support.workers import find_identity

from kiqbridge import Client

pytestmark = [pytest.mark.interop, pytest.mark.web_ui]

DIRECTION = "Python writes, Ruby's Web UI shows and acts"

MESSAGE = "no such month: <13> \u2028 \U0001f600"
JOBS = f"""
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
        raise LookupError({MESSAGE!r})


class FailOnce(Job):
    def perform(self, *args):
        path = Path(os.environ["EVIDENCE"], self.jid)
        first = not path.exists()
        testify(self.jid, args)
        if first:
            raise ValueError("the first time")
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
    """Pushes a job that fails; returns jid and the key of its row once it is in `retry` or `dead`."""

    def push(which, **item):
        given = {"class": "Billing::CloseMonth", "args": ARGS, "backtrace": True, **item}
        return wait_for_row(redis, which, client.push(given), worker)

    return push


def wait_for_row(redis, which, jid, worker):
    def find():
        return [
            score
            for member, score in redis.zrange(which, 0, -1, withscores=True)
            if jid.encode() in member
        ]

    [score] = wait_until(find, what=lambda: f"{jid} in {which}; {worker.output}")
    return jid, f"{score!r}-{jid}"


def is_in(redis, which, jid):
    return any(jid.encode() in member for member in redis.zrange(which, 0, -1))


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


@pytest.mark.operation("Busy")
def test_the_busy_page_shows_our_process_and_its_running_job(web, worker, held, redis):
    page = web.get("/busy")

    identity = find_identity(redis, worker.pid)
    host = identity.split(":")[0]
    assert f"{host}:{worker.pid}" in page.text and "shop" in page.text
    assert "kiqbridge" in page.text  # its label
    assert held in page.text and "Hold" in page.text and '"release"' in page.text


@pytest.mark.operation("Dashboard")
def test_the_dashboard_and_the_numbers_count_our_work(web, worker, held, redis):
    in_retry = redis.zcard("retry")

    numbers = json.loads(web.get("/stats").source)["sidekiq"]

    assert numbers["processes"] == 1 and numbers["busy"] >= 1
    assert numbers["retries"] == in_retry
    assert web.get("/").status == 200


@pytest.mark.operation("Queues")
def test_a_queue_page_shows_our_job_and_deletes_it(web, client, redis):
    jid = client.push(
        {"class": "Billing::CloseMonth", "args": [{"only": "here"}], "queue": "shelf"}
    )
    kept = client.push({"class": "Billing::CloseMonth", "args": ["kept"], "queue": "shelf"})
    page = web.get("/queues/shelf")
    assert '"only"=>"here"' in page.text
    assert "shelf" in web.get("/queues").text

    web.press(page.form("delete", mentions=jid), "delete")

    [left] = redis.lrange("queue:shelf", 0, -1)
    assert kept.encode() in left


@pytest.mark.operation("Retries")
def test_the_page_of_a_retry_shows_error_and_backtrace_of_python(web, in_set):
    jid, key = in_set("retry")

    page = web.get(f"/retries/{key}")

    assert (page.status, page.path) == (200, f"/retries/{key}")
    assert jid in page.text and "LookupError" in page.text
    assert "no such month: <13>" in page.text and "\U0001f600" in page.text
    assert "interop_jobs.py:" in page.text and "in 'perform'" in page.text


@pytest.mark.operation("Scheduled")
def test_the_page_of_a_scheduled_job_shows_it(web, client, redis, worker):
    jid = client.push({"class": "Later", "args": ARGS, "at": time.time() + 9000})
    _, key = wait_for_row(redis, "schedule", jid, worker)

    page = web.get(f"/scheduled/{key}")

    assert (page.status, page.path) == (200, f"/scheduled/{key}")
    assert jid in page.text and "Later" in page.text and str(2**70) in page.text


@pytest.mark.operation("Retries")
def test_retry_of_a_ticked_row_runs_only_that_job(web, client, redis, worker, evidence):
    other = client.push({"class": "FailOnce", "args": ["not ticked"]})
    wait_for_row(redis, "retry", other, worker)
    jid = client.push({"class": "FailOnce", "args": ["ticked"]})
    wait_for_row(redis, "retry", jid, worker)

    web.press(web.get("/retries").form("retry", mentions=jid), "retry", only=jid)

    assert evidence.wait(jid, 2).said == "('ticked',)"
    assert is_in(redis, "retry", other) and len(evidence.of(other)) == 1
