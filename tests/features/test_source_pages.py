"""The pages of docs/reference/sources: their events go through the real function, with the mapping above them.

Requests over HTTP are tested in tests/features/http_events.
"""

import json
import re
from datetime import UTC, datetime

import pytest
from support.documents import ROOT, Block, blocks
from support.sources import records_of

from kiqbridge.aws import sources
from kiqbridge.features.service_events.services import FORMS

FOLDER = ROOT / "docs" / "reference" / "sources"
PAGES = sorted(path.stem for path in FOLDER.glob("*.md"))
SECTIONS = {"In the template", "Event", "Mapping", "Identity"}
NO_MAPPINGS = "mappings: [{match: {source: nothing}, class: HealthPulse}]"


def examples():
    """Each event of a page with the mappings that stand between it and the event before."""
    for page in PAGES:
        mappings = NO_MAPPINGS
        for block in (
            each for each in blocks() if each.document == f"docs/reference/sources/{page}.md"
        ):
            if block.language == "yaml":
                mappings = block.text
            if block.language == "json":
                yield pytest.param(block, mappings, id=str(block))
                mappings = NO_MAPPINGS


def delivered(block: Block):
    """The event of a block; what is due at a time is due now."""
    event = json.loads(block.text)
    if isinstance(event, dict) and "tick" in event:
        event["tick"]["at"] = f"{datetime.now(UTC):%FT%H:%M:00Z}"
    return event


@pytest.mark.parametrize(("block", "mappings"), list(examples()))
def test_an_event_of_a_page_enqueues_once(mapped, redis, block, mappings):
    invoke = mapped(mappings)
    event = delivered(block)

    answer = invoke(event)
    enqueued = redis.llen("queue:default")
    invoke(event)

    assert enqueued >= 1, answer
    assert redis.llen("queue:default") == enqueued


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_all_of_it(page):
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")

    headings = re.findall(r"^##+ (.*)$", text, re.MULTILINE)
    assert {
        heading for heading in SECTIONS if headings.count(heading) == headings.count("Event")
    } == SECTIONS
    assert re.search("(## |[*][*])On failure", text)
    assert any(example.values[0].document.endswith(f"/{page}.md") for example in examples())


@pytest.mark.parametrize("page", PAGES)
def test_the_overview_links_each_page(page):
    assert f"](sources/{page}.md" in (ROOT / "docs" / "reference" / "events.md").read_text(
        encoding="utf-8"
    )


def test_each_source_has_a_page_that_names_its_facets():
    """Those that the pages' events show."""
    for example in examples():
        block, _ = example.values
        text = (FOLDER / block.document.rpartition("/")[2]).read_text(encoding="utf-8")
        for record in records_of(delivered(block)):
            assert f"`{record.source}`" in text
            names = {name.partition(".")[0] for name in record.facets} - {"attribute"}
            assert [name for name in names if f"`{name}`" not in text] == []


def test_the_table_of_services_is_that_of_the_code():
    text = (FOLDER / "services.md").read_text(encoding="utf-8").split("## All other services")[1]

    assert re.findall(r"^\| `.*$", text, re.MULTILINE) == rows()


def test_the_pings_are_those_of_the_code():
    text = (FOLDER / "services.md").read_text(encoding="utf-8")

    assert [name for name in sources.WARM_UPS if f"`{name}`" not in text] == []


def rows():
    """A line for each service that a mapping may take."""
    return [
        f"| `{source}`: {form.what} | {code(form.origin)} | {listed(form.facets)} | "
        f"{', '.join(code(path) for path in form.identity) or 'none'} |"
        for source, form in FORMS.items()
        if not form.refused
    ]


def listed(facets):
    return ", ".join(code(name.replace("_", "-")) for name in facets) or "none"


def code(path):
    return f"`{path.replace('/', '.')}`" if path else "none"
