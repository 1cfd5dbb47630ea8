"""The first screen: a verdict before all, then counts, throughput, what comes, who died."""

from support.running_system import System, fill, fill_queues

from kiqbridge.api import top_jobs
from kiqbridge.web.context import build_templates
from kiqbridge.web.pages.now import rate_per_minute


def test_an_empty_redis_says_where_to_start(browser, redis):
    page = browser.open("/")

    assert "Start here" in page.text
    assert "kiqbridge worker -r jobs" in page.text
    assert "All is well" not in page.text


def test_jobs_that_nobody_performs_are_the_first_that_is_seen(browser, redis):
    fill_queues(System(server=redis), 3)

    page = browser.open("/")

    assert page.text.index("critical No worker lives, and 3 jobs wait") < page.text.index("Latency")
    assert "Start one: kiqbridge worker." in page.text
    assert "/processes" in page.links


def test_a_fact_has_no_link_where_no_feature_brings_its_page(browser, redis, monkeypatch):
    fill_queues(System(server=redis), 3)
    monkeypatch.setitem(build_templates().tests, "served", lambda _link: False)

    page = browser.open("/")

    assert "critical No worker lives, and 3 jobs wait" in page.text
    assert page.links.count("/processes") == 3  # group, keys, and the number of processes


def test_a_running_system_is_shown_at_a_glance(browser, redis, redis_url):
    fill(redis_url, dead=7, queued=12)

    page = browser.open("/")

    assert "12 waiting in" in page.text
    assert "32 % 7 of 22 threads busy" in page.text
    assert "executions in the last hour" in page.text
    assert "34 retries" in page.text and "26 scheduled" in page.text
    assert "7 dead" in page.text and "3 processes" in page.text
    assert page.html.count('class="sparkline"') >= 3
    assert "Next schedules" in page.text and "in " in page.text
    assert "/schedules/nightly-report" in page.links
    assert sum(link.startswith("/jobs/") for link in page.links) == 5  # the latest deaths
    assert ("7 jobs died within the last hour" in page.text) or "ticks of" in page.text


def test_the_rate_is_of_the_last_five_whole_minutes(operator, redis):
    now = 1_795_348_800.0
    for minute, count in (("11:59", 50), ("11:56", 10), ("11:54", 1000), ("12:00", 1000)):
        redis.hset(f"j|261122|{minute}", mapping={"Mail|p": count, "Mail|ms": 1})

    assert rate_per_minute(top_jobs(60, operator=operator, now=now + 7)) == 12
