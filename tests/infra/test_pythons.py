"""Which Python the Makefile takes, and its run of the tests on each of them."""

import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FIND = ROOT / ".make/python.sh"
TEST = ROOT / ".make/test_pythons.sh"
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"


OF_DEBIAN_12 = "3.11.2"
"""The oldest Python that a user has without building one."""


def test_what_is_installed_for_the_tests_also_runs_on_the_oldest_python():
    asked = {each.name: each.metadata["Requires-Python"] or "" for each in distributions()}

    assert len(asked) > 50
    assert [
        name for name, python in asked.items() if OF_DEBIAN_12 not in SpecifierSet(python)
    ] == []


def write_command(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def run(tmp_path):
    """Runs a script where no Python is installed but those that a test puts there."""

    def run(script, *arguments, cwd=tmp_path, **variables):
        env = {
            "PATH": f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "HOME": str(tmp_path),
            **variables,
        }
        return subprocess.run(
            [script, *arguments],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


class TestFinding:
    def test_a_path_and_a_command_are_found(self, run, tmp_path):
        write_command(tmp_path / "bin/python3.77", f'exec "{sys.executable}" "$@"')

        assert run(FIND, "find", sys.executable).stdout == f"{sys.executable}\n"
        assert run(FIND, "find", "3.77").stdout == f"{tmp_path / 'bin/python3.77'}\n"

    @pytest.mark.parametrize("name", ["3.77", "python3.77"])
    def test_a_command_that_does_not_run_is_looked_for_where_pyenv_keeps_its_pythons(
        self, run, tmp_path, name
    ):
        write_command(tmp_path / "bin/python3.77", "exit 127")
        kept = tmp_path / ".pyenv/versions/3.77.2/bin/python"
        write_command(kept, f'exec "{sys.executable}" "$@"')

        assert run(FIND, "find", name).stdout == f"{kept}\n"

    @pytest.mark.parametrize("name", ["3.77", "python3.77", "/nowhere/python", "false"])
    def test_what_is_no_python_ends_with_1(self, run, name):
        done = run(FIND, "find", name)

        assert (done.returncode, done.stdout) == (1, "")

    def test_the_first_version_gets_the_ordinary_environment_and_others_their_own(
        self, run, tmp_path
    ):
        assert run(FIND, "venv", sys.executable).stdout == ".venv\n"

        write_command(tmp_path / ".venv/bin/python", f"echo {THIS}")
        assert run(FIND, "venv", sys.executable).stdout == ".venv\n"

        write_command(tmp_path / ".venv/bin/python", "echo 3.77")
        assert run(FIND, "venv", sys.executable).stdout == f".venv-{THIS}\n"

    def test_make_refuses_a_python_that_there_is_not(self, run):
        done = run("make", "-n", "test", "PYTHON=python3.77", cwd=ROOT)

        assert done.returncode == 2
        assert "PYTHON=python3.77 is no Python 3.11 or newer" in done.stderr


class TestTestingOnEach:
    @pytest.fixture
    def make(self, tmp_path):
        """Stands for `make`: prints what pytest prints last, and ends with STATUS."""
        command = tmp_path / "make"
        write_command(command, 'echo "2 failed, 5 passed in 1.50s"', 'exit "$STATUS"')
        return str(command)

    @pytest.mark.parametrize(("status", "word"), [("0", "passed"), ("2", "FAILED")])
    def test_each_has_a_line_and_what_is_missing_is_reported(
        self, run, tmp_path, make, status, word
    ):
        write_command(tmp_path / "bin/python3.77", f'exec "{sys.executable}" "$@"')

        done = run(TEST, "3.77", "3.78", "3.79", cwd=ROOT, MAKE=make, STATUS=status)

        version = ".".join(map(str, sys.version_info[:3]))
        assert done.stdout.endswith(
            f"== all Pythons\n{version} {word}: 2 failed, 5 passed in 1.50s\n"
            "NOT FOUND, NOT TESTED: Python 3.78 3.79 (install it with apt, pyenv or uv)\n"
        )
        assert done.returncode == (1 if word == "FAILED" else 0)

    def test_a_run_that_tests_nothing_is_a_failure(self, run, tmp_path):
        write_command(tmp_path / "bin/python3.77", f'exec "{sys.executable}" "$@"')
        write_command(tmp_path / "make", "echo nothing")

        done = run(TEST, "3.77", cwd=ROOT, MAKE=str(tmp_path / "make"))

        assert done.returncode == 1
        assert "no test ran" in done.stdout


def test_an_environment_whose_python_is_gone_is_made_anew(run, tmp_path):
    write_command(tmp_path / "python")
    stamps = []
    for stamp, python in (
        (".venv/.up", "/nowhere/python"),
        (".venv/.test", "/nowhere/python"),
        (".venv-sam/.sam", tmp_path / "python"),
    ):
        stamps.append(tmp_path / stamp)
        link = stamps[-1].parent / "bin/python"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(python)
        stamps[-1].touch()

    assert run("make", "-f", str(ROOT / "Makefile"), "help").returncode == 0

    assert [stamp.exists() for stamp in stamps] == [False, False, True]
