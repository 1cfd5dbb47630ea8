"""Scripts that come with the package, for the Makefile of an app."""

import os
import subprocess
import sys

import pytest

from kiqbridge.errors import ConfigError
from kiqbridge.scaffold import run_script
from kiqbridge.scaffold.run_script import command_of, environment, main


def run(*words, **variables):
    return subprocess.run(
        [sys.executable, "-m", "kiqbridge.scaffold.run_script", *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_gets_its_words_and_gives_its_exit_code(tmp_path):
    done = run("lambda.sh", "nothing", ARTIFACTS_DIR=str(tmp_path))

    assert done.returncode == 2
    assert "lambda.sh: nothing is not known" in done.stderr


@pytest.mark.parametrize("name", ["lambda.sh", "deploy.sh", "foreground.py"])
def test_what_the_makefile_of_an_app_calls_is_there(name):
    command = command_of([name, "one", "two"])

    assert command[2:] == ["one", "two"]
    assert (sys.executable == command[0]) is name.endswith(".py")


@pytest.mark.parametrize("words", [[], ["../../etc/passwd"], ["none.sh"]])
def test_another_name_is_refused(words, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(("usage: ", "error: "))


def test_what_the_environment_names_is_taken():
    given = environment({"LAMBDA_ARCHITECTURE": "x86_64", "LAMBDA_PYTHON": ""})

    assert given["LAMBDA_ARCHITECTURE"] == "x86_64"
    assert given["LAMBDA_PYTHON"] == "3.13"
    assert given["BUILD_PYTHON"] == given["MAPPINGS_PYTHON"] == sys.executable


def test_an_installation_without_template_says_where_there_is_one(monkeypatch, tmp_path):
    monkeypatch.setattr(run_script, "_CHECKOUT", tmp_path)

    with pytest.raises(ConfigError, match="as in a layer or an image"):
        run_script.shipped_root()
