"""The pytest plugin, in runs of pytest of its own as a user has them."""

import re
import tomllib
from pathlib import Path

import pytest
from support.plugin_run import run_pytest

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


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Of a run of the tests above."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_app.py").write_text(TESTS)
    return run_pytest(folder)


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


def test_a_project_that_does_not_use_it_loads_nothing_of_kiqbridge(tmp_path):
    (tmp_path / "test_app.py").write_text(UNUSED)

    assert "1 passed" in run_pytest(tmp_path)
