"""GETs that search do not hold up the other pages: few at once, for a bounded time, on threads of their own."""

import asyncio
import threading
from dataclasses import replace

import httpx
import pytest
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from support.pages import ORIGIN
from support.web_jobs import dead

from kiqbridge.api import find_job
from kiqbridge.web import create_app
from kiqbridge.web.searches import AT_ONCE, Searches


async def statuses(app, held, *paths):
    """The answers to these paths while `held`, a list of coroutines, is on its way."""
    released = threading.Event()
    tasks = [asyncio.ensure_future(each(released)) for each in held]
    await asyncio.sleep(0)  # each begins, and waits for its thread
    transport = httpx.ASGITransport(app)
    try:
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            answers = [await asyncio.wait_for(client.get(path), 10) for path in paths]
    finally:
        released.set()
        await asyncio.gather(*tasks)
    return [answer.status_code for answer in answers], answers[0]


def test_what_would_wait_for_long_is_refused_and_pages_without_a_search_go_on(operator):
    app = create_app(operator=operator)
    searches = Searches(begin_within_s=0.1)
    app.state.site = replace(app.state.site, searches=searches)

    async def hold(released):
        await searches.run(lambda _: released.wait(30), None)

    paths = [
        "/jobs/unknown",
        "/dead?q=class:Mail",
        "/retries/groups",
        "/queues/mail?q=a",
        "/dead",
        "/queues/mail",
    ]
    codes, first = asyncio.run(statuses(app, [hold] * AT_ONCE, *paths))

    assert codes == [503, 503, 503, 503, 200, 200]
    assert first.headers["Retry-After"] == "5"
    assert "Too many searches at once" in first.text


def test_health_is_answered_while_other_pages_hold_all_threads(operator):
    async def hold(released):
        await run_in_threadpool(released.wait, 30)

    codes, _ = asyncio.run(statuses(create_app(operator=operator), [hold] * 60, "/healthz"))

    assert codes == [200]


def test_a_search_that_takes_too_long_is_ended_and_says_so(operator, redis):
    dead(redis, 2000)

    def search_on(_):
        while True:
            find_job("unknown", operator)

    with pytest.raises(HTTPException, match="The search was ended after") as refusal:
        asyncio.run(Searches(within_s=0.2).run(search_on, None))

    assert refusal.value.status_code == 503
