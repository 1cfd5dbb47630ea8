"""A page in a real browser, and what is wrong with it: complaints, accessibility, width."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request

WIDTHS = (320, 375, 768, 1280, 1920)
HEIGHT = 900
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOURS = ["color-contrast"]
"""What depends on the colour scheme."""
_AXE = Axe()
_OVERFLOW = """() => {
  const room = innerWidth;
  if (document.scrollingElement.scrollWidth <= room) return [];
  return [...document.querySelectorAll('body *')]
    .filter((each) => each.getBoundingClientRect().right > room + 1)
    .slice(0, 5)
    .map((each) => each.tagName + '.' + each.className + ' ' + Math.round(each.getBoundingClientRect().right));
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A page.

    Attributes:
        page: of the browser.
        complaints: errors in the console, of scripts and of the content security policy, requests to
            other hosts.
    """

    page: Page
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str, status: int = 200) -> None:
        """Open a path of the site."""
        answer = self.page.goto(path, wait_until="load")
        assert answer is not None
        assert answer.status == status, f"{path}: {answer.status}"

    def follow(self, link: str) -> None:
        """Click a link and wait for its page as a whole: without its style sheets, what is hidden counts as visible."""
        with self.page.expect_navigation(wait_until="load"):
            self.page.click(link)

    @property
    def text(self) -> str:
        """What a reader sees in the main part."""
        return self.page.inner_text("main")

    def find_barriers(self, rules: Sequence[str] = RULES) -> Sequence[str]:
        """What axe-core finds, a line each."""
        options = {"runOnly": rules, "resultTypes": ["violations"]}
        found = _AXE.run(self.page, options=options).response
        return [
            f"{rule['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
            for rule in found["violations"]
            for node in rule["nodes"][:3]
        ]

    def find_overflow(self, width: int) -> Sequence[str]:
        """What stands out at the right at this width; empty if nothing has to be scrolled sideways."""
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        found: list[str] = self.page.evaluate(_OVERFLOW)
        return [f"{width} px: {each}" for each in found]

    def keep(self, name: str) -> None:
        """A picture of the whole page, if `KIQBRIDGE_SCREENSHOTS` names a folder: each takes a third of a second."""
        if folder := os.environ.get("KIQBRIDGE_SCREENSHOTS"):
            path = Path(folder, f"{name}.png")
            self.page.screenshot(path=path, full_page=True, animations="disabled")


@contextmanager
def watched(context: BrowserContext) -> Iterator[Seen]:
    """A new page of a context, closed with the block."""
    page = context.new_page()
    page.set_default_timeout(10_000)
    seen = Seen(page=page)

    def note_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            seen.complaints.append(f"{message.type} on {page.url}: {message.text}")

    def note_request(request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob", "about") and address.hostname != "127.0.0.1":
            seen.complaints.append(f"request to {request.url}")

    page.on("console", note_console)
    page.on("pageerror", lambda error: seen.complaints.append(f"script: {error}"))
    page.on("request", note_request)
    try:
        yield seen
    finally:
        page.close()
