"""The search of the documentation: what a newcomer types leads to a page that answers it."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest
from support.site import build_site

pytestmark = pytest.mark.slow

FIRST = {
    "cron": "how_to/schedules",
    "crontab": "how_to/from_crontab",
    "retry": "how_to/dead_jobs",
    "queue does not move": "how_to/queue_does_not_move",
    "delete jobs": "how_to/dead_jobs",
    "bad deploy": "how_to/bad_deploy",
    "unique": "how_to/flow",
    "rate limit": "how_to/limiters",
    "batch": "how_to/batches",
    "celery": "how_to/celery",
    "rails": "how_to/rails",
    "sqs": "how_to/sqs",
    "test": "how_to/testing",
    "deploy": "how_to/deploy",
    "priority": "tutorial/queues_and_batches",
    "stop worker": "how_to/operations",
    "timeout": "how_to/runbooks",
    "transaction": "how_to/transaction",
}
"""What is typed → the page that is found first."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_words: object) -> None:
        """Not into the output of the tests."""


@pytest.fixture
def served(tmp_path):
    """The address of the site: its search reads an index, which no browser allows from a file."""
    handler = partial(Quiet, directory=build_site(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_what_a_newcomer_types_finds_a_how_to_or_the_tutorial_first_and_no_decision(
    chromium, served
):
    page = chromium.new_page()
    found = {}
    for words in FIRST:
        page.goto(f"{served}index.html?q={quote(words)}")
        first = page.locator(".md-search-result__item > a").first
        first.wait_for(state="attached")
        links = page.locator(".md-search-result__item > a").evaluate_all(
            "all => all.map(each => each.getAttribute('href'))"
        )
        found[words] = [link.removeprefix(served).partition(".html")[0] for link in links]

    assert {words: pages[0] for words, pages in found.items()} == FIRST
    assert [each for pages in found.values() for each in pages if "decisions/" in each] == []
