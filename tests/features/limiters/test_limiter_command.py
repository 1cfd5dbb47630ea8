"""`kiqbridge limiter`: what it lists, resets and asks."""

import json
import time

import pytest
from support.waiting import wait_until

from kiqbridge.client.current import CONTEXT
from kiqbridge.errors import OverLimit
from kiqbridge.features.limiters.doctor import examine
from kiqbridge.features.limiters.overview import list_limiters
from kiqbridge.features.limiters.store import Asked, note_terms
from kiqbridge.flow import limiter
from kiqbridge.wire.measures import minute_8

PAYLOAD = {"class": "Post", "jid": "b4a577edbccf1d805744efa9", "args": []}


@pytest.fixture
def taken(client, redis):
    """One lock, and two places of a window."""
    window = limiter.window("stripe", 5, per="day", client=client)
    for _ in range(2):
        with window.within_limit():
            pass
    token = CONTEXT.set((PAYLOAD, "default"))
    try:
        with limiter.concurrent("erp", 1, client=client).within_limit():
            wait_until(lambda: redis.zcard("kb:limiters") == 2)
            yield
    finally:
        CONTEXT.reset(token)


@pytest.fixture
def refused(client):
    """The same job over the limit of another one, and a caller outside of a job."""
    erp = limiter.concurrent("erp", 1, client=client, wait_timeout_s=0)
    with pytest.raises(OverLimit), erp.within_limit():
        pass


def test_without_any_it_says_so(run):
    assert run("limiter", "list") == (0, "No limiter was used within the last day.\n", "")


@pytest.mark.usefixtures("taken")
def test_each_has_a_line(run):
    code, out, _ = run("limiter", "list")

    assert code == 0
    assert sorted(line.split()[:5] for line in out.splitlines()[1:]) == [
        ["concurrent", "erp", "1", "1", "0"],
        ["window", "stripe", "2", "5", "0"],
    ]


@pytest.mark.usefixtures("taken")
def test_as_json(run):
    listed = json.loads(run("limiter", "list", "--json")[1])["limiters"]

    assert sorted((each["kind"], each["name"], each["used"], each["full"]) for each in listed) == [
        ("concurrent", "erp", 1, True),
        ("window", "stripe", 2, False),
    ]


@pytest.mark.usefixtures("taken", "refused")
def test_one_is_shown_with_its_owner_and_who_waits(run, browser):
    out = run("limiter", "show", "concurrent", "erp")[1].splitlines()

    assert out[0] == "concurrent erp: 1 of 1 used, full, 1 wait"
    assert out[1].startswith(f"held by     Post {PAYLOAD['jid']}")
    assert out[2] == f"waits       {PAYLOAD['jid']}"
    page = browser.open("/limiters/concurrent/erp")
    assert "Full." in page.text
    assert page.links.count(f"/jobs/{PAYLOAD['jid']}") == 2
    assert run("limiter", "show", "window", "none")[0] == 1


@pytest.mark.usefixtures("taken", "refused")
def test_whoever_has_entered_waits_no_more(client, run, redis):
    redis.delete("kb:limit:concurrent:erp")
    token = CONTEXT.set(({**PAYLOAD, "kb_over_limit": 1}, "default"))
    with limiter.concurrent("erp", 1, client=client).within_limit():
        assert not redis.exists("kb:waits:concurrent:erp")
    CONTEXT.reset(token)


@pytest.mark.usefixtures("taken")
def test_the_page_lists_them_and_resets_one(browser, redis):
    text = browser.open("/limiters").text
    assert "erp concurrent, 1 at once 1 of 1 full 0 as locks are given back" in text
    assert "stripe window, 5 in 1 d 2 of 5 has room 0 in" in text

    answer = browser.send("/limiters/concurrent/erp", action="reset")

    assert "is reset: all of it is free" in answer.text
    assert not redis.exists("kb:limit:concurrent:erp")


def test_a_page_of_many_takes_no_more_round_trips_than_one_of_few(operator, redis, trips):
    for count in (60, 3000):
        names = {f"concurrent user-{number}": number for number in range(count)}
        redis.zadd("kb:limiters", names)
        redis.hset("kb:limiters:terms", mapping=dict.fromkeys(names, "5 0.0"))
        trips.clear()

        page = list_limiters(operator, 1)

        assert (page.total, len(page.rows), page.rows[0].limit) == (count, 50, 5)
        assert len(trips) == 3


@pytest.mark.usefixtures("taken")
def test_one_is_reset_and_that_is_audited(run, redis):
    assert run("limiter", "reset", "window", "stripe", "--dry-run") == (
        0,
        "would reset limiter window stripe\n",
        "",
    )
    assert redis.exists("kb:limit:window:stripe")
    code, _, err = run("limiter", "reset", "window", "stripe")
    assert code == 2
    assert "Repeat it with --yes" in err

    assert run("limiter", "reset", "window", "stripe", "--yes", "--json")[1] == (
        '{"dry_run": false, "kind": "window", "name": "stripe", "used": 2.0, "reset": true}\n'
    )

    assert not redis.exists("kb:limit:window:stripe")
    [entry] = redis.hvals("kb:audit:entries")
    assert json.loads(entry)["target"] == "limiter:window:stripe"
    assert run("limiter", "reset", "window", "stripe") == (
        0,
        "nothing is taken of limiter window stripe\n",
        "",
    )


@pytest.mark.parametrize(
    "case",
    [(60, 2000, True), (60, 9000, False), (60, 0, False), (7200, 0, True)],
)
def test_the_doctor_finds_a_limiter_that_is_held_for_ten_times_as_long_as_its_jobs_take(
    browser, operator, redis, case
):
    held_s, took_ms, is_stuck = case
    now = time.time()
    note_terms(operator.pool, operator.keys, [Asked("concurrent", "erp", 1)])
    lock = f"{int((now - held_s) * 1e6)} {int((now + 99) * 1e6)} "
    redis.hset("kb:limit:concurrent:erp", f"token {PAYLOAD['jid']} Post", lock)
    if took_ms:
        ran = {"Post|p": 10, "Post|ms": 10 * took_ms}
        redis.hset(operator.keys.metrics(minute_8(time.gmtime(now))), mapping=ran)
    assert list(examine(operator)) == []  # nobody waits
    redis.zadd("kb:waits:concurrent:erp", {"jid": now + 99})

    found = list(examine(operator))

    assert bool(found) is is_stuck
    for each in found:
        assert "no lock of it was given back" in each.what
        assert "Limiter concurrent erp is reset" in browser.press(each.acts[0]).text
