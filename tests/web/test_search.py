"""One search for all pages: an expression, what it finds everywhere, and where a jid leads."""

import time

import pytest
from support.web_jobs import failed, job

from kiqbridge.api import Filter
from kiqbridge.api.filters import parse_search
from kiqbridge.errors import PayloadError


@pytest.mark.parametrize(
    ("expression", "where"),
    [
        ("", Filter()),
        ("class:Mail* error:timeout", Filter(job_class="Mail*", error="timeout")),
        (
            "queue:low older:2h newer:1d",
            Filter(queue="low", older_than_s=7200.0, newer_than_s=86_400.0),
        ),
        ("class:Billing::Invoice", Filter(job_class="Billing::Invoice")),
        ("Billing::Invoice", Filter(text="Billing::Invoice")),
        ("https://example.com", Filter(text="https://example.com")),
        ('error:"no reply" tag:vip', Filter(error="no reply", tag="vip")),
        ('"class:x" y', Filter(text="class:x y")),
        (r'arg:"a \"b\" \\"', Filter(arg='a "b" \\')),
    ],
)
def test_an_expression_is_a_filter_and_is_written_as_one(expression, where):
    assert parse_search(expression) == where
    assert parse_search(str(where)) == where


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("clas:Mail", "clas: there is no such name to search by; there are class, error_class, "),
        ("class:A class:B", "class: it is given twice"),
        ("one text:two", "text: it is given twice"),
        ("older:soon", "older: 'soon' is no duration; write 90, 90s, 15m, 2h or 1d"),
    ],
)
def test_what_cannot_be_meant_is_refused(expression, why):
    with pytest.raises(PayloadError, match=why):
        parse_search(expression)


def test_a_search_looks_into_sets_and_queues_and_links_to_all_of_each(browser, redis):
    redis.zadd("dead", {failed(f"d{number}"): float(number) for number in range(7)})
    redis.zadd("retry", {failed("r", "Other"): 1.0})
    redis.sadd("queues", "mail", "slow")
    redis.lpush("queue:mail", job("q1"), job("q2", "Other"))

    page = browser.open("/search?q=class:Mail")

    assert "Dead 7" in page.text and "All 7" in page.text
    assert "mail 1" in page.text and "Retries 1" not in page.text
    assert {"/dead?q=class%3AMail", "/queues/mail?q=class%3AMail"} <= set(page.links)
    assert sum(link.startswith("/jobs/") for link in page.links) == 6
    assert "Queues: slow" in browser.open("/search?q=slow").text
    assert "No job is found." in browser.open("/search?q=class:Never").text


@pytest.mark.parametrize("path", ["/search?q=", "/dead?q=jid:", "/queues/x?q=%20jid:"])
def test_a_jid_leads_to_its_job_from_everywhere(browser, redis, path):
    jid = "0123456789abcdef01234567"
    redis.zadd("dead", {failed(jid): time.time() - 10})

    assert "The job is dead." in browser.open(f"{path}{jid}").text


def test_a_viewer_finds_a_job_by_its_jid_and_guesses_nothing_of_arguments(viewer, redis):
    jid = "0123456789abcdef01234567"
    redis.zadd("dead", {failed(jid): time.time() - 10})

    assert "The job is dead." in viewer.open(f"/search?q={jid}").text
    assert "hidden from the role viewer" in viewer.open("/search?q=hunter", status=403).text
