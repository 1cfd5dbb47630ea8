"""The files of a new app, and the script that its Makefile calls."""

import os
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from kiqbridge import __version__
from kiqbridge.dev.scaffold import app_files as module
from kiqbridge.dev.scaffold import run_script
from kiqbridge.dev.scaffold.app_files import App, app_files
from kiqbridge.dev.scaffold.run_script import command_of, environment, main, shipped_root
from kiqbridge.errors import ConfigError
from kiqbridge.schedule.check import allow_list_problems
from kiqbridge.schedule.template import read_schedules


@pytest.fixture(scope="module")
def files():
    return app_files(App(name="shop"))


def test_no_sign_of_a_pattern_is_left(files):
    for each in (files, app_files(App(name="shop", with_lambda=False))):
        for path, text in each.items():
            assert not re.search(r"\{\{(lambda|plain|name|version)|(lambda|plain)\}\}", text), path
            assert text.endswith("\n"), path


def test_the_app_has_its_name_and_our_version(files):
    project = tomllib.loads(files["pyproject.toml"])["project"]

    assert project["name"] == "shop"
    assert project["dependencies"] == [f"kiqbridge[aws,worker]=={__version__}"]
    assert f"kiqbridge[local,testing]=={__version__}" in project["optional-dependencies"]["dev"]
    assert f"kiqbridge[lambda]=={__version__}" in files["lambdas/requirements.txt"]
    assert (
        tomllib.loads(files["samconfig.toml"])["default"]["global"]["parameters"]["stack_name"]
        == "shop"
    )


def test_functions_and_nested_templates_are_those_of_the_repository(files):
    root = shipped_root()

    assert files["lambdas/enqueue/app.py"] == (root / "lambdas/enqueue/app.py").read_text("utf-8")
    assert files["infra/redis.yaml"] == (root / "infra/redis.yaml").read_text("utf-8")
    functions = {path.split("/")[1] for path in files if re.fullmatch(r"lambdas/\w+/app\.py", path)}
    assert functions == {path.parent.name for path in root.glob("lambdas/*/app.py")}


def test_the_template_fires_the_app_s_rule_and_nothing_of_the_repository(files, tmp_path):
    template = tmp_path / "template.yaml"
    template.write_text(files["template.yaml"], encoding="utf-8")

    [rule] = read_schedules(template)

    assert [job["class"] for job in rule.jobs] == ["DailyReport"]
    assert allow_list_problems([rule]) == []
    for path in ("template.yaml", "infra/worker_service.yaml", "Dockerfile", "Makefile"):
        assert "worker/jobs" not in files[path]
        assert "NightlyReport" not in files[path]


def test_the_layer_and_each_function_have_a_target_that_sam_build_calls(files):
    built = re.findall(
        r"^  (\w+):\n    Type: AWS::Serverless::(?:Function|LayerVersion)$",
        files["template.yaml"] + files["infra/functions.yaml"],
        re.MULTILINE,
    )

    assert len(built) == 5
    for name in built:
        assert f"\nbuild-{name}:\n" in files["Makefile"]


def test_without_lambda_nothing_of_aws_is_there():
    files = app_files(App(name="shop", with_lambda=False))

    assert {path.split("/")[0] for path in files}.isdisjoint({"template.yaml", "lambdas", "infra"})
    assert "sam" not in files["Makefile"]
    assert "AWS" not in files["README.md"]
    assert yaml.safe_load(files["kiqbridge.yml"])


def test_only_the_enqueue_function_s_own_rules_are_replaced():
    text = (shipped_root() / "template.yaml").read_text(encoding="utf-8")
    other = "  Other:\n    Type: AWS::Serverless::Function\n    Properties:\n      Events:\n        Mine: {}\n"
    more = text.replace("\nOutputs:\n", f"\n{other}\nOutputs:\n")
    assert more != text
    made = module._template(more, App(name="shop"))
    assert "        Mine: {}\n" in made
    assert "        DailyReport:\n" in made
    with pytest.raises(ConfigError, match="is not as it was shipped"):
        module._template("Resources: {}\n", App(name="shop"))


def run(*words, **variables):
    return subprocess.run(
        [sys.executable, "-m", "kiqbridge.dev.scaffold.run_script", *words],
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
def test_what_the_makefile_of_an_app_calls_is_there_and_another_name_refused(name, capsys):
    command = command_of([name, "one", "two"])
    assert command[2:] == ["one", "two"]
    assert (sys.executable == command[0]) is name.endswith(".py")
    for words in ([], ["../../etc/passwd"], ["none.sh"]):
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
