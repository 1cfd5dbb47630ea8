"""`kiqbridge schedule import` on the command line, held against the template's own checks."""

import json
from functools import partial
from pathlib import Path

import pytest
import yaml
from support.project import template_text

from kiqbridge.features.imports.kinds import guess_kind
from kiqbridge.schedule.template import read_schedules

FORTY = Path(__file__).parent / "imports_files" / "crontab"


@pytest.fixture
def run(run):
    return partial(run, "schedule", "import")


@pytest.fixture
def crontab(tmp_path):
    def write(text):
        path = tmp_path / "crontab"
        path.write_text(text)
        return path

    return write


def pasted(tmp_path, events):
    """The template with these events under its enqueue function's."""
    text = template_text()
    marker = "\n        NightlyReport:\n"
    assert text.count(marker) == 1
    path = tmp_path / "template.yaml"
    path.write_text(text.replace(marker, f"\n{events}{marker}", 1), encoding="utf-8")
    return path


def test_forty_lines_fire_for_400_days_as_before(run):
    status, out, _ = run(FORTY, "--verify", "400d", "--json")
    found = json.loads(out)
    compared = [each["verification"] for each in found["schedules"]]

    assert status == 1  # something is refused
    assert len(found["schedules"]) + len(found["refused"]) == 40
    assert [each["line"] for each in found["refused"]] == [47, 48, 49, 50]
    assert all(each["not_compared"] == "" for each in compared)
    assert sum(each["old"] for each in compared) > 240_000
    assert all(each["reason"] for one in compared for each in one["differences"])


def test_the_events_of_forty_lines_pass_the_checks_of_a_template(run, tmp_path):
    before = {each.name for each in read_schedules(pasted(tmp_path, ""))}
    _, out, _ = run(FORTY, "--json")
    wanted = {
        name: (expression, each["timezone"], each["job"], next(iter(each["events"])))
        for each in json.loads(out)["schedules"]
        for name, expression in each["events"].items()
    }

    _, events, _ = run(FORTY)
    read = read_schedules(pasted(tmp_path, events))

    found = {
        each.name: (each.expression_text, each.timezone, each.jobs[0])
        for each in read
        if each.name not in before
    }
    for name, (expression, zone, job, shared) in wanted.items():
        ticked = job | {
            "tick": {"schedule": f"kiqbridge/{shared}", "at": "<aws.scheduler.scheduled-time>"}
        }
        assert found[name] == (expression, zone, ticked)
    assert len(found) == len(wanted)


def test_what_cloudformation_would_fill_in_stays_as_it_is(run, crontab, tmp_path):
    command = "echo ${AWS::Region} ${X} <aws.scheduler.scheduled-time> '\"' \\\\ ü"
    _, events, _ = run(crontab(f'# a: "b" ${{c}} {{d}} #e\n0 3 * * * {command}\n'))

    [found] = [each for each in read_schedules(pasted(tmp_path, events)) if each.name == "Echo"]

    assert found.jobs[0]["args"] == [command]


def test_two_of_one_name_are_told_apart(run, crontab):
    path = crontab("0 3 * * * a\n0 4 * * * a\n0 5 * * * a2\n")
    _, out, _ = run(path, "--json")

    assert [each["name"] for each in json.loads(out)["schedules"]] == ["A", "A2", "A22"]


def test_dynamic_keeps_what_eventbridge_cannot_say(run, crontab):
    path = crontab("# every other\n0 0 */2 * 1 bin/rails runner 'A.perform_async(1)'\n")

    assert run(path)[0] == 1
    status, out, _ = run(path, "--dynamic", "--timezone", "Europe/Paris", "--verify", "30d")

    assert status == 0
    assert yaml.safe_load(out) == {
        "A": {
            "expression": "0 0 */2 * 1",
            "timezone": "Europe/Paris",
            "class": "A",
            "args": [1],
            "queue": "default",
            "description": "every other",
        }
    }


def test_either_day_field_becomes_events_of_which_no_two_are_due_at_once(run, crontab):
    path = crontab("0 7 1,15 * 1 bin/rails runner 'A.perform_async'\n")
    status, out, err = run(path, "--verify", "3650d", "--json")
    [found] = json.loads(out)["schedules"]

    assert status == 0, err
    assert len(found["events"]) > 1
    assert found["verification"]["differences"] == []


def test_strict_writes_nothing_when_something_is_refused(run, crontab, tmp_path):
    path = crontab("@reboot x\n0 3 * * * y\n")
    target = tmp_path / "events.yaml"

    status, out, err = run(path, "--strict", "--output", target)

    assert (status, out) == (1, "")
    assert not target.exists()
    assert "refused: line 1: @reboot x" in err
    assert run(path, "--output", target)[0] == 1
    assert "ScheduleV2" in target.read_text()


def test_a_dry_run_only_reports(run, crontab, tmp_path):
    target = tmp_path / "events.yaml"

    status, out, err = run(crontab("0 3 * * * y\n"), "--dry-run", "--output", target)

    assert (status, out, target.exists()) == (0, "", False)
    assert "1 schedules as 1 events, 0 refused" in err


def test_commands_are_listed_for_the_allow_list(run, crontab):
    _, _, err = run(crontab("0 3 * * * y\n0 4 * * * y\n0 5 * * * z | w\n"))

    assert "KIQBRIDGE_SHELL_COMMANDS" in err
    assert err.count("    y\n") == 1
    assert "    z | w\n" in err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["/nowhere/crontab"], "No such file"),
        (["{}", "--kind", "crontab"], "no crontab"),
        (["{}"], "give --kind"),
        (["{}", "--timezone", "Mars/Base"], "Mars/Base"),
        (["{}", "--verify", "0"], "no whole number from 1 to 3,660"),
        (["{}", "--kind", "at"], "invalid choice"),
    ],
)
def test_what_cannot_be_read_ends_with_2(run, crontab, words, reason):
    path = crontab("nothing at all\n")

    status, out, err = run(*(word.format(path) for word in words))

    assert (status, out) == (2, "")
    assert reason in err


def test_bytes_that_are_no_text_end_with_2(run, tmp_path):
    path = tmp_path / "crontab"
    path.write_bytes(b"0 3 * * * \xff\n")

    assert run(path)[0] == 2


def test_standard_input_is_read(run, monkeypatch, tmp_path):
    path = tmp_path / "in"
    path.write_text("0 3 * * * y\n")
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        status, out, err = run("-")

    assert status == 0
    assert "ScheduleExpression: cron(0 3 * * ? *)" in out
    assert err.startswith("read as crontab: ")


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("crontab", "0 3 * * * a\n", "crontab"),
        ("/etc/crontab", "A=1\n", "system-crontab"),
        ("/etc/cron.d/shop", "0 3 * * * a b\n", "system-crontab"),
        ("x", "# c\nA=1\n17 * * * * root cd /\n@daily root x\n", "system-crontab"),
        ("x", "@daily x\n", "crontab"),
        ("schedule.yml", "a:\n  cron: '0 3 * * *'\n  class: A\n", "sidekiq-cron"),
        ("schedule.yml", "- name: a\n  cron: '@daily'\n", "sidekiq-cron"),
        (
            "sidekiq.yml",
            ":scheduler:\n  :schedule:\n    a:\n      cron: '* * * * *'\n",
            "sidekiq-scheduler",
        ),
        ("sidekiq.yml", "a:\n  every: 5m\n", "sidekiq-scheduler"),
    ],
)
def test_the_kind_is_guessed(name, text, kind):
    assert guess_kind(name, text)[0] == kind


FILES = {
    "crontab": "30 4 * * * cd /app && bin/rails runner -e production 'Foo::BarJob.perform_async(1)'\n",
    "schedule.yml": "night:\n  cron: '30 4 * * *'\n  class: Foo::BarJob\n  args: [1]\n",
    "sidekiq.yml": ":schedule:\n  night:\n    cron: '30 4 * * *'\n    class: Foo::BarJob\n    args: [1]\n",
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_becomes_the_same_event(run, tmp_path, name):
    path = tmp_path / name
    path.write_text(FILES[name])

    status, events, err = run(path, "--verify", "400d", "--timezone", "Asia/Tokyo")
    written = pasted(tmp_path, events)
    [found] = [each for each in read_schedules(written) if each.jobs[0]["class"] == "Foo::BarJob"]

    assert status == 0
    assert (found.expression_text, found.timezone) == ("cron(30 4 * * ? *)", "Asia/Tokyo")
    assert found.jobs[0]["args"] == [1]
    assert "400 times, all the same" in err


def test_an_interval_becomes_a_rate(run, tmp_path):
    path = tmp_path / "sidekiq.yml"
    path.write_text("a: {every: 5m, class: A}\nb: {every: 30s, class: B}\n")

    status, events, err = run(path, "--verify", "30d")

    assert status == 1
    assert "ScheduleExpression: rate(5 minutes)" in events
    assert "refused: line 2" in err
    assert "a: not compared: an interval counts from its own start" in err.lower()
