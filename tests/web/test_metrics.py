"""Metrics: classes by time, with percentiles and deployments; one class with its histogram."""

import json
import re
import time

import pytest
from support.running_system import System, fill_metrics
from support.waiting import wait_until
from support.web_jobs import failed

from kiqbridge.api import class_histograms, job_metrics, read_audit
from kiqbridge.features.dynamic.schedule import Schedule
from kiqbridge.features.dynamic.schedules import Schedules
from kiqbridge.web.shown import NONE


@pytest.fixture
def system(redis) -> System:
    system = System(server=redis)
    fill_metrics(system)
    return system


def test_without_measurements_the_page_says_when_there_would_be_some(browser, redis):
    redis.sadd("processes", "h:1:a")
    redis.hset("h:1:a", mapping={"info": "{}", "beat": time.time() - 45})
    text = browser.open("/metrics").text
    assert "Nothing was measured." in text
    assert re.search(r"the oldest of the last ones came (4|5)\d s ago\.", text)
    assert "It has not run." in browser.open("/metrics/Mail").text


def test_classes_are_listed_with_percentiles_and_deployments_in_each_span(
    browser, operator, system
):
    for span, marks in (("1h", 1), ("4h", 2), ("8h", 2), ("24h", 2), ("72h", 2)):

        def marked(span=span, marks=marks):
            page = browser.open(f"/metrics?span={span}")
            return page if page.html.count('class="plot-mark"') == marks else None

        page = wait_until(marked, what=span)  # a clock that was set shows another hour
        assert "Executions of all classes, per " in page.text
        assert [link for link in page.links if "/metrics/BillingInvoice" in link]

    def took():
        return f"{job_metrics('SendMail', 60, operator=operator).histogram.p50:.0f} ms"

    before = took()
    row = browser.open("/metrics").text.partition("SendMail")[2]
    assert before in row or took() in row  # a minute may end in between


@pytest.mark.usefixtures("system")
def test_a_filter_is_a_link_and_narrows_plots_and_rows(browser):
    page = browser.open("/metrics?q=nightly")

    assert "of 1 class" in page.text
    assert "Reports::Nightly" in page.text and "SendMail" not in page.text
    assert "No such class has run." in browser.open("/metrics?q=gone").text


@pytest.mark.usefixtures("system")
def test_a_class_has_a_page_with_its_histogram_and_links_to_its_jobs(browser):
    page = browser.open("/metrics/Reports::Nightly?span=8h")

    assert "How long executions took, in the last 8 h" in page.text
    assert "plot-percentile" in page.html
    assert "/dead?q=class:Reports::Nightly" in [link.replace("%3A", ":") for link in page.links]
    assert browser.open("/metrics/Reports::Nightly?span=72h").html.count('class="plot-bar"') == 26


@pytest.mark.usefixtures("system")
def test_several_histograms_are_those_of_each_class_alone(operator):
    names = ["SendMail", "BillingInvoice", "Gone"]

    together = class_histograms(names, 240, operator=operator)

    assert together == {name: job_metrics(name, 240, operator=operator).histogram for name in names}
    assert class_histograms([], operator=operator) == {}


def test_a_class_that_only_failed_has_a_page_without_durations(browser, redis, system):
    for key in redis.scan_iter("j|*"):
        if redis.type(key) == b"hash":
            redis.hset(key, mapping={"Broken|p": 5, "Broken|f": 5})

    redis.zadd("dead", {failed("j1", "Broken", "OSError"): time.time()})
    text = browser.open("/metrics/Broken").text

    assert "Errors of the last 1 that died" in text and "Broken OSError OSError of j1 1" in text
    assert f"{NONE} average" in text and f"{NONE} p50" in text


@pytest.mark.usefixtures("system")
def test_the_sum_of_a_plot_is_that_of_the_card(browser):
    text = browser.open("/metrics/SendMail").text

    card = re.search(r"([\d,]+) executions", text)[1]
    assert f"executions {card}" in text.partition("Executions of SendMail, per")[2]


def test_a_class_is_paused_and_resumed_there_and_shown_where_its_jobs_are(browser, operator, redis):
    job = json.dumps({"class": "Mail", "args": [], "jid": "a" * 24})
    wrapped = json.dumps({"class": "Wrapper", "wrapped": "Mail", "args": [], "jid": "b" * 24})
    redis.sadd("queues", "low")
    redis.lpush("queue:low", job)
    redis.zadd("retry", {wrapped: time.time() + 99})
    redis.zadd("schedule", {job.replace("a" * 24, "c" * 24): time.time() + 99})
    redis.zadd("dead", {job.replace("a" * 24, "d" * 24): 1})
    Schedules(operator.client).save(Schedule("nightly", "Mail", cron="0 3 * * *"))
    places = ["queues/low", "retries", "scheduled", "schedules", "schedules/nightly"]
    places.append(f"jobs/{'a' * 24}")
    waiting = f"/jobs/{'b' * 24}"
    assert not any("is paused" in browser.open(f"/{each}").text for each in places)
    page = browser.open("/metrics/Mail")
    asked = {"csrf": page.fields["csrf"], "reason": "migration", "for_s": "600"}

    said = browser.request("POST", "/metrics/Mail", data={**asked, "action": "pause"}).text

    [pause] = operator.pauses()
    assert (pause.kind, pause.name, pause.reason) == ("class", "Mail", "migration")
    assert pause.until == pytest.approx(time.time() + 600, abs=60)
    assert "Mail is paused for 10 min." in said
    assert "Paused. Our workers put its jobs off" in browser.open("/metrics/Mail").text
    for each in places:
        page = browser.open(f"/{each}")
        assert (
            "Mail is paused. Our workers put its jobs off: migration; by ann@example.com"
            in page.text
        )
        assert (
            "form",
            {"method": "post", "action": "/metrics/Mail", "class": "inline"},
        ) in page.tags
    page = browser.open(waiting).text
    assert "It waits: class Mail is paused by ann@example.com: migration." in page
    assert "Class Resume" in page
    assert "is paused" not in browser.open("/dead").text
    assert [each.action for each in read_audit(operator)] == ["pause"]

    said = browser.request("POST", "/metrics/Mail", data={**asked, "action": "resume"}).text
    assert "Mail runs again." in said
    assert operator.pauses() == []
