"""Which commands the parser knows: of a command line that names one, that one alone."""

import pytest

from kiqbridge.commands.cli import build_parser
from kiqbridge.commands.table import COMMANDS


@pytest.mark.parametrize("words", [[], ["--help"], ["--help", "worker"], ["no-such-command"]])
def test_help_and_errors_list_all_commands(words):
    listed = build_parser(words).format_help()

    assert [each.name for each in COMMANDS if f"\n    {each.name}" not in listed] == []


def test_a_command_that_comes_first_is_the_only_one():
    parser = build_parser(["worker", "-c", "3", "stats"])

    assert "\n    stats" not in parser.format_help()
    assert parser.parse_args(["worker", "-c", "3"]).concurrency == "3"
