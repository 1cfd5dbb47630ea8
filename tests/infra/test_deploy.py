"""`make deploy`: asks the first time, remembers the answers outside of git, and asks no more."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ANSWERED = (
    'parameter_overrides = "AllowedClasses=\\"*\\" Architecture=\\"arm64\\" LogLevel=\\"INFO\\""\n'
)


@pytest.fixture
def folder(tmp_path):
    """A checkout with a `sam` that tells how it was called."""
    (tmp_path / ".make").mkdir()
    shutil.copy(ROOT / ".make/deploy.sh", tmp_path / ".make")
    shutil.copy(ROOT / "samconfig.toml", tmp_path)
    sam = tmp_path / ".venv-sam/bin/sam"
    sam.parent.mkdir(parents=True)
    sam.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    sam.chmod(0o755)
    return tmp_path


def deploy(folder, *arguments, architecture="arm64"):
    return subprocess.run(
        [".make/deploy.sh", *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "LAMBDA_ARCHITECTURE": architecture},
        capture_output=True,
        text=True,
        check=False,
    )


def answers(folder):
    return folder / "samconfig.local.toml"


def test_the_first_time_sam_asks_and_keeps_the_answers_in_a_file_of_its_own(folder):
    run = deploy(folder)

    assert run.stdout.split() == ["deploy", "--config-file", str(answers(folder)), "--guided"]
    assert answers(folder).read_bytes() == (ROOT / "samconfig.toml").read_bytes()


def test_it_asks_again_until_there_are_answers(folder):
    deploy(folder)

    assert "--guided" in deploy(folder).stdout


def test_afterwards_it_deploys_with_them(folder):
    deploy(folder)
    with answers(folder).open("a", encoding="utf-8") as file:
        file.write(ANSWERED)

    assert deploy(folder).stdout.split() == ["deploy", "--config-file", str(answers(folder))]
    assert deploy(folder, "--guided").stdout.split()[-1] == "--guided"


def test_a_build_for_another_processor_is_not_deployed(folder):
    answers(folder).write_text(ANSWERED, encoding="utf-8")

    run = deploy(folder, architecture="x86_64")

    assert run.returncode == 2
    assert run.stdout == ""
    assert "LAMBDA_ARCHITECTURE" in run.stderr


def test_git_ignores_the_answers():
    assert "/samconfig.local.toml" in (ROOT / ".gitignore").read_text(encoding="utf-8").split()


def test_make_deploy_builds_first():
    run = subprocess.run(
        ["make", "-n", "deploy", "ARGS=--guided"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout.index(" build ") < run.stdout.index(".make/deploy.sh --guided")
