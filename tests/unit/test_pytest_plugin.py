"""The pytest plugin, in a run of pytest of its own as a user has it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.documents import blocks

ROOT = Path(__file__).parents[2]


def run(folder, *arguments):
    # Without entry points: whether this environment was installed anew since one was added must not matter.
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "kiqbridge_pytest", *arguments],
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(ROOT / "worker"),
        },
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\naddopts = --import-mode=importlib\n"
    )
    return tmp_path


def test_pytest_finds_it_by_its_entry_point():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["pytest11"] == {"kiqbridge": "kiqbridge_pytest"}


def test_its_fixtures_record_perform_and_leave_nothing(project):
    (project / "test_app.py").write_text(
        """
import pytest
from kiqbridge import job, Client, RedisUnavailable
from kiqbridge.testing import drain

seen = []

@job
def note(text: str) -> None:
    seen.append(text)

def test_fake(kiqbridge_fake):
    note.perform_async("one")
    kiqbridge_fake.assert_enqueued(note, args=["one"])
    assert drain() == 1
    assert seen == ["one"]
    note.perform_async("left")

def test_next_one_begins_empty(kiqbridge_fake):
    kiqbridge_fake.assert_not_enqueued()

def test_inline(kiqbridge_inline):
    note.perform_async("two")
    assert seen == ["one", "two"]

def test_without_a_fixture_a_server_is_asked():
    with pytest.raises(RedisUnavailable):
        Client("redis://nowhere.invalid:1/0").push({"class": note, "args": ["three"]})
"""
    )

    result = run(project)

    assert "4 passed" in result.stdout, result.stdout + result.stderr


def test_a_failing_assertion_ends_at_the_line_of_the_test(project):
    (project / "test_app.py").write_text(
        "def test_fails(kiqbridge_fake):\n    kiqbridge_fake.assert_enqueued('Nop', args=[1])\n"
    )

    result = run(project)

    assert "E       AssertionError: Nop with args [1] is not enqueued." in result.stdout
    assert "asking.py" not in result.stdout
    assert "fake_jobs.py" not in result.stdout


def test_a_project_that_does_not_use_it_loads_nothing_of_kiqbridge(project):
    (project / "test_app.py").write_text(
        "import sys\n\ndef test_nothing():\n"
        "    assert [name for name in sys.modules if name.partition('.')[0] == 'kiqbridge'] == []\n"
    )

    result = run(project)

    assert "1 passed" in result.stdout, result.stdout + result.stderr


def test_the_tests_of_the_documents_pass(project):
    count = 0
    for number, block in enumerate(blocks()):
        if block.document == "docs/testing.md" and block.language == "python":
            (project / f"test_{number}.py").write_text(block.text)
            count += block.text.count("def test_")

    result = run(project)

    assert count >= 5
    assert f"{count} passed" in result.stdout, result.stdout + result.stderr
