"""Which commands the parser knows: of a command line that names one, that one alone; what it says of others."""

import pytest

from kiqbridge.commands.cli import build_parser, main
from kiqbridge.commands.table import groups

GROUPS = groups("")
COMMANDS = [verb for group in GROUPS.values() for verb in group]


@pytest.mark.parametrize("words", [[], ["--help"], ["--help", "worker"], ["no-such-command"]])
def test_help_and_errors_list_all_commands(words):
    listed = build_parser(words).format_help()

    assert [each.name for each in COMMANDS if f"\n  {each.name} " not in listed] == []


def test_a_command_that_comes_first_is_the_only_one():
    parser = build_parser(["worker", "-c", "3", "stats"])

    assert "\n  stats" not in parser.format_help()
    assert parser.parse_args(["worker", "-c", "3"]).concurrency == "3"


def test_help_groups_the_commands_a_line_each_on_a_terminal_of_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    blocks = build_parser([]).format_help().split("\n\n")

    listed = [block.splitlines() for block in blocks[2 : 2 + len(GROUPS)]]
    assert [(head, [line.split()[0] for line in lines]) for head, *lines in listed] == [
        (f"{title}:", [each.name for each in entries]) for title, entries in GROUPS.items()
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("qeue", "did you mean queue?"),
        ("nothing-like-it", "kiqbridge --help lists them"),
        ("queue lsit", "did you mean list?"),
        ("dead retyr --all", "did you mean retry?"),
        ("job retyr b4a577edbccf1d805744efa9", "did you mean retry?"),
        ("worker --concurency 5", "did you mean --concurrency?"),
        ("worker --concurency=5", "did you mean --concurrency?"),
        ("queue move default --too low", "required: --to; did you mean --to?"),
        ("--verson", "did you mean --version?"),
        ("web --role admn", "did you mean admin?"),
        ("completion perl", "(choose from 'bash', 'zsh', 'fish')"),
    ],
)
def test_what_is_mistyped_ends_with_2_and_a_suggestion(line, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(line.split())

    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"{said}\n")
