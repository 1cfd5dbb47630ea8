"""The pytest plugin, in runs of pytest of its own as a user has them."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.documents import blocks

from kiqbridge import seams

ROOT = Path(__file__).parents[3]

TESTS = """
import os

import pytest
from kiqbridge import Client, RedisUnavailable, job
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


def test_server(kiqbridge_redis):
    assert os.environ["REDIS_URL"] == kiqbridge_redis.url
    note.perform_async("three")
    assert drain() == 1
    assert seen == ["one", "two", "three"]
    note.perform_async("left")


def test_next_one_finds_an_empty_server(kiqbridge_redis):
    assert kiqbridge_redis.client.pool.call("DBSIZE") == 0


def test_without_a_fixture_a_server_is_asked():
    with pytest.raises(RedisUnavailable):
        Client("redis://nowhere.invalid:1/0").push({"class": note, "args": ["four"]})


def test_that_fails(kiqbridge_fake):
    kiqbridge_fake.assert_enqueued("Nop", args=[1])
"""

UNUSED = """
import sys


def test_nothing_of_kiqbridge_is_loaded():
    assert [name for name in sys.modules if name.partition(".")[0] == "kiqbridge"] == []
"""


def run(folder: Path) -> str:
    """What pytest prints about the tests there."""
    (folder / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\naddopts = --import-mode=importlib -rA\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "kiqbridge_pytest"],
        env={
            **os.environ,
            # Without entry points: whether this environment was installed anew since one was added
            # must not matter.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(ROOT / "worker"),
        },
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Of a run of the tests above, and of those of the documents."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_app.py").write_text(TESTS)
    for number, block in enumerate(of_documents()):
        (folder / f"test_document_{number}.py").write_text(block.text)
    return run(folder)


def of_documents():
    return [
        block
        for block in blocks()
        if block.document == "docs/testing.md" and block.language == "python"
        if "cron=" not in block.text or seams.named("dynamic")
    ]


def test_pytest_finds_it_by_its_entry_point():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["pytest11"] == {"kiqbridge": "kiqbridge_pytest"}


@pytest.mark.parametrize("name", re.findall(r"def (test_\w+)\(", TESTS)[:-1])
def test_its_fixtures_record_perform_and_leave_nothing(output, name):
    assert f"PASSED test_app.py::{name}\n" in output


def test_a_failing_assertion_ends_at_the_line_of_the_test(output):
    assert "FAILED test_app.py::test_that_fails" in output
    assert "E       AssertionError: Nop with args [1] is not enqueued." in output
    assert "fake_jobs.py" not in output


def test_the_tests_of_the_documents_pass(output):
    count = sum(block.text.count("def test_") for block in of_documents())

    assert count >= 5
    assert output.count("PASSED test_document_") == count, output


def test_a_project_that_does_not_use_it_loads_nothing_of_kiqbridge(tmp_path):
    (tmp_path / "test_app.py").write_text(UNUSED)

    assert "1 passed" in run(tmp_path)
