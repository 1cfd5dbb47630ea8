"""One chromium, one fleet of real workers and one `kiqbridge web --role admin` for a module of tests."""

import os
import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from support.browser_view import Seen, watched
from support.operated import Operated, operated_fleet
from support.servers import embedded_server
from support.workers import WorkerProcess

SERVES = re.compile(r"serves (http://\S+)")


@pytest.fixture(scope="module")
def shop() -> Iterator[Operated]:
    """A fleet of Python and Ruby with something on every screen; the module's tests share it."""
    with embedded_server() as server, operated_fleet(server.url) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def site(shop: Operated) -> Iterator[str]:
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
