"""docs/how_to/from_crontab.md is what happens: its crontab is imported, compared, pasted and checked here."""

import re
import shlex

import pytest
from support.documents import ROOT, blocks

from kiqbridge.commands import cli
from kiqbridge.features.shell_command.shell_job import AllowList
from kiqbridge.schedule.check import main as check

PAGE = "docs/how_to/from_crontab.md"
BLOCKS = [block for block in blocks() if block.document == PAGE]
CRONTAB, IMPORT, OUTPUT, EVENT = BLOCKS[:4]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "old.crontab").write_text(CRONTAB.text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def imported(folder, capsys):
    """What the page's command printed, and its exit code."""
    status = cli.main(shlex.split(IMPORT.text)[1:])
    return status, *capsys.readouterr()


def test_the_import_prints_what_the_page_shows_and_the_events_are_those_of_the_page(
    imported, folder
):
    assert 10 <= len(CRONTAB.text.splitlines()) <= 15
    assert imported == (1, "", OUTPUT.text)
    assert EVENT.text.rstrip("\n") in (folder / "events.yaml").read_text()


def test_what_is_pasted_passes_the_check_once_it_is_allowed(imported, folder, capsys):
    events = (folder / "events.yaml").read_text()
    text = (ROOT / "template.yaml").read_text(encoding="utf-8")
    text = text.replace("\n        HealthPulse:\n", f"\n{events}\n        HealthPulse:\n", 1)
    path = folder / "template.yaml"
    path.write_text(text)
    assert check([str(path)]) == 1
    assert "is not allowed by KIQBRIDGE_ALLOWED_CLASSES" in capsys.readouterr().out

    for name in ("CLASSES", "QUEUES"):
        [wanted] = re.findall(rf"KIQBRIDGE_ALLOWED_{name}: (.*)", events)
        names = ", ".join(f'"{each}"' for each in wanted.split(", "))
        text = text.replace(
            f", !Ref Allowed{name.capitalize()}]", f", {names}, !Ref Allowed{name.capitalize()}]", 1
        )
    path.write_text(text)

    assert check([str(path)]) == 0, capsys.readouterr().out
    assert (
        "EnqueueFunction.NightlyReportJob  cron(0 3 * * ? *)  Europe/Paris"
        in capsys.readouterr().out
    )


def test_the_command_is_allowed_as_the_page_says():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    [entry] = re.findall(r"`KIQBRIDGE_SHELL_COMMANDS=(.+?)`", page)

    assert entry in CRONTAB.text
    assert AllowList([entry]).argv_of(entry) == shlex.split(entry)


def test_it_can_be_dynamic_as_well(folder, capsys):
    assert cli.main(["schedule", "import", "old.crontab", "--dynamic", "--output", "d.yml"]) == 1
    assert "SearchReindexJob:" in (folder / "d.yml").read_text()
