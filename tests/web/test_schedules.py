"""Schedules: next runs in both zones, what became of the last ones, and run, pause, resume, skip."""

import time
from xml.etree import ElementTree as ET

import pytest
from support.running_system import System, fill_schedules

from kiqbridge.api import ScheduleSet, find_job, read_audit
from kiqbridge.web.pages.schedules import zoned

pytestmark = pytest.mark.usefixtures("schedules")


@pytest.fixture
def schedules(redis, operator):
    fill_schedules(System(server=redis), operator.client)


def test_schedules_are_listed_the_next_first_in_their_zone_and_the_viewers(browser, operator):
    browser.cookies.set("kiqbridge_zone", "Asia/Tokyo")
    page = browser.open("/schedules")

    by_place = sorted(ScheduleSet(operator), key=lambda each: page.text.index(each.name))
    assert [each.next_at for each in by_place] == sorted(
        (each.next_at for each in by_place), key=lambda at: (at is None, at)
    )
    assert "0 3 * * * Europe/Paris" in page.text
    row = page.text[page.text.index("nightly-report") :]
    assert "03:00 CE" in row
    assert ("11:00 JST" in row) or ("10:00 JST" in row)
    assert "1 skipped before" in page.text
    assert "the disk is being moved; by ana@example.com" in page.text


def test_the_last_ticks_are_signs_that_say_in_words_what_they_are(browser):
    html = browser.open("/schedules").html

    begin = html.rindex('<svg class="ticks"', 0, html.index("sync-customers: "))
    strip = ET.fromstring(html[begin : html.index("</svg>", begin) + 6])
    assert strip.get("aria-label") == (
        "sync-customers: 15 on time, 1 late, 1 delivered again, and suppressed, 1 missed, "
        "1 missed at first, then caught up, 1 paused or skipped; 1 with a job that died"
    )
    titles = [each.text for each in strip.iter("title")]
    assert any(title.endswith("late, 3 min 32 s late, done") for title in titles)
    assert any("duplicate, delivered 3 times" in title for title in titles)


def test_the_list_is_filtered_by_what_people_know(browser):
    assert "nightly-report" not in browser.open("/schedules?q=syncCustomer").text
    assert "No schedule matches." in browser.open("/schedules?q=nothing").text
    assert "clean-up" in browser.open("/schedules?q=paused").text


def test_a_schedule_has_a_page_with_its_history(browser, operator):
    page = browser.open("/schedules/nightly-report")

    assert "Sales of the day before" in page.text
    assert "If one still runs it is skipped" in page.text
    assert "350 ms in the middle, 40 min at most" in page.text
    assert page.text.count("03:00 CE") >= 10 + 20
    occurrence = ScheduleSet(operator).find("nightly-report").occurrences[0]
    assert any(each.startswith(f"/jobs/{occurrence.jids[0]}?schedule=") for each in page.links)


def test_it_is_run_now(browser, operator, redis):
    answer = browser.send("/schedules/act", form_at="/schedules", name="invoices", action="run")

    assert "invoices was run besides its occurrences: 1 job enqueued" in answer.text
    jid = answer.text.partition("enqueued, ")[2][:24]
    assert [each.job.job_class for each in find_job(jid, operator)] == ["BillingInvoice"]
    assert read_audit(operator)[0].action == "run"


def test_it_is_paused_with_a_reason_and_resumed(browser, operator):
    answer = browser.send(
        "/schedules/act",
        form_at="/schedules",
        name="invoices",
        action="pause",
        reason="<closing>",
        for_s="3600",
    )

    assert "invoices is paused for 1 h" in answer.text
    assert "<closing>; by" in answer.text
    pause = ScheduleSet(operator).find("invoices").pause
    assert pause.until == pytest.approx(time.time() + 3600, abs=60)

    answer = browser.send("/schedules/act", form_at="/schedules", name="invoices", action="resume")

    assert "invoices fires again from now on" in answer.text
    assert ScheduleSet(operator).find("invoices").pause is None


def test_the_end_of_a_pause_is_on_the_viewers_clock(browser, operator):
    browser.cookies.set("kiqbridge_zone", "Asia/Tokyo")

    browser.send(
        "/schedules/act",
        form_at="/schedules",
        name="invoices",
        action="pause",
        until="2031-05-01T09:00",
    )

    assert ScheduleSet(operator).find("invoices").pause.until == 1_935_360_000


def test_its_next_occurrence_is_skipped(browser, operator):
    before = ScheduleSet(operator).find("invoices").next_at

    answer = browser.send("/schedules/act", form_at="/schedules", name="invoices", action="skip")

    assert "invoices does not fire at 20" in answer.text
    assert ScheduleSet(operator).find("invoices").skipped == [before]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"name": "invoices", "action": "delete"}, 400),
        ({"name": "gone", "action": "run"}, 404),
        ({"name": "invoices", "action": "pause", "for_s": "long"}, 400),
        ({"name": "invoices", "action": "pause", "until": "soon"}, 400),
        ({"name": "invoices", "action": "pause", "until": "2001-01-01T00:00"}, 400),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(browser, operator, fields, status):
    browser.send("/schedules/act", status, form_at="/schedules", **fields)

    assert ScheduleSet(operator).find("invoices").pause is None
    assert read_audit(operator) == []


@pytest.mark.parametrize(
    ("at", "zone", "expected"),
    [
        (1_795_348_800, "Europe/Paris", "Sun 2026-11-22 13:00 CET"),
        (1_795_348_805, "", "Sun 2026-11-22 12:00:05 UTC"),
        (1_795_348_800, "No/Where", "Sun 2026-11-22 12:00 UTC"),
    ],
)
def test_an_instant_is_shown_on_the_clock_of_a_zone(at, zone, expected):
    assert zoned(at, zone) == expected
