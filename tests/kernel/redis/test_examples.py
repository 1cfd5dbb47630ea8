"""The applications in examples/: they enqueue, and serve the page; the documents show them as they are."""

import asyncio
import importlib
import json
import sys

import httpx
import pytest
from support.documents import ROOT, blocks

from kiqbridge.client.default_client import own_default_client

pytestmark = pytest.mark.any_server

EXAMPLES = ROOT / "examples"
PAGE = "docs/how_to/frameworks.md"


@pytest.fixture
def load(redis_url, monkeypatch):
    """Import an example by its name, as its server does, with an empty database."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("REDIS_URL", redis_url)
    loaded = []

    def load(name):
        loaded.append(name)
        return importlib.import_module(name)

    with own_default_client():
        yield load
    for name in loaded:
        del sys.modules[name]


def waiting(redis):
    return [json.loads(text) for text in redis.lrange("queue:mailers", 0, -1)]


@pytest.mark.parametrize("name", ["fastapi_app", "starlette_app"])
def test_an_asgi_application_enqueues_and_serves_the_page(load, redis, name):
    app = load(name).app

    async def visit():
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as browser,
        ):
            return (
                await browser.post("/orders/42/receipt"),
                await browser.get("/kiqbridge/queues"),
                await browser.post("/orders/none/receipt"),
            )

    answer, page, wrong = asyncio.run(visit())

    [payload] = waiting(redis)
    assert (payload["class"], payload["args"]) == ("send_receipt", [42])
    assert (answer.status_code, answer.json()) == (202, {"jid": payload["jid"]})
    assert page.status_code == 200 and "mailers" in page.text
    assert wrong.status_code in {404, 422}


def test_a_flask_application_enqueues(load, redis):
    browser = load("flask_app").create_app().test_client()

    answer = browser.post("/orders/42/receipt")

    [payload] = waiting(redis)
    assert (answer.status_code, answer.json) == (202, {"jid": payload["jid"]})


def test_a_flask_application_says_when_nothing_was_enqueued(load, monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")  # nobody listens there

    answer = load("flask_app").create_app().test_client().post("/orders/42/receipt")

    assert answer.status_code == 503


def test_their_job_runs(load, capsys):
    load("flask_app")
    sys.modules["receipts"].send_receipt.perform_inline(42)

    assert capsys.readouterr().out == "receipt for order 42\n"


def test_the_documents_show_the_examples_as_they_are():
    shown = {
        block.text.split("\n", 1)[0].removeprefix("# "): block.text
        for block in blocks()
        if block.document == PAGE and block.language == "python"
    }
    written = {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for path in sorted(EXAMPLES.glob("*.py"))
        if not path.name.startswith("feature_")  # those of CONTRIBUTING.md
    }

    page = (ROOT / PAGE).read_text("utf-8")
    unseen = set(written) - set(shown) - {"examples/receipts.py"}  # what the others import
    assert [name for name in unseen if f"(../../{name})" not in page] == []
    assert {name: text for name, text in written.items() if name in shown} == {
        name: text for name, text in shown.items() if name in written
    }
