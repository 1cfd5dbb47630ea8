"""Pages that are made for the site alone, of what the code says of itself: docstrings, comments and tables.

`PAGES` has each page with what makes its text; `ADDED`, what is added to a page of docs/.
"""

# ruff: noqa: INP001 - a script of the Makefile, in no package

import ast
import itertools
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kiqbridge.api.verdict import Rule

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "worker" / "kiqbridge"
SCRIPTS: Final = PACKAGE / "store" / "scripts"
MODULES_HEAD: Final = """# Modules

What each file of `worker/kiqbridge/` is for, from its own first lines. How the packages hang together is in
[architecture.md](architecture.md).
"""
REFERENCE_HEAD: Final = """# Python reference

Users import from `kiqbridge` and its public packages only. All else may change without notice. These pages are made
of the docstrings. [Settings](../settings.md) lists what the environment, the file and the flags set.
"""
REFERENCE: Final = {
    "jobs": (
        "Jobs",
        (
            "job client.function_job.FunctionJob Job IterableJob RemoteJob Schedule Schedules current_job "
            "CurrentJob Depends enumerators results"
        ),
    ),
    "client": ("Client", "Client JobHandle configure current_attributes locale rails"),
    "server": (
        "Server and web page",
        "Server server middleware interrupted log_context web.create_app",
    ),
    "flow": ("Flow", "flow flow.limiter"),
    "schedule": ("Schedules", "schedule.expression"),
    "api": ("Operator API", "api"),
    "contrib": (
        "Frameworks",
        "contrib.django contrib.sqlalchemy contrib.opentelemetry contrib.sentry contrib.structlog",
    ),
    "compat": (
        "Celery's interface",
        "compat.celery compat.celery.exceptions compat.celery.utils.log",
    ),
    "testing": (
        "kiqbridge.testing",
        (
            "testing.fake testing.inline testing.drain testing.override testing.FakeJobs testing.real_jobs testing.RealJobs "
            "testing.FakeJobsMixin testing.VirtualClock testing.RecordedJob testing.PerformedJob "
            "testing.NotInMemory testing.EndlessJobs"
        ),
    ),
    "errors": ("Errors", "errors"),
}
"""Page below reference/python/ → its title, and names below `kiqbridge`."""
OPTIONS: Final = {
    **dict.fromkeys(["Job", "client.function_job.FunctionJob"], "\n    options:\n      inherited_members: true"),
    **{
        name: f'\n    options:\n      filters: ["!^_[^_]", "!^({inner})$"]'
        for name, inner in {
            "Client": "use_fleets|handle_from",
            "flow": (
                "adjective|check|check_payload|is_later|keys|name_of|option|part|refusal|script_args|stamp|"
                "item|needs_value|takes_value|whole_item|step|steps|passes_value|take_steps|takes_from"
            ),
            "flow.limiter": "asked|attempt|entry|place",
            "api": "is_queue|newest_first",
        }.items()
    },
}  # fmt: skip
"""Without what other parts of the package call."""
RULES_OF: Final = {
    "now": "What waits, fails, dies, and does not come. The list of the page Now judges; the numbers are its limits.",
    "redis": "The server.",
    "wire": "Jobs in queues and sets, as Ruby, Python and others wrote them. They are looked at in part.",
    "worker": "Processes of Python and Ruby, by their heartbeats, and the settings of the environment.",
    "template": "A SAM or CloudFormation template and those that it nests (`--template`). Conditions are not decided: "
    "what stands behind one counts as there, and of an `Fn::If` both values count.",
}
TEST: Final = re.compile(r"`test_(\w+)`")
"""How docs/index.md calls a test, in a link to its file."""
TESTS_HEAD: Final = """## Tests of the first page

What [the first page](../index.md#beside-other-systems) names, as it runs.
"""
_SENTENCE_END = re.compile(r"(?<=[^.]\.)\s+")


def _reference_index() -> str:
    links = "".join(f"- [{title}]({page}.md)\n" for page, (title, _names) in REFERENCE.items())
    return f"{REFERENCE_HEAD}\n{links}"


def _reference(title: str, names: str) -> str:
    directives = [f"::: kiqbridge.{name}{OPTIONS.get(name, '')}" for name in names.split()]
    return "\n\n".join([f"# {title}", *directives])


def _modules() -> str:
    return "\n".join([MODULES_HEAD, *(line for folder in _folders() for line in _section(folder))])


def _folders() -> list[Path]:
    """The package itself, then its folders by name."""
    return [PACKAGE, *sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))]


def _section(folder: Path) -> Iterator[str]:
    yield f"## {folder.relative_to(PACKAGE.parent).as_posix()}\n"
    yield _paragraphs(_docstring(folder / "__init__.py")) + "\n"
    yield "| file | what it is for |"
    yield "|---|---|"
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            yield _row(path.name, _first_paragraph(_docstring(path)))
    if folder == SCRIPTS.parent:
        for path in sorted(SCRIPTS.rglob("*.lua")):
            yield _row(path.relative_to(PACKAGE).as_posix(), _first_sentence(_comment(path)))
    yield ""


def _row(name: str, text: str) -> str:
    if not text:
        raise ValueError(f"{name} does not say what it is for")
    return f"| `{name}` | {text} |".replace("\\", "\\\\")


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _first_paragraph(text: str) -> str:
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())


def _comment(path: Path) -> str:
    """The comment on top of a script, without what each key and argument is."""
    lines = path.read_text(encoding="utf-8").splitlines()
    top = itertools.dropwhile(lambda line: line.startswith(("#!", "-- include ")), lines)
    text = itertools.takewhile(
        lambda line: line.startswith("-- ") and not line.startswith("-- KEYS"), top
    )
    return " ".join(line.removeprefix("-- ") for line in text)


def _first_sentence(text: str) -> str:
    return _SENTENCE_END.split(text)[0]


def _rules() -> str:
    """Each rule of the doctor with what it reports, why, and what to do."""
    # Not on top: while mkdocs loads this file, `redis` is .make/redis.py.
    from kiqbridge.api.verdict import AREAS  # noqa: PLC0415
    from kiqbridge.features.doctor.examination import CATALOGUE  # noqa: PLC0415

    lines = []
    for area in AREAS:
        lines += [f"## Rules: {area}\n", f"{RULES_OF[area]}\n"]
        for rule in CATALOGUE.values():
            if rule.area == area:
                lines += _entry(rule)
    return "\n".join(lines)


def _entry(rule: "Rule") -> Iterator[str]:
    from kiqbridge.features.doctor.finding import sentence  # noqa: PLC0415 - as above

    yield f"### {rule.id}\n"
    yield f"- Reports: {_plain(rule.reports)}."
    yield f"- Why: {_plain(sentence(rule.why))}"
    yield f"- Do: {_plain(sentence(rule.do))}\n"


def _plain(text: str) -> str:
    """A text in Markdown: what it may hold besides words must stay as it is."""
    return text.replace("*", "\\*").replace("<", "&lt;")


def _metrics() -> str:
    # Not on top, as above.
    from kiqbridge.features.telemetry.catalogue import METRICS  # noqa: PLC0415

    lines = ["## All metrics\n", "| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for each in METRICS:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        lines.append(f"| `{each.name}` | {each.kind} | {labels} | {each.help} |")
    return "\n".join(lines)


def _named_tests() -> str:
    """The source of each test that docs/index.md names."""
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    lines = [TESTS_HEAD]
    for name, path in dict.fromkeys(re.findall(rf"\[{TEST.pattern}\]\(\.\./([^)]+)\)", page)):
        lines += [f"### test_{name}\n", f"`{path}`\n"]
        lines += ["```python", _source(ROOT / path, f"test_{name}"), "```\n"]
    return "\n".join(lines)


def _source(path: Path, name: str) -> str:
    text = path.read_text(encoding="utf-8")
    [test] = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    first = min(node.lineno for node in [test, *test.decorator_list])
    return textwrap.dedent("\n".join(text.splitlines()[first - 1 : test.end_lineno]))


def _printed_by(script: str) -> str:
    # A script of ours, without arguments of anybody.
    return subprocess.check_output([sys.executable, ROOT / script], cwd=ROOT, encoding="utf-8")  # noqa: S603


PAGES: Final[dict[str, Callable[[], str]]] = {
    "modules.md": _modules,
    "reference/python/index.md": _reference_index,
    **{
        f"reference/python/{page}.md": partial(_reference, *content)
        for page, content in REFERENCE.items()
    },
}
ADDED: Final[dict[str, Callable[[], str]]] = {
    "reference/doctor.md": _rules,
    "explanation/proofs.md": lambda: _printed_by("tests/interop/conformance.py") + _named_tests(),
    "reference/logging.md": _metrics,
    "reference/api.md": partial(_printed_by, "tests/bad_inputs.py"),
}
