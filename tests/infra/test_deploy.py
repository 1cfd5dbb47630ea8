"""`make deploy`: asks the first time, remembers the answers outside of git, and asks no more."""

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import lay_out

from kiqbridge.schedule.check import main as schedule_check

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ANSWERED = (
    'parameter_overrides = "AllowedClasses=\\"*\\" Architecture=\\"arm64\\" LogLevel=\\"INFO\\""\n'
)


@pytest.fixture
def folder(tmp_path):
    """A checkout with a `sam` that prints how it was called."""
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


def test_a_build_for_another_python_is_not_deployed(folder):
    with_runtime = ANSWERED.replace("LogLevel", 'Runtime=\\"python3.12\\" LogLevel')
    answers(folder).write_text(with_runtime, encoding="utf-8")

    run = deploy(folder)

    assert (run.returncode, run.stdout) == (2, "")
    assert "LAMBDA_PYTHON" in run.stderr


def test_git_ignores_the_answers():
    assert "/samconfig.local.toml" in (ROOT / ".gitignore").read_text(encoding="utf-8").split()


def test_make_deploy_checks_and_builds_first():
    run = subprocess.run(
        ["make", "-n", "deploy", "ARGS=--guided"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )

    commands = run.stdout
    checked, built = commands.index("check_template.py"), commands.index(" build ")
    compared = commands.index("--answers samconfig.local.toml")
    assert compared < checked < built < commands.index(".make/deploy.sh --guided")


class TestPublishingAfterwards:
    """The function publishes the schedules at once; what fails then fails no deployment."""

    @pytest.fixture
    def python(self, folder):
        """A Python of SAM's tools that prints what it runs, and fails at some of it."""
        shutil.copy(ROOT / ".make/publish.py", folder / ".make")
        answers(folder).write_text(ANSWERED, encoding="utf-8")

        def python(*, failing="none"):
            path = folder / ".venv-sam/bin/python"
            path.write_text(
                f'#!/bin/sh\necho "$(basename $1)"\n[ "$(basename $1)" != {failing} ]\n'
            )
            path.chmod(0o755)

        return python

    def test_it_follows_the_deployment(self, folder, python):
        python()

        assert deploy(folder).stdout.split() == ["guided.py", "publish.py"]

    def test_not_one_that_failed(self, folder, python):
        python(failing="guided.py")

        run = deploy(folder)

        assert run.returncode != 0
        assert run.stdout.split() == ["guided.py"]

    def test_without_aws_it_says_that_the_function_does_it_later(self, folder, python):
        python()

        run = subprocess.run(
            [sys.executable, ".make/publish.py", str(answers(folder))],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )

        assert run.stdout == ""
        assert "the function publishes them at its next event" in run.stderr

    @pytest.mark.parametrize(
        ("outcome", "says"),
        [
            ("published", "schedules: 4 published (version 2)"),
            ("unchanged", "schedules: 4 unchanged (version 2)"),
            (
                "older",
                "schedules: version 2 is older than version 3, which stays published; if this",
            ),
        ],
    )
    def test_it_prints_what_the_function_answers(self, outcome, says):
        spec = importlib.util.spec_from_file_location("publish", ROOT / ".make/publish.py")
        publish = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(publish)

        answer = {"outcome": outcome, "version": 2, "standing": 3, "schedules": 4}
        assert publish.sentence(answer).startswith(says)


class TestAnswersOlderThanTheRules:
    """What is remembered was complete when it was given; rules that came later are compared with it."""

    @pytest.fixture
    def project(self, tmp_path):
        """A template whose lists are parameters, as users may write it, and a rule of a class that is new."""
        template = lay_out(tmp_path)
        lists = re.sub(
            r"!Join\n +- \",\"\n +- \[.*, !Ref (Allowed\w+)\]", r"!Ref \1", template.read_text()
        )
        assert lists.count("ALLOWED_CLASSES: !Ref AllowedClasses") == 1
        template.write_text(lists, encoding="utf-8")
        return tmp_path

    def check(self, project, parameter_overrides, capsys):
        (project / "samconfig.local.toml").write_text(
            f"[default.deploy.parameters]\nparameter_overrides = {json.dumps(parameter_overrides)}\n",
            encoding="utf-8",
        )
        arguments = [str(project / "template.yaml")]
        code = schedule_check([*arguments, "--answers", str(project / "samconfig.local.toml")])
        return code, capsys.readouterr().out

    @pytest.mark.parametrize("form", [" ".join, list], ids=["text", "list"])
    def test_a_class_that_they_lack_is_refused_by_name(self, project, capsys, form):
        answers = ['AllowedClasses="NightlyReport,Billing::*"', 'AllowedQueues="*"']
        answers = answers if form is not list else [answer.replace('"', "") for answer in answers]

        code, out = self.check(project, form(answers), capsys)

        assert code == 1
        assert "'HealthPulse' is not allowed by KIQBRIDGE_ALLOWED_CLASSES" in out
        assert "or to the parameter AllowedClasses" in out
        assert "NightlyReport'" not in out

    def test_complete_ones_are_taken_also_beside_parameters_that_are_gone(self, project, capsys):
        answers = 'AllowedClasses="*" AllowedQueues="*" Gone="1"'

        code, out = self.check(project, answers, capsys)

        assert code == 0, out

    def test_a_broken_file_is_reported(self, project, capsys):
        (project / "samconfig.local.toml").write_text("= broken", encoding="utf-8")

        code = schedule_check(
            [str(project / "template.yaml"), "--answers", str(project / "samconfig.local.toml")]
        )

        assert code == 1
        assert "run make deploy ARGS=--guided" in capsys.readouterr().out

    def test_before_the_first_answers_the_defaults_count(self, tmp_path, capsys):
        template = lay_out(tmp_path)

        assert schedule_check([str(template), "--answers", str(tmp_path / "none.toml")]) == 0

    def test_the_template_s_own_lists_follow_its_rules_whatever_is_remembered(
        self, tmp_path, capsys
    ):
        shutil.copy(ROOT / "template.yaml", tmp_path)

        code, out = self.check(tmp_path, 'AllowedClasses="Old" AllowedQueues="old"', capsys)

        assert code == 0, out


class TestGuided:
    """SAM's own questions, with a terminal that only presses Enter or types."""

    SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import click, guided
from samcli.commands.deploy import guided_context
from samcli.commands.deploy.guided_context import GuidedContext

typed = sys.argv[2]
click.termui.hidden_prompt_func = lambda text: print(text) or typed
click.termui.visible_prompt_func = lambda text: print(text) or ""
guided_context.prompt = guided.prompt
ask = guided.without_empty_secrets(GuidedContext.prompt_parameters)
context = GuidedContext.__new__(GuidedContext)
parameters = {"RedisUrl": {"NoEcho": True, "Default": "none"}, "LogLevel": {"Default": "INFO"}}
print(ask(context, parameters, {}, "", ""))
"""

    @pytest.mark.parametrize(
        ("typed", "answer"),
        [("", None), ("rediss://host", {"Value": "rediss://host", "Hidden": True})],
        ids=["enter", "an address"],
    )
    def test_enter_leaves_a_hidden_parameter_as_it_is(self, tmp_path, typed, answer):
        python = ROOT / ".venv-sam/bin/python"
        if not python.exists():
            pytest.skip("there is no .venv-sam: make check makes it")
        run = subprocess.run(
            [python, "-c", self.SCRIPT, ROOT / ".make", typed],
            capture_output=True,
            text=True,
            check=True,
        )

        *asked, answers = run.stdout.splitlines()
        answers = ast.literal_eval(answers)
        assert "Enter: as deployed, or the template's default" in asked[0]
        assert answers.get("RedisUrl") == answer
        assert answers["LogLevel"] == {"Value": "INFO", "Hidden": False}
