"""The command that writes the manifest into the layer, and the version that it gives."""

import json
import os
import subprocess

import pytest
from support.project import template_text

from kiqbridge.commands.cli import main
from kiqbridge.features.publishing.command import manifest_of

pytestmark = pytest.mark.slow


@pytest.fixture
def template(tmp_path, monkeypatch):
    """A copy of the template, in a folder where git knows nothing, changed at a known time."""
    path = tmp_path / "template.yaml"
    path.write_text(template_text(), encoding="utf-8")
    os.utime(path, (1_600_000_000, 1_600_000_000))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    return path


def commit(template, at):
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for arguments in (["init", "-q"], ["add", "template.yaml"], [*who, "commit", "-qm", "x"]):
        subprocess.run(
            ["git", *arguments],
            cwd=template.parent,
            env={**os.environ, "GIT_COMMITTER_DATE": f"@{at} +0000"},
            check=True,
        )


def write(template, output):
    return main(["schedule", "publish", "--template", str(template), "--output", str(output)])


def version(template, answers=None, **environ):
    return manifest_of(template, answers, environ).version


def test_without_git_it_is_the_time_of_the_file(template):
    assert version(template) == 1_600_000_000


def test_it_is_the_time_of_the_commit_wherever_the_folder_lies(template, tmp_path):
    commit(template, 1_650_000_000)
    os.utime(template)
    (tmp_path / "other").write_text("not committed")

    assert version(template) == 1_650_000_000


def test_a_change_that_is_not_committed_counts_with_its_own_time(template):
    commit(template, 1_500_000_000)
    with template.open("a") as file:
        file.write("# changed\n")
    os.utime(template, (1_550_000_000, 1_550_000_000))

    assert version(template) == 1_550_000_000


def test_the_environment_decides_first(template):
    commit(template, 1_650_000_000)

    assert version(template, SOURCE_DATE_EPOCH="1700000000") == 1_700_000_000


class TestAnswersOfTheDeployment:
    @pytest.fixture
    def answers(self, template):
        text = template.read_text()
        rule = "ScheduleExpression: cron(0 3 * * ? *)"
        assert rule in text
        text = text.replace(rule, "ScheduleExpression: !Sub cron(0 ${Hour} * * ? *)", 1)
        template.write_text(
            text.replace("Parameters:\n", 'Parameters:\n  Hour: {Type: String, Default: "3"}\n', 1)
        )
        os.utime(template, (1_600_000_000, 1_600_000_000))

        def answer(overrides):
            path = template.parent / "samconfig.local.toml"
            content = f"[default.deploy.parameters]\nparameter_overrides = '{overrides}'\n"
            path.write_text(content)
            os.utime(path, (1_640_000_000, 1_640_000_000))
            return path

        return answer

    def test_those_that_change_a_schedule_count_with_their_time(self, template, answers):
        found = manifest_of(template, answers('Hour="4"'), {})

        assert found.version == 1_640_000_000
        assert "cron(0 4 * * ? *)" in found.to_text()

    def test_others_do_not(self, template, answers):
        assert version(template, answers('LogLevel="DEBUG"')) == 1_600_000_000

    def test_before_the_first_deployment_there_are_none(self, template):
        assert version(template, template.parent / "samconfig.local.toml") == 1_600_000_000


class TestCommand:
    def test_it_writes_the_same_file_again_and_again(self, template, tmp_path):
        outputs = [tmp_path / "one.json", tmp_path / "two.json"]

        for output in outputs:
            assert write(template, output) == 0

        assert outputs[0].read_bytes() == outputs[1].read_bytes()
        assert json.loads(outputs[0].read_bytes())["version"] == 1_600_000_000

    def test_a_template_with_faults_writes_nothing_and_names_them(self, template, tmp_path, capsys):
        text = template.read_text().replace("cron(0 3 * * ? *)", "cron(0 3 * * * *)", 1)
        template.write_text(text)

        assert write(template, tmp_path / "out") == 1
        assert "template.yaml:" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    def test_a_time_that_is_none_is_refused(self, template, tmp_path, capsys, monkeypatch):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")

        assert write(template, tmp_path / "out") == 1
        assert "SOURCE_DATE_EPOCH: 'yesterday' is no number" in capsys.readouterr().err
