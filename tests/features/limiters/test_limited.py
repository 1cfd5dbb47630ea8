"""A limiter declared with a job: entered before it begins, left when it ends."""

import asyncio

import pytest

from kiqbridge import ConfigError, Job, job
from kiqbridge.client.registry import default_registry
from kiqbridge.errors import OverLimit

pytestmark = pytest.mark.usefixtures("own_jobs")


class Limit:
    """A limiter that notes what it is asked."""

    def __init__(self, error=None):
        self.seen = []
        self.error = error

    def within_limit(self):
        return self

    def __enter__(self):
        if self.error:
            raise self.error
        self.seen.append("in")

    def __exit__(self, kind, error, trace):
        self.seen.append("out" if kind is None else kind.__name__)

    async def __aenter__(self):
        self.__enter__()
        self.seen.append("loop")

    async def __aexit__(self, *error):
        self.__exit__(*error)


def perform(name, *args, **kwargs):
    definition = default_registry.require(name)
    return definition.perform_of(definition.instantiate("j1"))(*args, **kwargs)


def test_a_function_runs_within_the_limit_and_what_it_raises_passes_through():
    limit = Limit()

    @job(limiter=limit)
    def work(number):
        limit.seen.append(number)
        return 7 // number

    assert perform("work", 7) == 1
    with pytest.raises(ZeroDivisionError):
        perform("work", 0)
    assert limit.seen == ["in", 7, "out", "in", 0, "ZeroDivisionError"]


def test_an_async_function_runs_within_it_on_its_loop_and_a_coroutine_to_its_end():
    limit = Limit()

    @job(limiter=limit)
    async def work(number):
        limit.seen.append(number)

    async def rest():
        limit.seen.append("rest")

    job(name="plain", limiter=limit)(lambda: rest())  # noqa: PLW0108 - plain, and returns one
    assert default_registry.require("work").handling.pool == "async"
    asyncio.run(perform("work", 7))
    assert limit.seen == ["in", "loop", 7, "out"]
    asyncio.run(perform("plain"))
    assert limit.seen[4:] == ["in", "rest", "out"]


def test_a_class_runs_within_that_of_its_attribute():
    limit = Limit()

    class Work(Job):
        limiter = limit

        def perform(self, number):
            limit.seen.append((self.jid, number))

    perform("Work", 7)
    assert limit.seen == ["in", ("j1", 7), "out"]


def test_a_function_chooses_the_limiter_by_the_arguments():
    limits = {1: Limit(), 2: Limit()}

    @job(limiter=lambda user_id, *_: limits[user_id])
    def work(user_id, text):
        pass

    class Work(Job):
        @staticmethod
        def limiter(user_id, *_):
            return limits[user_id]

        def perform(self, user_id):
            pass

    perform("work", 2, "x")
    perform("Work", 2)
    assert limits[1].seen == []
    assert limits[2].seen == ["in", "out"] * 2


def test_a_job_over_its_limit_does_not_begin():
    begun = []
    work = job(name="work", limiter=Limit(OverLimit("full")))(lambda: begun.append(1))
    with pytest.raises(OverLimit):
        work.perform_inline()
    assert begun == []


def test_what_is_no_limiter_is_refused_where_it_is_declared_or_begins():
    with pytest.raises(ConfigError, match="job 'odd': limiter 5 is neither"):
        job(name="odd", limiter=5)(lambda: None)
    job(name="work", limiter=lambda: None)(lambda: None)
    with pytest.raises(ConfigError, match="the function returned NoneType"):
        perform("work")
