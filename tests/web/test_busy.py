"""What runs: of Python and Ruby together, the longest first, iterable jobs with their progress."""

import json

import pytest
from support.running_system import OURS

from kiqbridge.api import WorkSet

pytestmark = pytest.mark.usefixtures("system")


def test_jobs_of_python_and_ruby_are_listed_the_longest_running_first(browser):
    text = browser.open("/busy").text

    names = ["Reports::Nightly", "ImportCustomers", "HardJob", "WelcomeJob", "SendMail"]
    assert [text.index(name) for name in names] == sorted(text.index(name) for name in names)
    assert "7 of 22 threads, 1 for more than 1 h" in text
    assert "2 h 5 min long" in text
    assert "Sidekiq rails-1.example.internal:2117 t1" in text


def test_what_was_taken_and_not_begun_is_listed_and_what_runs_is_not_among_it(browser):
    text = browser.open("/busy").text

    held = text[text.index("Taken and not begun") : text.index("To run alone")]
    assert held.count("SyncCustomer") == 4
    assert "SendMail" not in held
    assert "next in its thread" in held


def test_what_a_silent_worker_holds_is_marked(browser, redis):
    redis.hset("kb:alive", f"v2:{OURS}:1", "9 1000 15000")

    assert "silent goes back to its queue if its worker stays silent" in browser.open("/busy").text


def test_what_a_worker_without_a_heartbeat_may_be_stuck_in_is_marked(browser, redis):
    redis.delete(OURS, f"{OURS}:work")

    assert "no heartbeat runs, if its worker is stuck in it" in browser.open("/busy").text
    text = browser.open("/processes").text
    assert "No heartbeat of worker-1.example.internal:4711 for a minute." in text


def test_jobs_that_must_run_alone_are_named(browser):
    assert "default 1 ResizeImage" in browser.open("/busy").text


def test_where_a_thread_is_stands_beside_its_job_once_it_was_asked(browser, operator, redis):
    work = next(each for each in WorkSet(operator) if each.process == OURS)
    stack = {"run_at": work.run_at, "at": work.run_at + 5, "stack": "File x.py, in <render>"}

    redis.hset(f"kb:stacks:{OURS}", mapping={work.tid: json.dumps(stack), "other": "no json"})

    text = browser.open("/busy").text
    assert "File x.py, in <render>" in text and text.count("Stack ") == 1
