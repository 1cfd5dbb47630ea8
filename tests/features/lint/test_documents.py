"""What docs/reference/schedules.md shows of looking ahead is what the commands print."""

import re
import shlex
from pathlib import Path

import pytest

from kiqbridge.commands.cli import main
from kiqbridge.features.lint import rules

PAGE = (Path(__file__).parents[3] / "docs/reference/schedules.md").read_text(encoding="utf-8")
SECTION = re.split(r"^## ", PAGE, flags=re.MULTILINE)
[LOOK_AHEAD] = [text for text in SECTION if text.startswith("Output of the commands")]
EXAMPLES = re.findall(r"```sh\nkiqbridge ([^\n]*)\n```\n\n```text\n([^`]*)```", LOOK_AHEAD)
[SCHEDULES] = re.findall(r"this `schedules\.yml`:\n\n```text\n([^`]*)```", LOOK_AHEAD)


def test_the_page_has_examples():
    assert [command.split()[1] for command, _ in EXAMPLES] == ["list", "lint", "simulate"]


@pytest.mark.parametrize(("command", "shown"), EXAMPLES)
def test_an_example_prints_what_the_page_shows(command, shown, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schedules.yml").write_text(SCHEDULES)

    status = main(shlex.split(command))

    assert capsys.readouterr().out == shown
    assert status == (1 if "error" in shown else 0)


def test_each_code_of_a_finding_is_on_the_page():
    text = "".join(path.read_text("utf-8") for path in Path(rules.__file__).parent.glob("*.py"))

    codes = set(re.findall(r'"(KB\d{3})"', text))
    assert len(codes) > 5
    assert [code for code in codes if f"`{code}`" not in LOOK_AHEAD] == []
