"""Who follows the README to the letter finds `make check` and the tests as green as before.

In a copy of the repository with the README's jobs and its rule: what can notice them, in seconds.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.documents import blocks
from support.readme_followed import follow, with_rule

pytestmark = pytest.mark.slow

TEMPLATE = "tests/infra/test_template.py::TestTheTemplateAsItStands"
NOTICING = (
    "tests/features/mappings/test_mapping_check.py",
    f"{TEMPLATE}::test_the_reader_finds_the_same_rules_as_sam",
    f"{TEMPLATE}::test_the_check_of_users_finds_nothing_in_it",
)
"""Tests that read the repository's template, its jobs or its mappings, and need no server."""


@pytest.fixture(scope="module")
def followed(tmp_path_factory) -> Path:
    return follow(tmp_path_factory.mktemp("followed") / "copy")


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "worker")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"
    return done.stdout


def test_who_has_followed_it_already_follows_it_once(followed):
    [rule] = [
        block
        for block in blocks()
        if "Type: ScheduleV2" in block.text and block.document == "README.md"
    ]
    text = (followed / "template.yaml").read_text(encoding="utf-8")

    assert with_rule(text, rule) == text


def test_the_copy_has_the_jobs_and_the_rule_of_the_readme(followed):
    jobs = {path.name for path in (followed / "worker/jobs").glob("*.py")}

    assert {"greeting.py", "billing.py"} <= jobs
    assert "EnqueueFunction.Greeting " in run(followed, "kiqbridge.schedule.check", "template.yaml")


@pytest.mark.parametrize(
    "words",
    [
        ("ruff", "check"),
        ("ruff", "format", "--check"),
        ("kiqbridge", "schedule", "lint", "--template", "template.yaml"),
        (
            *("kiqbridge.features.mappings.check", "lambdas/enqueue/mappings.yml"),
            *("--template", "template.yaml"),
        ),
    ],
    ids=" ".join,
)
def test_a_check_finds_nothing(followed, words):
    run(followed, *words)


def test_the_tests_that_notice_such_files_pass(followed):
    said = run(followed, "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *NOTICING)

    assert " passed" in said
    assert " skipped" not in said
