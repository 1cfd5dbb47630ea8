"""Sources: stacks, mappings, deliveries that were enqueued once."""

import json
import time

import pytest

from kiqbridge.api.sources import fetch_sources, parse_guard
from kiqbridge.wire.guards import DAY_S, Identity, Source, event_identity, guard_field


def test_what_is_not_configured_is_said_plainly(browser, redis, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    text = browser.open("/sources").text

    assert "No stack has published its schedules." in text
    assert "No delivery is remembered." in text


def test_deliveries_are_listed_with_source_class_and_job(browser, operator, redis):
    operator.client.push_once([{"class": "Mail", "args": []}], [event_identity("event-1")])

    page = browser.open("/sources")

    assert "1 remembered" in page.text
    assert "event 1" in page.text
    [guard] = fetch_sources(operator).latest
    assert (guard.source, guard.job_class, guard.name) == ("event", "Mail", "event-1")
    assert guard.enqueued_at == pytest.approx(time.time(), abs=60)
    assert guard.until - guard.enqueued_at == 17 * DAY_S
    assert f"/jobs/{guard.jid}" in page.links


@pytest.mark.parametrize(
    ("identity", "job_class", "name", "queue"),
    [
        ("order-5", "Mail", "order-5", "default"),
        ("12:30", "A:B", "12:30", "low"),
        (Identity(Source.SQS, ("arn:aws:sqs:x", "id-1")), "Mail", "arn:aws:sqs:x id-1", "low"),
        (Identity(Source.HTTP, ("key",)), "", "key", "low"),
    ],
)
def test_a_guard_is_read_back_from_its_name(identity, job_class, name, queue):
    guard = parse_guard(guard_field(identity, job_class, queue), "1700000000 jid")

    assert (guard.job_class, guard.name, guard.jid) == (job_class, name, "jid")


def test_a_guard_whose_name_was_too_long_is_still_counted():
    guard = parse_guard(guard_field("x" * 400, "Mail"), "soon jid")

    assert (guard.source, guard.enqueued_at, guard.until) == ("", None, 0.0)


def test_stacks_show_what_they_published(browser, redis):
    manifest = {
        "version": 7,
        "hash": "h",
        "published_at": time.time() - 60,
        "by": "lambda",
        "names": ["shop/A", "shop/B"],
        "newest": 8,
        "rolled_back_from": 8,
    }
    redis.hset("kb:manifests", "shop", json.dumps(manifest))

    page = browser.open("/sources")

    assert "shop 2 7 rolled back" in page.text
    assert "/schedules?q=shop%2F" in page.links
