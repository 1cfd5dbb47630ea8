"""Every kind of action, done in a real browser and checked in Redis."""

import json

import pytest
from support.operated import STOCK
from support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.interop]


def choose(view, text):
    """Choose the rows of jobs with this text."""
    for row in view.page.query_selector_all(f"tr:has(a[href*='/jobs/']):has-text('{text}')"):
        row.query_selector("input[name=key]").check()


def press(view, action):
    """A button of the selection, and the question if there is one."""
    with view.page.expect_navigation():
        view.page.click(f"button[name=action][value={action}]")
    confirm(view)


def confirm(view):
    if view.page.query_selector("input[name=confirmed]"):
        with view.page.expect_navigation():
            view.page.click("main form button")
    assert view.page.query_selector("[data-notice]"), view.text[:300]


def jobs(redis, key):
    members = redis.lrange(key, 0, -1) if key.startswith("queue:") else redis.zrange(key, 0, -1)
    return [json.loads(member) for member in members]


def classes(redis, key):
    return [job["class"] for job in jobs(redis, key)]


def test_chosen_dead_jobs_are_deleted(view, shop):
    view.go("/dead")
    choose(view, "RubyGone")
    press(view, "delete")

    assert "RubyGone" not in classes(shop.redis, "dead")
    assert classes(shop.redis, "dead").count("SendInvoice") == 3


def test_a_queue_is_resumed_and_paused(view, shop):
    view.go("/queues/bulk")
    view.page.click("button:text-is('Resume')")
    wait_until(lambda: not shop.redis.sismember("paused", "bulk"))
    view.page.fill("input[name=reason]", "again")
    with view.page.expect_navigation():
        view.page.click("button[value=pause]")

    assert shop.redis.sismember("paused", "bulk")
    assert json.loads(shop.redis.hget("kb:paused", "queue:bulk"))["reason"] == "again"


def test_a_job_is_edited_and_pushed(view, shop):
    view.go("/dead?class=SendInvoice")
    view.page.click("a[href*='/jobs/']:has-text('SendInvoice') >> nth=0")
    view.page.click("#edit summary")
    view.page.fill("textarea[name=args]", '["edited", "goodbye"]')
    view.page.fill("#edit input[name=queue]", "edited")
    with view.page.expect_navigation():
        view.page.click("button[value=requeue]")

    assert jobs(shop.redis, "queue:edited")[0]["args"] == ["edited", "goodbye"]


def test_a_schedule_is_run_paused_resumed_and_skipped(view, shop):
    queued = int(shop.redis.get("stat:processed"))
    row = f"tr:has(a:has-text('{STOCK}'))"
    steps = (
        ("Run now", "Run "),
        ("Pause", "Pause "),
        ("", "Resume"),
        ("Skip next", "Skip the next"),
    )
    for summary, button in steps:
        view.go("/schedules")
        if summary:
            view.page.click(f"{row} summary:has-text('{summary}')")
        with view.page.expect_navigation():
            view.page.click(f"{row} button:has-text('{button}') >> visible=true")
        if summary == "Pause":
            assert "paused" in json.loads(shop.redis.hget("kb:schedules:state", STOCK))

    wait_until(lambda: int(shop.redis.get("stat:processed")) > queued, 20, "its job to run")
    state = json.loads(shop.redis.hget("kb:schedules:state", STOCK))
    assert "paused" not in state
    assert len(state["skipped"]) == 1


def test_a_process_is_made_quiet_and_dumps_its_threads(view, shop):
    view.go("/processes")
    row = "tbody tr:has(a:has-text('billing'))"
    with view.page.expect_navigation():
        view.page.click(f"{row} button:has-text('Dump threads')")
    wait_until(lambda: "sync_inventory" in shop.worker.output, 20, "its threads in its log")
    view.page.click(f"{row} summary:has-text('Quiet')")
    with view.page.expect_navigation():
        view.page.click(f"{row} button:has-text('Quiet ') >> visible=true")

    def is_quiet():
        identities = shop.redis.smembers("processes")
        return b"true" in [shop.redis.hget(name, "quiet") for name in identities]

    wait_until(is_quiet, 20, "a quiet process")
