"""One chromium, one filled Redis and one `kiqbridge web --role admin` for a module of tests."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import redis as redis_py
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from support.browser_view import Seen, watched
from support.running_system import fill
from support.servers import embedded_server
from support.workers import WorkerProcess

from kiqbridge import Client

SERVES = re.compile(r"serves (http://\S+)")
SCRIPT = "<script>window.hacked = true</script>"
ESCAPE = "\x1b[31mred\u202egnp.exe\u2066 [bold]markup[/bold]"
"""What a terminal would obey, what turns the direction of text, and Rich's markup."""


class Shop(NamedTuple):
    """What a running system left in Redis."""

    url: str
    redis: redis_py.Redis
    client: Client


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    """With something on every screen, a hostile job too; the module's tests share it."""
    with embedded_server() as server, server.client() as redis:
        system = fill(server.url)
        hostile = system.failed("Hostile", count=25, ago_s=10)
        hostile |= {"args": [SCRIPT + ESCAPE], "tags": [SCRIPT, ESCAPE], "error_message": SCRIPT}
        redis.zadd("dead", {json.dumps(hostile): system.now - 10})
        client = Client(server.url)
        yield Shop(server.url, redis, client)
        client.close()


@pytest.fixture(scope="module")
def site(shop: Shop) -> Iterator[str]:
    """The page's address, without a slash at its end."""
    with WorkerProcess(
        "--role", "admin", "--port", "0", redis_url=shop.url, command="web"
    ) as process:
        process.wait_ready(SERVES.search)
        found = SERVES.search(process.output)
        assert found is not None
        yield found[1].rstrip("/")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's chromium; root may only run it without its sandbox."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def context(chromium: Browser, site: str) -> Iterator[BrowserContext]:
    """With JavaScript; what moves is still, so that a picture is of one moment."""
    context = chromium.new_context(base_url=site, reduced_motion="reduce", locale="en-GB")
    yield context
    context.close()


@pytest.fixture(scope="module")
def plain_context(chromium: Browser, site: str) -> Iterator[BrowserContext]:
    """Without JavaScript."""
    context = chromium.new_context(base_url=site, java_script_enabled=False)
    yield context
    context.close()


@pytest.fixture
def view(context: BrowserContext) -> Iterator[Seen]:
    """A page, of which everything that the browser complains of is noted."""
    with watched(context) as seen:
        yield seen
        assert seen.complaints == []


@pytest.fixture
def plain(plain_context: BrowserContext) -> Iterator[Seen]:
    """A page without JavaScript."""
    with watched(plain_context) as seen:
        yield seen
        assert seen.complaints == []
