"""Whatever a user's code raises, and wherever, no thread of the engine ends and no job is lost."""

import asyncio
import json
from contextlib import contextmanager

import pytest
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge.client.job import job
from kiqbridge.errors import JobInterrupted, Shutdown
from kiqbridge.runtime import threads

pytestmark = pytest.mark.any_server


class Panic(BaseException):
    """As that of a Rust extension, or gevent's Timeout."""


class Unreadable(Exception):  # noqa: N818 - named by what it is
    def __str__(self):
        raise SystemExit("in __str__")

    __repr__ = __str__


KINDS = [
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    asyncio.CancelledError,
    StopIteration,
    MemoryError,
    RecursionError,
    Shutdown,
    JobInterrupted,
    Panic,
    Unreadable,
]
NASTY = [SystemExit, Shutdown, Panic, Unreadable]
any_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
nasty_kind = pytest.mark.parametrize("kind", NASTY, ids=lambda kind: kind.__name__)


class Jobs:
    def __init__(self):
        self.done = []
        self.kind = ValueError

        @job(name="Note")
        def note(what):
            self.done.append(what)

        @job(name="AsyncNote")
        async def async_note(what):
            self.done.append(what)

        @job(name="Hostile", retry=3)
        def hostile():
            raise self.kind

        @job(name="AsyncHostile", retry=3)
        async def async_hostile():
            raise self.kind

        def rule(*_args):
            raise self.kind

        @job(name="BadRetryIn", retry=3, retry_in=rule)
        def bad_retry_in():
            raise ValueError("x")

        @job(name="BadEnd", retry=0, retries_exhausted=rule)
        def bad_end():
            raise ValueError("x")

        def spoil(failed, _error):
            failed["spoiled"] = object()

        @job(name="Spoiled", retry=0, retries_exhausted=spoil)
        def spoiled():
            raise ValueError("x")


@pytest.fixture
def jobs():
    with own_declarations():
        yield Jobs()


@pytest.fixture
def working(jobs, setup, redis_url, redis):
    """A whole worker; at its end all its threads are those of its beginning."""

    @contextmanager
    def working(**settings):
        with launched(redis_url, setup, **settings) as launcher:
            before = {each.ident for each in threads.kept()}
            yield launcher
            assert before <= {each.ident for each in threads.kept()}
        assert redis.scard("kb:inflight") == 0
        assert redis.llen("queue:default") == 0

    return working


def push(client, name, *args, **options):
    return client.push({"class": name, "args": list(args), **options})


DUE = 1.0
"""The time of a scheduled job that is due whatever the clock says."""


def works_on(client, jobs):
    """Plain, async and scheduled jobs still run, on each thread."""
    before = len(jobs.done)
    for number in range(6):
        push(client, "Note", number)
    push(client, "AsyncNote", "async")
    push(client, "Note", "scheduled", at=DUE)
    wait_until(lambda: len(jobs.done) == before + 8, 30, lambda: f"all done: {jobs.done}")


def errors(redis, key):
    return [json.loads(text).get("error_class") for text in redis.zrange(key, 0, -1)]


def name_of(kind):
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


@any_kind
def test_a_job_that_raises_it_is_tried_again(working, jobs, client, redis, kind):
    jobs.kind = kind
    with working():
        for name in ("Hostile", "AsyncHostile", "Hostile"):
            push(client, name)
        wait_until(lambda: redis.zcard("retry") == 3, 30, lambda: f"retries: {jobs.done}")
        works_on(client, jobs)

    wanted = name_of(kind)
    found = set(errors(redis, "retry"))
    assert found <= {wanted, "RuntimeError"}  # a coroutine cannot raise StopIteration
    assert wanted in found


@nasty_kind
@pytest.mark.parametrize("name", ["BadRetryIn", "BadEnd"])
def test_a_rule_of_a_class_that_raises_it_counts_for_nothing(  # noqa: PLR0917 - fixtures
    working, jobs, client, redis, kind, name
):
    jobs.kind = kind
    with working():
        push(client, name, retry=3 if name == "BadRetryIn" else 0)
        kept = "retry" if name == "BadRetryIn" else "dead"
        wait_until(lambda: redis.zcard(kept) == 1, 30, "the failed job")
        works_on(client, jobs)


def test_a_rule_that_spoils_the_payload_counts_for_nothing(working, jobs, client, redis):
    with working():
        push(client, "Spoiled", retry=0)
        wait_until(lambda: redis.zcard("dead") == 1, 30, "the dead job")
        works_on(client, jobs)

    assert errors(redis, "dead") == ["ValueError"]


@nasty_kind
@pytest.mark.parametrize("what", ["error_handler", "death_handler"])
@pytest.mark.parametrize("name", ["Hostile", "AsyncHostile"])
def test_a_handler_that_raises_it_is_called_for_each_failure(  # noqa: PLR0917 - fixtures
    working, jobs, setup, client, kind, what, name
):
    told = []

    def handler(*_args):
        told.append(1)
        raise kind

    getattr(setup, what)(handler)
    with working():
        for _ in range(3):
            push(client, name, retry=False)
        wait_until(lambda: len(told) == 3, 30, lambda: f"three calls: {told}")
        works_on(client, jobs)


@nasty_kind
def test_a_backtrace_cleaner_that_raises_it_leaves_the_backtrace(  # noqa: PLR0917 - fixtures
    working, jobs, setup, client, redis, kind
):
    def clean(_lines):
        raise kind

    setup.backtrace_cleaner = clean
    with working():
        push(client, "Hostile", backtrace=True)
        wait_until(lambda: redis.zcard("retry") == 1, 30, "the failed job")
        works_on(client, jobs)

    [kept] = redis.zrange("retry", 0, -1)
    assert json.loads(kept)["error_backtrace"]


@nasty_kind
def test_middleware_that_raises_it_fails_its_own_jobs_only(  # noqa: PLR0917 - fixtures
    working, jobs, setup, client, redis, kind
):
    def around(_job, payload, _queue, call_next):
        if payload["args"] == ["bad"]:
            raise kind
        return call_next()

    setup.middleware.add(around)
    with working():
        push(client, "Note", "bad")
        push(client, "AsyncNote", "bad")
        wait_until(lambda: redis.zcard("retry") == 2, 30, "the failed jobs")
        works_on(client, jobs)


@nasty_kind
def test_client_middleware_that_raises_it_keeps_its_own_scheduled_jobs_only(  # noqa: PLR0917 - fixtures
    working, jobs, setup, client, redis, kind
):
    raised = []

    def around(_job, payload, _queue, call_next):
        if payload["args"] == ["bad"]:
            raised.append(1)
            raise kind
        return call_next()

    setup.client_middleware.add(around)
    push(client, "Note", "bad", at=DUE)
    with working():
        wait_until(lambda: len(raised) >= 2, 30, "a second try")
        works_on(client, jobs)

    assert redis.zcard("schedule") == 1


@nasty_kind
@pytest.mark.parametrize("event", ["heartbeat", "beat", "quiet", "shutdown", "exit"])
def test_a_listener_that_raises_it_ends_nothing(  # noqa: PLR0917 - fixtures
    working, jobs, setup, client, redis, kind, event
):
    told = []

    @setup.on(event)
    def listener():
        told.append(1)
        raise kind

    with working():
        works_on(client, jobs)
        if event == "beat":
            wait_until(lambda: len(told) > 3, 30, "further beats")

    assert told
    assert redis.scard("processes") == 0
