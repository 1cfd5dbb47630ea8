"""Locks of unique jobs as operators see them: on the page and by `kiqbridge lock`."""

import json

import pytest
from support.jobs import own_declarations

from kiqbridge import job
from kiqbridge.api import read_audit
from kiqbridge.features.unique.doctor import examine
from kiqbridge.features.unique.overview import list_locks
from kiqbridge.flow import Unique, find_owner


@pytest.fixture
def owned(client, monkeypatch):
    """Two jobs, each with its lock."""
    with own_declarations():
        monkeypatch.setattr("kiqbridge.client.default_client._default", client)

        @job(name="OverviewBill", unique=Unique())
        def bill(number: int) -> None: ...

        yield bill, [str(bill.perform_async(number)) for number in (1, 2)]


def test_the_page_lists_them_with_their_owners_and_frees_one(browser, owned, operator):
    bill, jids = owned
    page = browser.open("/locks?q=OverviewBill")

    assert "Locks 2 of unique jobs" in page.text
    assert {f"/jobs/{jid}" for jid in jids} <= set(page.links)
    assert "No lock of this class" in browser.open("/locks?q=Over").text
    [lock] = [each for each in list_locks(operator).rows if each.jid == jids[0]]
    answer = browser.send("/locks", name=lock.name, jid=lock.jid)

    assert f"Lock {lock.name} is freed." in answer.text
    assert find_owner(bill, 1) is None
    assert find_owner(bill, 2) == jids[1]
    assert "was free before" in browser.send("/locks", name=lock.name, jid=lock.jid).text
    [entry] = read_audit(operator)
    assert (entry.action, entry.target, entry.via) == ("free", f"lock:{lock.name}", "web")


def test_the_command_lists_them_and_frees_one(run, owned):
    bill, jids = owned
    locks = json.loads(run("lock", "list", "--json")[1])["locks"]
    assert [each["jid"] for each in sorted(locks, key=lambda each: jids.index(each["jid"]))] == jids
    [name] = [each["name"] for each in locks if each["jid"] == jids[1]]

    assert run("lock", "free", name)[0] == 2
    assert run("lock", "free", name, "--dry-run")[1] == f"would free lock {name} of job {jids[1]}\n"
    assert find_owner(bill, 2) == jids[1]
    assert run("lock", "free", name, "--yes")[1] == f"freed lock {name} of job {jids[1]}\n"
    assert find_owner(bill, 2) is None
    assert run("lock", "free", name, "--yes")[1] == f"lock {name} is free\n"
    assert run("lock", "list", "--class", "None")[1] == "There are no locks.\n"


def test_a_page_of_many_takes_no_more_round_trips_than_one_of_few(operator, redis, trips):
    for count in (60, 6000):
        names = {f"Bill:{number:064x}": number for number in range(count)}
        redis.zadd("kb:locks:look", names)
        redis.hset("kb:locks", mapping=dict.fromkeys(names, b"9999999999 jid"))
        trips.clear()

        page = list_locks(operator, 1)

        assert (page.total, len(page.rows), page.rows[0].job_class) == (count, 50, "Bill")
        assert len(trips) == 3


def test_the_doctor_finds_a_lock_that_is_older_than_its_job(browser, owned, operator, redis):
    assert list(examine(operator)) == []
    redis.delete("queue:default")

    [found] = examine(operator)

    assert found.what.startswith(
        "2 locks are older than the job that owns it, such as OverviewBill:"
    )
    assert found.command.startswith("kiqbridge lock free OverviewBill:")
    assert "2 of 2 locks are freed." in browser.press(found.acts[0]).text
    assert list_locks(operator).rows == []
