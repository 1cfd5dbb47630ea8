"""Settings that nobody reads, metrics that no document names, and files that are named and are not there."""

import ast
import re
from pathlib import Path

import pytest
from support.documents import ROOT

from kiqbridge import seams
from kiqbridge.api.gauges import GAUGES
from kiqbridge.aws.environment import UNITS
from kiqbridge.config.config import SETTINGS
from kiqbridge.config.function_settings import FUNCTION_SETTINGS
from kiqbridge.config.web_settings import WEB_SETTINGS

PACKAGE = ROOT / "worker/kiqbridge"
SOURCES = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
CONSTANTS = dict(
    re.findall(r"^([A-Z_]+)(?:: Final)? = \"(\w+)\"", "\n".join(SOURCES.values()), re.MULTILINE)
)
MEASURING = [path for path in SOURCES if "commands" not in path.parts]
MEASURING += sorted(ROOT.glob("lambdas/*/app.py"))

OURS = [
    each
    for each in ROOT.iterdir()
    if each.is_dir() and (each.name[0] != "." or each.name in (".ci", ".github", ".make"))
]
PLACES = [
    path.relative_to(ROOT)
    for path in (*ROOT.glob("*.*"), *(path for each in OURS for path in each.rglob("*.*")))
]
ENDINGS = {str(Path(*place.parts[start:])) for place in PLACES for start in range(len(place.parts))}


def test_each_setting_is_read_by_something_that_is_no_table_of_settings():
    tables = {path for path in SOURCES if path.name == "config.py" or "settings" in path.name}
    read = " ".join(text for path, text in SOURCES.items() if path not in tables)
    read += " ".join(re.findall(r"self\.\w+", "".join(SOURCES[path] for path in tables)))
    rows = (*SETTINGS, *FUNCTION_SETTINGS, *WEB_SETTINGS)
    names = {each.name for each in rows if not each.feature or seams.named(each.feature)}

    assert len(names) > 80
    words = set(re.findall(r"\w+", read))
    # Those of connections are read without their prefix.
    assert [each for each in names if not {each, each.removeprefix("redis_")} & words] == []


def measured_names(path):
    """Names of metrics of CloudWatch that a module writes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr == "measure" and call.args and isinstance(call.args[0], ast.Dict):
            for key in filter(None, call.args[0].keys):  # None: the gauges
                yield key.value if isinstance(key, ast.Constant) else CONSTANTS[key.id]
    yield from re.findall(r"counts\[['\"](\w+)['\"]\]", ast.unparse(tree))


def measured_by_functions():
    """Names of all metrics of ours in CloudWatch."""
    gauges = {each.cloudwatch for each in GAUGES} - {""}
    return {*UNITS, *gauges, *(name for path in MEASURING for name in measured_names(path))}


def test_alarms_and_dashboard_of_the_stack_name_metrics_that_are_measured():
    text = (ROOT / "infra/observability.yaml").read_text(encoding="utf-8")
    plotted = re.findall(r'\$\{MetricsNamespace\}", "(\w+)"', text)
    alarms = re.findall(r"Namespace: !Ref MetricsNamespace\s+MetricName: (\w+)", text)

    assert len(plotted) > 15 and len(alarms) > 7
    # As `left_out` of a result, which the report writes under its own name.
    assert {*plotted, *alarms} - measured_by_functions() == {"Stale"}


def test_each_metric_of_cloudwatch_has_a_row():
    found = measured_by_functions()
    documents = [*ROOT.glob("docs/**/*.md"), ROOT / "infra/README.md"]
    rows = "".join(each.read_text(encoding="utf-8") for each in documents)

    assert len(found) > 15
    assert sorted(name for name in found if f"`{name}`" not in rows) == []


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_a_document_names_are_there(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    named = re.findall(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|lua|yml|yaml|json|tsv|md|rb|sh))`", text)

    assert len(named) > 10
    of_features = ((name, re.search(r"features/(\w+)/", name)) for name in named)
    here = [
        name for name, found in of_features if found is None or seams.named(found[1]) is not None
    ]
    assert [name for name in here if name not in ENDINGS and "NAME" not in name] == []
