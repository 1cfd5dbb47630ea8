"""CONTRIBUTING.md is true: in a copy of the package a command, a setting and a source are added as it says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.documents import ROOT, quoted

pytestmark = pytest.mark.slow

COMMAND = '''\
"""Greets."""


def add_arguments(parser):
    parser.add_argument("name")


def run(options):
    print(f"hello {options.name}")
    return 0
'''
ENTRY = """\
        Verb("hello", "greet", has_fleet=False),
"""
SETTING = """\
    greeting: str = _row(
        default="hello", option="--greeting WORD", help="what is said first"
    )
"""
FEATURE = """\
from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, events={"parrot": "parrot"})
"""
SOURCE = '''\
"""Events of parrots: what they said is the job."""

from kiqbridge.aws.record import Delivery, Record


def read(event):
    record = Record(source="parrot", event=event["parrot"], where="parrot")
    return Delivery(source="parrot", records=[record])
'''


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A copy in which the three are added."""
    package = tmp_path_factory.mktemp("copy") / "kiqbridge"
    shutil.copytree(
        ROOT / "worker/kiqbridge", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "commands/hello_command.py").write_text(COMMAND)
    put_behind(package / "commands/table.py", '    "run": (\n', ENTRY)
    put_behind(
        package / "config/config.py",
        '    """What a worker runs with; times in seconds."""\n\n',
        SETTING,
    )
    feature = package / "features/parrots"
    feature.mkdir()
    (feature / "__init__.py").write_text(FEATURE)
    (feature / "parrot.py").write_text(SOURCE)
    sources = package / "aws/sources/__init__.py"
    put_behind(sources, "FEATURES: Final[dict[str, str]] = {\n", '    "parrot": "parrots",\n')
    put_behind(
        sources,
        "BY_KEYS: Final[dict[str, Callable[[Mapping[str, Any]], bool]]] = {\n",
        '    "parrot": lambda event: "parrot" in event,\n',
    )
    return package


def put_behind(path: Path, line: str, added: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(line) == 1, f"{line!r} in {path}"
    path.write_text(text.replace(line, line + added), encoding="utf-8")


def run(package: Path, *words: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=package.parent,
        env={**os.environ, "PYTHONPATH": str(package.parent), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_files_that_change_are_those_that_it_names():
    named = set(quoted(ROOT / "CONTRIBUTING.md"))

    assert {
        "commands/table.py",
        "config/config.py",
        "aws/sources/__init__.py",
    } <= named


def test_a_command_runs_and_is_in_the_help(package):
    assert run(package, "-m", "kiqbridge", "hello", "Ada") == "hello Ada\n"
    assert "greet" in run(package, "-m", "kiqbridge", "--help")


def test_a_setting_is_read_from_file_environment_and_flag_and_is_in_help_and_document(package):
    program = (
        "from kiqbridge.config.merge import merge\n"
        "read = lambda **more: merge(**{'file': {}, 'environ': {}, 'flags': {}, **more}).greeting\n"
        "print(read(), read(file={'greeting': 'a'}), read(environ={'KIQBRIDGE_GREETING': 'b'}),"
        " read(flags={'greeting': 'c'}))"
    )

    assert run(package, "-c", program) == "hello a b c\n"
    assert "--greeting WORD" in run(package, "-m", "kiqbridge", "worker", "--help")
    assert "| greeting<br>`--greeting`<br>`KIQBRIDGE_GREETING` | " in run(
        package, str(ROOT / ".make/settings_doc.py")
    )


def test_a_source_reads_its_events(package):
    program = (
        "from kiqbridge.aws.sources import read\n"
        "[record] = read({'parrot': {'class': 'Squawk'}}).records\n"
        "print(record.source, record.event)"
    )

    assert run(package, "-c", program) == "parrot {'class': 'Squawk'}\n"
