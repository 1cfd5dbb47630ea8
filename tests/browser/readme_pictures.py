"""The pictures of the README: what a running system leaves in Redis, the real page, Debian's chromium. Run it from
the project's folder:

.venv/bin/python tests/browser/readme_pictures.py
"""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from playwright.sync_api import sync_playwright  # noqa: E402 - the path comes first
from support.running_system import fill  # noqa: E402 - as above
from support.servers import embedded_server  # noqa: E402 - as above
from support.workers import WorkerProcess  # noqa: E402 - as above

IMAGES = TESTS.parent / "docs" / "images"
PAGES = {"web-now": "/", "web-dead": "/dead", "web-schedules": "/schedules"}
PICTURES = PAGES | {f"{name}-dark": page for name, page in PAGES.items()}
WIDTH, MOST_HEIGHT = 1280, 840
SERVES = re.compile(r"serves (http://\S+)")


def main() -> None:
    with embedded_server() as server:
        fill(server.url)
        with WorkerProcess("--role", "operator", redis_url=server.url, command="web") as process:
            process.wait_ready(SERVES.search)
            take(SERVES.search(process.output)[1].rstrip("/"), PICTURES)


def take(site: str, pictures: Mapping[str, str]) -> None:
    """Pictures of a page: name of the file → path of the page."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        page = browser.new_page(
            viewport={"width": WIDTH, "height": 400}, reduced_motion="reduce", color_scheme="light"
        )
        for name, path in pictures.items():
            page.emulate_media(color_scheme="dark" if name.endswith("-dark") else "light")
            page.goto(site + path)
            height = min(MOST_HEIGHT, page.evaluate("document.documentElement.scrollHeight"))
            page.set_viewport_size({"width": WIDTH, "height": height})
            file = IMAGES / f"{name}.png"
            page.screenshot(path=file)
            page.set_viewport_size({"width": WIDTH, "height": 400})
            print(f"{file.relative_to(TESTS.parent)}  {file.stat().st_size // 1000} kB")
        browser.close()


if __name__ == "__main__":
    main()
