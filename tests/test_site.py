"""The documentation as a site: it builds without a warning, and loads nothing from elsewhere."""

import ast
import functools
import re

import pytest
from support.documents import ROOT
from support.site import build_site

pytestmark = pytest.mark.slow

LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|"""
    r"""<link\b[^>]*\brel=["']?(?:stylesheet|preload|preconnect|icon)[^>]*\bhref=["']?(?:https?:)?//|"""
    r"""url\(["']?(?:https?:)?//|@import\s+["'](?:https?:)?//"""
)
"""What a browser loads by itself from another host."""

PUBLIC = re.compile(r"kiqbridge(\.\w+|\.flow\.limiter|\.(compat|contrib)\.(?!django.database).*)?$")
"""Modules that users import: those on top, and what stands in for, or beside, other libraries."""

MADE = [
    ("reference/python/client.html", "perform_async"),
    ("reference/python/client.html", "push_bulk"),
    ("reference/python/api.html", "DeadSet"),
    ("reference/logging.html", "kiqbridge_worker_lost_threads_total"),
    ("reference/api.html", "is declared twice"),
    ("explanation/proofs.html", "Ruby enqueues, Python performs"),
    ("modules.html", "push_tick.lua"),
    ("reference/doctor.html", 'id="failing-class"'),
    ("index.html", 'src="images/web-now.png#only-light"'),
    ("index.html", '<span style="--line: 1">'),
    ("index.html", "0 given back. Bye."),
    ("llms.txt", "(tutorial/first_job.html)"),
    (
        "index.html",
        'href="explanation/proofs.html#test_a_thousand_deliveries_of_a_tick_enqueue_one_job"',
    ),
    ("explanation/proofs.html", 'id="test_a_thousand_deliveries_of_a_tick_enqueue_one_job"'),
    ("overview.html", 'src="images/web-now.png"'),
    ("stacks.html", "CreateRedis"),
    ("ruby.html", "Kiqbridge.install"),
    ("changelog.html", "Changelog"),
    ("explanation/choose.html", 'href="../reliability.html"'),
    ("contributing.html", 'href="architecture.html"'),
]
"""Page → what only docstrings, a file outside of docs/, or a name made a link puts there."""


INNER = [
    ("client.html", "handle_from"),
    ("flow.html", "script_args"),
    ("flow.html", "take_steps"),
    ("api.html", "is_queue"),
]
"""Page of the Python reference → what only the package itself calls."""


@pytest.fixture
def site(tmp_path):
    return build_site(tmp_path / "site")


def test_it_builds_has_all_pages_and_loads_nothing_from_elsewhere(site):
    """One test, since test processes that share its work would each build the site."""
    for page, text in MADE:
        shown = (site / page).read_text(encoding="utf-8").replace("<wbr>", "")
        assert text in shown, page
    ids = {page: (site / "reference/python" / page).read_text("utf-8") for page, _ in INNER}
    assert [name for page, name in INNER if f'.{name}"' in ids[page]] == []
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]

    found = [
        f"{page.relative_to(site)}: {match[0][:80]}"
        for page in pages
        for match in LOADED.finditer(page.read_text(encoding="utf-8"))
    ]

    assert len(pages) > 50
    assert found == []
    assert [each for each in public_names() if not has_reference(site, *each)] == []


def public_names():
    """Module and name, out of each public `__all__`."""
    package = ROOT / "worker/kiqbridge"
    for path in sorted(package.rglob("*.py")):
        module = (
            path.relative_to(package.parent)
            .with_suffix("")
            .as_posix()
            .replace("/", ".")
            .removesuffix(".__init__")
        )
        if PUBLIC.match(module):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                    names = ast.literal_eval(node.value)
                    yield from ((module, name) for name in names if not name.startswith("_"))


@functools.cache
def headings(site):
    pages = (site / "reference/python").glob("*.html")
    return {
        each
        for page in pages
        for each in re.findall(r'id="(kiqbridge[^"]*)"', page.read_text(encoding="utf-8"))
    }


def has_reference(site, module, name):
    return bool({f"{module}.{name}", f"kiqbridge.errors.{name}"} & headings(site))


def test_what_would_be_loaded_is_recognized():
    assert LOADED.search('<link rel="stylesheet" href="https://example.org/a.css">')
    assert LOADED.search('<script defer src="//example.org/a.js">')
    assert LOADED.search("body { background: url(https://example.org/a.png) }")
    assert not LOADED.search('<a href="https://example.org">')
