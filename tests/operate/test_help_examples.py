"""The examples of help texts work, and the completion knows all commands."""

import argparse
import shlex
import subprocess

import pytest
from support.documents import ROOT

from kiqbridge import Client, Schedules
from kiqbridge.client.default_client import own_default_client
from kiqbridge.commands import cli
from kiqbridge.schedule.definition import ScheduleDefinition

NOT_RUN = {
    **dict.fromkeys(("worker", "dev", "web", "alerts watch"), "it runs until it is ended"),
    "health": "it needs a worker on this machine",
    **dict.fromkeys(
        ("contract export", "contract check", "contract stubs"),
        "it imports an application's jobs; tests/features/contract/test_contract.py has one",
    ),
    "check": "it imports an application's jobs; tests/features/check/test_template_mistakes.py has one",
    **dict.fromkeys(("spill show", "spill drain", "spill replay"), "it needs a queue of AWS"),
}
"""Commands whose examples stand there and are not run here, and why; their own tests run them."""


def leaves(parser, name=""):
    """Each parser without verbs of its own, by the words that lead to it."""
    verbs = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not verbs:
        return {name.strip(): parser}
    return {
        words: leaf
        for verb, child in verbs[0].choices.items()
        for words, leaf in leaves(child, f"{name} {verb}").items()
    }


def examples_of(parser):
    """The lines that `add_example` was given."""
    heading, *lines = (parser.epilog or "").splitlines()
    assert heading == "example:"
    return [line.strip() for line in lines]


LEAVES = leaves(cli.build_parser([], complete=True))
EXAMPLES = [
    line for name, leaf in LEAVES.items() if name not in NOT_RUN for line in examples_of(leaf)
]


def test_each_command_has_an_example():
    assert [name for name, leaf in LEAVES.items() if not examples_of(leaf)] == []


def test_an_example_that_is_not_run_is_a_line_that_the_command_takes():
    for name in NOT_RUN:
        for line in examples_of(LEAVES[name]):
            cli.build_parser(name.split()).parse_args(shlex.split(line)[1:])


@pytest.fixture
def what_the_examples_name(redis, redis_url, tmp_path):
    """A job, a process, a schedule, and files."""
    (tmp_path / "template.yaml").write_bytes((ROOT / "template.yaml").read_bytes())
    (tmp_path / "crontab").write_text(
        "0 3 * * * cd /shop && bin/rails runner 'NightlyJob.perform_async'\n"
    )
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "schedule.yml").write_text("hourly: {cron: 0 * * * *, class: Hourly}\n")
    schedules = Schedules(Client(redis_url))
    jobs = ({"class": "NightlyReport", "args": []},)
    schedules.save(ScheduleDefinition(name="nightly-report", expression="0 3 * * *", jobs=jobs))
    jid = "b4a577edbccf1d805744efa9"
    redis.zadd("retry", {f'{{"class":"Mail","args":[],"jid":"{jid}","queue":"default"}}': 5})
    counts = {"created_at": 5, "sealed": 1, "total": 1, "pending": 0, "failed": 1}
    redis.hset("kb:flow:batch:f3c1577edbccf1d805744efa", mapping=counts)
    redis.hset("kb:limiters:terms", "concurrent erp", "5 0.0")
    redis.hset("kb:alerts", "rules", '{"retries": {"over": null, "for_s": 60}}')
    redis.sadd("processes", "batch-1:7:abc")
    redis.hset("batch-1:7:abc", mapping={"info": '{"hostname":"batch-1"}', "beat": 9e9})


@pytest.mark.usefixtures("what_the_examples_name")
@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_works(line, redis_url, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.chdir(tmp_path)
    program, *words = shlex.split(line.partition(" >")[0])

    for file in words[1:] if words[0] == "restore" else ():
        assert cli.main(["export", file, "--all"]) == 0
    assert program == "kiqbridge"
    with own_default_client():  # the shell's
        code = cli.main(words)
    # The doctor finds something where no worker lives; a queue that is not known yet is only a warning.
    assert code in ({0, 1} if words[0] == "doctor" else {0})
    assert not capsys.readouterr().err.startswith("kiqbridge: error")


def test_an_example_stands_in_the_help_as_it_is_to_be_typed(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["dead", "list", "--help"])

    assert ended.value.code == 0
    assert "\nexample:\n  kiqbridge dead list --class 'Mail*' " in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_knows_commands_verbs_and_options(shell, capsys):
    assert cli.main(["completion", shell]) == 0

    script = capsys.readouterr().out
    assert all(word in script for word in ("retries", "deploy-mark", "older-than", "worker"))
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_bash_completes_a_verb(capsys):
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = """
COMP_WORDS=(kiqbridge dead l); COMP_CWORD=2; COMP_LINE="kiqbridge dead l"; COMP_POINT=16
_shtab_kiqbridge; echo "${COMPREPLY[@]}"
"""
    shown = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True, check=True)

    assert shown.stdout.split() == ["list"]


def test_without_shtab_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "shtab", None)

    assert cli.main(["completion", "bash"]) == 1
    assert "pip install 'kiqbridge[cli]'" in capsys.readouterr().err
