"""Reading sidekiq-cron's file of schedules."""

import pytest
import yaml

from kiqbridge.schedule.imports.gems import read_sidekiq_cron_file
from kiqbridge.schedule.imports.record import ImportKindError, Reading

READING = Reading(timezone="Europe/Paris", queue="q")


def read(text):
    return read_sidekiq_cron_file(text, READING)


def one(members):
    found = read("a:\n  class: A\n  cron: '0 3 * * *'\n" + "".join(f"  {m}\n" for m in members))
    assert found.refused == []
    return found.schedules[0]


def test_a_mapping_of_names():
    found = read(
        "# the schedules\nnightly:\n  cron: '0 3 * * *'\n  class: 'Foo::BarJob'\n  queue: low\n"
        "  description: At night\n  args: [1, x]\n\nother:\n  cron: '*/5 * * * * America/New_York'\n"
        "  class: B\n  status: disabled\n"
    )

    first, second = found.schedules
    assert (first.name, first.line, first.expression, first.timezone) == (
        "nightly",
        2,
        "0 3 * * *",
        "Europe/Paris",
    )
    assert first.job == {"class": "Foo::BarJob", "args": [1, "x"], "queue": "low"}
    assert (first.description, first.enabled) == ("At night", True)
    assert (second.timezone, second.enabled, second.line) == ("America/New_York", False, 9)
    assert second.source_expression == "*/5 * * * *"


def test_a_list_with_names_and_symbols():
    found = read("- name: a\n  :cron: '@daily'\n  :class: A\n  :queue: :low\n")

    [schedule] = found.schedules
    assert (schedule.name, schedule.job["queue"]) == ("a", "low")


@pytest.mark.parametrize(
    ("members", "job"),
    [
        (["args: {k: 1}"], {"class": "A", "args": [{"k": 1}], "queue": "q"}),
        (["args: x"], {"class": "A", "args": ["x"], "queue": "q"}),
        (["retry: 3"], {"class": "A", "args": [], "queue": "q", "retry": 3}),
        (["active_job: true"], {"active_job": "A", "args": [], "queue": "q"}),
        (
            ["active_job: true", "queue: mail", "queue_name_prefix: pre"],
            {"active_job": "A", "args": [], "queue": "pre_mail"},
        ),
    ],
)
def test_members_become_the_job(members, job):
    assert one(members).job == job


def test_what_is_left_out_is_noted():
    notes = one(["symbolize_args: true", "namespace: x"]).notes

    assert any("namespace" in note for note in notes)
    assert any("symbolize_args" in note for note in notes)


def test_times_are_read_as_fugit_reads_them():
    [schedule] = read("a: {class: A, cron: '0 0 */2 * 1'}").schedules

    assert (schedule.expression, schedule.source_expression) == ("0 0 1-31/2 * 1", "0 0 */2 * 1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: {class: A, cron: '61 * * * *'}", "61"),
        ("a: {cron: '0 3 * * *'}", "no class"),
        ("a: {class: A, cron: '0 3 * * *', date_as_argument: true}", "date_as_argument"),
        ("a: {class: A, cron: '0 3 * * *', args: '[1]'}", "looks like JSON"),
        ("a: {class: A, cron: '0 3 * * *', args: [':x']}", "symbol"),
        ("a: {class: A, cron: '0 3 * * *', args: [2026-01-01]}", "date"),
        ("a: {class: A, cron: [1]}", "no text"),
        ("- {class: A, cron: '0 3 * * *'}", "no name"),
        ("a: {class: A, cron: 'whenever it suits'}", "expression"),
    ],
)
def test_what_cannot_be_said_is_refused(text, reason):
    found = read(text)

    assert found.schedules == []
    assert reason in found.refused[0].reason
    assert found.refused[0].line == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: {class: A, cron: <%= x %>}", "ERB"),
        ("a: [", "not YAML"),
        ("text", "no schedules"),
        ("", "no schedules"),
        ("a: {b: c}", "no cron"),
        ("a: {cron: !ruby/object:X {}}", "line 1|constructor"),
    ],
)
def test_what_is_no_such_file_is_said_so(text, reason):
    with pytest.raises(ImportKindError, match=reason):
        read(text)


def test_no_tag_is_constructed_whatever_other_libraries_have_added(monkeypatch):
    added = {**yaml.SafeLoader.yaml_multi_constructors, "!": lambda *_: "made"}
    monkeypatch.setattr(yaml.SafeLoader, "yaml_multi_constructors", added)

    with pytest.raises(ImportKindError, match="constructor"):
        read("a: {cron: !ruby/object:X {}}")
