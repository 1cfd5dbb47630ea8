"""mypy --strict and pyright's strict mode find the same mistakes in users' code, and nothing else.

The pyright is basedpyright's: the same rules in the mode `strict`, and its package brings what it needs to run
without a network.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.any_python]

ROOT = Path(__file__).parents[3]
FILES = [
    *(ROOT / "tests" / "typing" / name for name in ("good.py", "mistakes.py")),
    *sorted((ROOT / "tests/features").glob("*/typed*.py")),
]
MARK = "  # E"
LEAST = 20


def mypy(tmp_path):
    """Of each file and line what is wrong with it."""
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = true\n", encoding="utf-8")
    command = ["mypy", "--config-file", settings, "--no-error-summary", "--hide-error-context"]
    cache = ["--cache-dir", ROOT / ".mypy_cache" / "typing"]
    result = run([*command, *cache, "--no-pretty", *FILES], cwd=ROOT / "worker")
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", result.stdout, re.MULTILINE)
    assert result.stderr == ""
    return [((ROOT / "worker" / path).resolve(), int(line), text) for path, line, text in found]


def pyright(tmp_path):
    """The same."""
    settings = {
        "typeCheckingMode": "strict",
        "include": [str(path) for path in FILES],
        "extraPaths": [str(ROOT / "worker")],
    }
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(settings), encoding="utf-8")
    command = ["basedpyright", "--outputjson", "--project", project, "--pythonpath", sys.executable]
    output = json.loads(run(command, cwd=tmp_path).stdout)
    assert output["summary"]["filesAnalyzed"] == len(FILES)
    return [
        (Path(each["file"]).resolve(), each["range"]["start"]["line"] + 1, each["message"])
        for each in output["generalDiagnostics"]
    ]


def run(command, cwd):
    return subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)
def test_each_mistake_is_found_and_nothing_else(checker, tmp_path, tell):
    marked = {
        (path, number)
        for path in FILES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if line.endswith(MARK)
    }

    found = defaultdict(list)
    for path, line, text in checker(tmp_path):
        found[path, line].append(text)

    assert len(marked) >= LEAST
    assert {place: texts for place, texts in found.items() if place not in marked} == {}
    assert sorted(marked - found.keys()) == []
    tell(f"typing: {checker.__name__} found {len(found)} of {len(marked)} deliberate mistakes")
