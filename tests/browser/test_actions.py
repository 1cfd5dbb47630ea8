"""A selection and a form, used in a real browser and checked in Redis; tests/web has every action."""

import json

import pytest
from support.waiting import wait_until

pytestmark = pytest.mark.browser


def choose(view, text):
    """Choose the rows of jobs with this text; how many they are."""
    rows = view.page.query_selector_all(f"tr:has(a[href*='/jobs/']):has-text('{text}')")
    for row in rows:
        row.query_selector("input[name=key]").check()
    return len(rows)


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


def test_chosen_dead_jobs_are_deleted(view, shop):
    before = shop.redis.zcard("dead")
    view.go("/dead?q=class:ResizeImage")
    chosen = choose(view, "ResizeImage")
    press(view, "delete")

    assert chosen > 1
    assert shop.redis.zcard("dead") == before - chosen


def test_a_queue_is_resumed_and_paused(view, shop):
    view.go("/queues/low")
    view.page.click("button:text-is('Resume')")
    wait_until(lambda: not shop.redis.sismember("paused", "low"))
    view.page.fill("input[name=reason]", "again")
    with view.page.expect_navigation():
        view.page.click("button[value=pause]")

    assert shop.redis.sismember("paused", "low")
    assert json.loads(shop.redis.hget("kb:paused", "queue:low"))["reason"] == "again"
