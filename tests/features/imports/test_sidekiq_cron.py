"""Schedules of sidekiq-cron and sidekiq-scheduler: lines as fugit reads them, and their files."""

import re
from datetime import UTC, datetime
from itertools import islice

import pytest
import yaml
from support.vectors import FILES, of_kind

from kiqbridge.features.imports.fugit import parse_sidekiq_cron
from kiqbridge.features.imports.gems import read_sidekiq_cron_file, read_sidekiq_scheduler
from kiqbridge.features.imports.record import ImportKindError, Reading
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.expression import parse_expression
from kiqbridge.schedule.sourced import sourced

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "written_out"),
    [
        ("0 3 * * *", "0 3 * * *"),
        ("0 3 * * * UTC", "0 3 * * * UTC"),
        ("0 3 * * * Europe/Paris", "0 3 * * * Europe/Paris"),
        ("5/10 * * * *", "5-59/10 * * * *"),
        ("*/10 3/5 * * * *", "*/10 3-59/5 * * * *"),
        ("0 8/4,1 * 2/3 *", "0 8-23/4,1 * 2-12/3 *"),
        ("0 0 */2 * 1", "0 0 1-31/2 * 1"),
        ("0 0 1 * */2", "0 0 1 * 0-6/2"),
        ("0 0 */2 * *", "0 0 */2 * *"),
        ("0 0 */1 * 1", "0 0 * * 1"),
        ("0 0 */2& * 1", "0 0 */2& * 1"),
        ("@daily", "@daily"),
        ("every day at 3am", "every day at 3am"),
        ("every 5 minutes", "*/5 * * * *"),
        ("every 5m", "*/5 * * * *"),
        ("every 1 hour", "0 * * * *"),
        ("every 60 minutes", "0 * * * *"),
        ("every 24 hours", "0 0 * * *"),
        ("every 15s", "*/15 * * * * *"),
        ("every 4 months", "0 0 1 */4 *"),
        ("every 1d", "0 0 * * *"),
    ],
)
def test_the_text_means_the_same_everywhere(text, written_out):
    parsed = parse_sidekiq_cron(text)

    assert parsed.text == written_out
    again = parse_expression(parsed.text)
    assert list(islice(again.between(START, END), 50)) == list(
        islice(parsed.between(START, END), 50)
    )


def test_either_day_field_is_enough_also_with_a_star():
    january = parse_sidekiq_cron("0 0 */10 * 1").between(START, datetime(2026, 1, 31, tzinfo=UTC))
    assert [at.day for at in january] == [5, 11, 12, 19, 21, 26, 31]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("every 40 minutes", "begins anew with each hour, day, month or year"),
        ("every 7m", "begins anew"),
        ("every 2 days", "begins anew"),
        ("every 0 minutes", "begins anew"),
        ("every 2 weeks", "sidekiq-cron does not read it"),
        ("every 1h30m", "sidekiq-cron does not read it"),
        ("5/1 * * * *", "a step after one number"),
        ("0 0 * * 1/2", "a step after one number"),
        ("0 0 * * 5#1,5#-1", "one weekday has several #"),
        ("0 0 30 2,4 1", "fugit leaves out the months that are too short"),
        ("0 0 5,* * 1", "stands in a list, of which fugit leaves it out"),
        ("0 0 * * mon%2", "counts weeks"),
        ("in 5m", "counts from the moment in which it is read"),
    ],
)
def test_what_fugit_reads_otherwise_than_documented_is_refused(text, reason):
    with pytest.raises(ExpressionError, match=reason):
        parse_sidekiq_cron(text)


@pytest.mark.parametrize(("file", "name"), of_kind("cron_time"))
def test_the_last_time_is_the_recorded_one(file, name):
    operation = FILES[file][name]
    [[_, key, score, member]] = [each for each in operation["commands"] if each[0] == "zadd"]
    [job] = [each["value"] for each in operation["keys"] if f"{each['key']}:enqueued" == key]

    schedule = parse_sidekiq_cron(job["cron"])

    last = schedule.latest_at_or_before(datetime.fromtimestamp(float(score), UTC))
    assert last == datetime.fromisoformat(member)


@pytest.mark.parametrize(("file", "name"), of_kind("cron_refusal"))
def test_what_sidekiq_cron_refused_is_refused(file, name):
    line = re.search(r'cron: "([^"]*)"', FILES[file][name]["ruby_call"])[1]

    assert FILES[file][name]["result"] == {"return": [False, False]}
    with pytest.raises(ExpressionError, match="minute: '61' is out of range"):
        parse_sidekiq_cron(line)


READING = Reading(timezone="Europe/Paris", queue="q")


def read(text):
    return read_sidekiq_cron_file(text, READING)


def one(members):
    found = read("a:\n  class: A\n  cron: '0 3 * * *'\n" + "".join(f"  {m}\n" for m in members))
    assert found.refused == []
    return found.schedules[0]


def test_a_mapping_of_names_and_a_list_with_names_and_symbols():
    found = read(
        "# the schedules\nnightly:\n  cron: '0 3 * * *'\n  class: 'Foo::BarJob'\n  queue: low\n"
        "  description: At night\n  args: [1, x]\n\nother:\n  cron: '*/5 * * * * America/New_York'\n"
        "  class: B\n  status: disabled\n"
    )
    first, second = found.schedules
    assert (first.name, first.line, first.expression) == ("nightly", 2, "0 3 * * *")
    assert first.timezone == "Europe/Paris"
    assert first.job == {"class": "Foo::BarJob", "args": [1, "x"], "queue": "low"}
    assert (first.description, first.enabled) == ("At night", True)
    assert (second.timezone, second.enabled, second.line) == ("America/New_York", False, 9)
    assert second.source_expression == "*/5 * * * *"
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


def test_what_is_left_out_is_noted_and_times_are_read_as_fugit_reads_them():
    notes = "\n".join(one(["symbolize_args: true", "namespace: x"]).notes)
    assert "namespace" in notes and "symbolize_args" in notes
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
        ("a: {class: A, cron: <%= x %>}", "ERB"),
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
        ("<% each do |x| %>\na: {class: A, cron: <%= x %>}\n<% end %>", "not YAML.*ERB"),
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


def read_scheduler(text):
    return read_sidekiq_scheduler(text, Reading(timezone="UTC"))


FILE = """\
:concurrency: <%= ENV.fetch("RAILS_MAX_THREADS") { 5 } %>
:scheduler:
  :enabled: true
  :schedule:
    nightly_report:
      cron: '0 0 3 * * *'
      class: Foo::BarJob
      queue: low
      args: ['*.pdf']
      description: At night
    HealthPulse:
      every: 5m
    cleaner:
      every: ['30m', {first_in: 120s}]
      class: Cleaner
      enabled: false
    once:
      at: '2031/01/31 10:00:00'
      class: Once
"""


def test_all_kinds_of_times():
    found = read_scheduler(FILE)

    assert found.refused == []
    assert [(each.name, each.line, each.expression) for each in found.schedules] == [
        ("nightly_report", 5, "0 0 3 * * *"),
        ("HealthPulse", 11, "every 5m"),
        ("cleaner", 13, "every 30m"),
        ("once", 17, "2031-01-31 10:00:00"),
    ]
    assert found.schedules[0].job == {"class": "Foo::BarJob", "args": ["*.pdf"], "queue": "low"}
    assert found.schedules[0].source_expression == "0 3 * * *"
    assert found.schedules[1].job["class"] == "HealthPulse"
    assert not found.schedules[2].enabled
    assert "first_in is not carried over" in found.schedules[2].notes


@pytest.mark.parametrize("head", [":schedule:\n", "schedule:\n", "scheduler:\n  schedule:\n", ""])
def test_the_older_places_of_the_schedule(head):
    indent = " " * (2 * head.count("\n"))

    [found] = read_scheduler(f"{head}{indent}a: {{cron: '@daily', class: A}}\n").schedules

    assert found.name == "a"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ("in: 5m, class: A", "each start"),
        ("every: 5 fortnights, class: A", "duration"),
        ("every: [], class: A", "empty"),
        ("every: 5m, cron: '@daily', class: A", "cron and every"),
        ("class: A", "no time"),
        ("at: soon, class: A", "expression"),
        ("cron: '0 3 * * *', class: A, include_metadata: true", "include_metadata"),
        ("cron: '0 3 * *', class: A", "fields"),
    ],
)
def test_what_a_scheduler_cannot_say_is_refused(members, reason):
    found = read_scheduler(f"ok: {{every: 1h, class: B}}\na: {{{members}}}\n")

    assert [each.name for each in found.schedules] == ["ok"]
    assert found.refused[0].line == 2
    assert reason in found.refused[0].reason


def test_an_interval_is_noted_and_what_has_no_times_no_such_file():
    [found] = read_scheduler("a: {interval: 10m, class: A}").schedules
    assert found.expression == "every 10m"
    assert any("end of the last run" in note for note in found.notes)
    with pytest.raises(ImportKindError, match="none of cron"):
        read_scheduler("production:\n  concurrency: 5\n")


TEXT = """\
Events:
  # The night's report.
  # lint: ignore KB104, KB106
  Nightly:
    Type: ScheduleV2

    Properties:
      ScheduleExpressionTimezone: UTC
  Other:
    Type: ScheduleV2  # lint: ignore KB101
"""


def beside(text, line=1):
    definition = ScheduleDefinition(name="s", expression="rate(1 day)", jobs=({"class": "A"},))
    found = sourced(definition, text, line, source="f.yaml")
    return set(found.ignored), found.names_zone


def test_a_schedule_has_the_comments_above_its_key_and_what_is_below():
    assert beside(TEXT, 4) == ({"KB104", "KB106"}, True)
    assert beside(TEXT, 9) == ({"KB101"}, False)


def test_what_is_no_such_comment_and_whether_a_zone_is_written():
    for text in ("# lint ignore KB101", "# lint: ignore all", "lint: ignore KB1"):
        assert beside(f"a:  {text}") == (set(), False)
    assert beside("a:\n  timezone: UTC")[1]
    assert not beside("a:\n  # timezone: UTC")[1]
