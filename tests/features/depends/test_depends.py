"""What a job gets by `Depends`: who makes it, how often, and what becomes of it when the job has ended."""

import asyncio
import contextvars
import inspect

import pytest

from kiqbridge import ConfigError, Depends, Job, PayloadError, job
from kiqbridge.testing import fake, inline, override

NOTES = []
LOOP = contextvars.ContextVar("LOOP")


@pytest.fixture(autouse=True)
def notes():
    NOTES.clear()
    return NOTES


def settings():
    NOTES.append("settings")
    return {"url": "db"}


def database(given=Depends(settings)):
    NOTES.append("open")
    try:
        yield f"database of {given['url']}"
    except ValueError as error:
        NOTES.append(f"rolled back: {error}")
        raise
    finally:
        NOTES.append("closed")


async def remote(given=Depends(settings)):
    await asyncio.sleep(0)
    return f"remote of {given['url']}"


async def session(of=Depends(remote)):
    NOTES.append("session")
    yield f"session of {of}"
    NOTES.append("session closed")


@job
def bill(order: int, copy: bool = False, db: str = Depends(database), own=Depends(settings)):
    NOTES.append((order, copy, db, own))
    if order < 0:
        raise ValueError("no such order")
    return order


@job
async def fetch(order: int, *, one: str = Depends(session), db: str = Depends(database)):
    NOTES.append((order, one, db))
    if order < 0:
        raise ValueError("no such order")


class Mail(Job):
    def perform(self, to: str, db: str = Depends(database)) -> None:
        NOTES.append((self.jid is not None, to, db))


def test_a_plain_job_gets_each_value_once_and_what_was_opened_is_closed(notes):
    with inline() as jobs:
        bill.perform_async(7, copy=True)

    [performed] = jobs.performed
    assert performed.job.args == [7, True]
    assert notes == ["settings", "open", (7, True, "database of db", {"url": "db"}), "closed"]


def test_an_async_job_gets_plain_and_async_values_and_the_last_is_closed_first(notes):
    with inline():
        fetch.perform_async(7)

    seen = (7, "session of remote of db", "database of db")
    assert notes == ["settings", "session", "open", seen, "closed", "session closed"]


def test_a_class_and_a_call_in_this_process_get_them_as_well(notes):
    Mail.perform_inline("ann")
    assert bill.perform_inline(3) == 3

    assert notes.count("closed") == 2
    assert (True, "ann", "database of db") in notes


@pytest.mark.parametrize("declared", [bill, fetch])
def test_the_error_of_a_job_is_raised_where_its_provider_waits(notes, declared):
    with pytest.raises(ValueError, match="no such order"), inline():
        declared.perform_async(-1)

    assert notes[-2:] == ["rolled back: no such order", "closed"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_provider_cannot_undo_a_failure(is_async):
    def forgives():
        try:
            yield 1
        except ValueError:
            NOTES.append("caught")

    def plain(_value=Depends(forgives)):
        raise ValueError("mine")

    async def on_loop(_value=Depends(forgives)):
        raise ValueError("mine")

    failing = job(on_loop if is_async else plain, name=f"Failing{is_async}")
    with pytest.raises(ValueError, match="mine"), inline():
        failing.perform_async()
    assert NOTES == ["caught"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_provider_that_raises_fails_the_job_and_what_was_made_is_closed(notes, is_async):
    def broken(_db=Depends(database)):
        raise LookupError("no server")

    def plain(value=Depends(broken)):
        NOTES.append("performed")

    async def on_loop(value=Depends(broken)):
        NOTES.append("performed")

    failing = job(on_loop if is_async else plain, name=f"Broken{is_async}", retry=3)
    with inline(raise_errors=False) as jobs:
        failing.perform_async()

    [waiting] = jobs.retries
    assert waiting.payload["error_class"] == "LookupError"
    assert notes == ["settings", "open", "closed"]


def test_what_is_filled_never_travels(notes):
    with fake() as jobs:
        bill.perform_async(1)
        for passed in ({"db": "mine"}, {"own": {}}):
            with pytest.raises((PayloadError, TypeError), match=r"db|own"):
                bill.perform_async(1, **passed)
        with pytest.raises((PayloadError, TypeError), match="argument"):
            bill.perform_async(1, False, "mine")

    assert [each.args for each in jobs.jobs] == [[1]]
    assert notes == []
    assert [*inspect.signature(bill).parameters][-1] == "own", (
        "callable as before, with values of one's own"
    )


def test_a_test_replaces_a_provider_and_what_that_needs(notes):
    with override(database, lambda: "fake"), inline():
        bill.perform_async(7)
        fetch.perform_async(8)
        with override(database, lambda given=Depends(settings): f"other {given['url']}"):
            bill.perform_async(9)
        bill.perform_async(10)

    found = [each for each in notes if isinstance(each, tuple)]
    assert [each[2] for each in found] == ["fake", "fake", "other db", "fake"]
    with inline():
        bill.perform_async(11)
    assert notes[-1] == "closed"


@pytest.mark.parametrize("replacement", [remote, session])
def test_a_plain_provider_is_not_replaced_by_an_async_one(replacement):
    with pytest.raises(ConfigError, match="plain"), override(database, replacement):
        pass


def test_a_provider_that_cannot_be_called_is_refused_where_it_is_declared():
    def needs(url):
        return url

    with pytest.raises(ConfigError, match=r"needs.*nothing fills its parameter url"):
        Depends(needs)
    with pytest.raises(ConfigError, match="cannot be called"):
        Depends("database")
    assert repr(Depends(dict)) == "Depends(dict)"


def test_a_job_is_refused_where_it_is_declared():
    def before(db=Depends(database), order: int = 1):
        pass

    def plain(db=Depends(session)):
        pass

    def deeper(db=Depends(lambda of=Depends(session): of)):
        pass

    for declared, reason in (
        (before, "behind all others"),
        (plain, "session.*async def"),
        (deeper, "async def"),
    ):
        with pytest.raises(ConfigError, match=reason):
            job(declared)
