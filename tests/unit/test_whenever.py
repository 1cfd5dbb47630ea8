"""Reading whenever's schedule.rb as text."""

import pytest

from kiqbridge.schedule.imports.record import ImportKindError, Reading
from kiqbridge.schedule.imports.whenever import read_whenever

FILE = """\
# Use this file to easily define all of your cron jobs.
require "active_support"
set :output, "log/cron.log"
set :path, "/srv/shop"
env :PATH, ENV["PATH"]
job_type :awesome, '/usr/local/bin/awesome :task --loud'

every 3.hours do # 1.minute 1.day 1.week
  runner "MyModel.some_process"
  rake "my:rake:task"
  command "/usr/bin/my_great_command"
end

every 1.day, at: '4:30 am' do
  runner "Foo::BarJob.perform_async(1, 'x')"
end

every :hour do
  runner "SomeJob.perform_later"
end

every :sunday, at: '12pm' do
  awesome "party"
end

every '0 0 27-31 * *' do
  command "echo 'you can use raw cron syntax too'"
end

every :weekday, :at => ["6:00 am", "6:30 pm", "9 pm"], roles: [:app] do
  runner "A.perform_async"
end
"""


def read(text):
    return read_whenever(text, Reading(timezone="Europe/Paris", shell_queue="shell"))


def body(head, line="runner 'A.perform_async'"):
    return f"{head} do\n  {line}\nend\n"


def test_the_forms_of_its_readme():
    found = read(FILE)

    assert found.refused == []
    assert [(each.line, each.expression, each.name) for each in found.schedules] == [
        (9, "0 */3 * * *", "MyModelSomeProcess"),
        (10, "0 */3 * * *", "MyRakeTask"),
        (11, "0 */3 * * *", "MyGreatCommand"),
        (15, "30 4 * * *", "FooBarJob"),
        (19, "0 * * * *", "SomeJob"),
        (23, "0 12 * * 0", "Awesome"),
        (27, "0 0 27-31 * *", "Echo"),
        (31, "0 6,21 * * 1-5", "A"),
        (31, "30 18 * * 1-5", "A"),
    ]
    jobs = [each.job for each in found.schedules]
    assert jobs[0]["args"] == ["cd /srv/shop && bin/rails runner 'MyModel.some_process'"]
    assert jobs[1]["args"] == ["cd /srv/shop && bundle exec rake my:rake:task"]
    assert jobs[3] == {"class": "Foo::BarJob", "args": [1, "x"], "queue": "default"}
    assert jobs[4] == {"active_job": "SomeJob", "args": [], "queue": "default"}
    assert jobs[5]["args"] == ["/usr/local/bin/awesome party --loud"]
    assert any(note.startswith("PATH") for note in found.notes)


@pytest.mark.parametrize(
    ("every", "expressions"),
    [
        ("1.minute", ["* * * * *"]),
        ("5.minutes", ["*/5 * * * *"]),
        ("60.minutes", ["0 * * * *"]),
        ("1.hour", ["0 * * * *"]),
        ("12.hours", ["0 */12 * * *"]),
        ("24.hours", ["0 0 * * *"]),
        ("1.day", ["0 0 * * *"]),
        (":day, at: 'noon'", ["0 12 * * *"]),
        (":day, at: '12:15 am'", ["15 0 * * *"]),
        (":day, at: '12:15pm'", ["15 12 * * *"]),
        (":day, at: '16:45'", ["45 16 * * *"]),
        (":day, at: '00:05'", ["5 0 * * *"]),
        (":weekend, at: '8am'", ["0 8 * * 0,6"]),
        (":friday", ["0 0 * * 5"]),
        ("1.month", ["0 0 1 * *"]),
        (":month, at: '5 am'", ["0 5 1 * *"]),
        (":year", ["0 0 1 1 *"]),
        (":week", ["0 0 * * 0"]),
        ("'@daily'", ["0 0 * * *"]),
        ("(1.day, at: '4:30 am')", ["30 4 * * *"]),
        ("1.day, :at => '4:30 am', :roles => [:db]", ["30 4 * * *"]),
    ],
)
def test_periods_and_times(every, expressions):
    space = "" if every.startswith("(") else " "
    found = read(body(f"every{space}{every}"))

    assert found.refused == []
    assert [each.expression for each in found.schedules] == expressions


def test_24_hours_make_morning_times_plain():
    text = "set :chronic_options, hours24: true\n" + body("every 1.day, at: '4:30'")

    assert [each.expression for each in read(text).schedules] == ["30 4 * * *"]


def test_one_line_and_braces():
    found = read("every(1.day, at: '4 am') { runner 'A.perform_async(1)' }\n" + body("every :hour"))

    assert [each.expression for each in found.schedules] == ["0 4 * * *", "0 * * * *"]


def test_an_argument_list_may_go_on_in_the_next_line():
    [found] = read(
        "every 1.day,\n      at: '4:30 am' do\n  runner 'A.perform_async'\nend\n"
    ).schedules

    assert (found.expression, found.line) == ("30 4 * * *", 3)


def test_the_zone_of_a_cron_tz():
    [found] = read("env 'CRON_TZ', 'Asia/Tokyo'\n" + body("every 1.day")).schedules

    assert found.timezone == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("every", "reason"),
    [
        ("7.minutes", "does not divide"),
        ("5.hours", "does not divide"),
        ("3.days", "does not divide"),
        ("1.week", "does not divide"),
        (":reboot", "no time"),
        (":day, at: '4:30'", "am or pm"),
        (":day, at: '25:00'", "no time of day"),
        (":day, at: 'tea time'", "is not read"),
        (":day, at: Time.now", "expression"),
        ("interval", "does not divide"),
        (":hour, at: 15", "not read"),
        ("'61 * * * *'", "61"),
        ("1.day, tz: 'UTC'", "tz of every"),
        ("'0 3 * * *', at: '4 am'", "does not go with"),
    ],
)
def test_times_that_cannot_be_said_are_refused(every, reason):
    found = read(body(f"every {every}") + body("every 1.day"))

    assert len(found.schedules) == 1
    [refused] = found.refused
    assert refused.line == 2
    assert reason in refused.reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("runner A", "is no runner"),
        ("mystery 'x'", "no job type"),
        ("runner 'a', 'b'", "one text"),
        ("x = 1", "is no runner"),
        ('command "echo #{x}"', "only Ruby knows"),
    ],
)
def test_lines_that_cannot_be_said_are_refused(line, reason):
    found = read(body("every 1.day", line))

    assert found.schedules == []
    assert found.refused[0].line == 2
    assert reason in found.refused[0].reason


def test_other_ruby_is_refused_with_all_that_is_in_it():
    text = (
        "if production?\n  every 1.day do\n    runner 'A.perform_async'\n  end\nend\n"
        "%w[a b].each do |name|\n  x\nend\n" + body("every 1.day", "runner 'B.perform_async'")
    )

    found = read(text)

    assert [each.line for each in found.refused] == [1, 6]
    assert [each.name for each in found.schedules] == ["B"]


def test_an_end_that_is_missing():
    found = read("every 1.day do\n  runner 'A.perform_async'\n")

    assert "end is missing" in found.refused[0].reason


def test_what_has_no_every_is_no_such_file():
    with pytest.raises(ImportKindError, match="every"):
        read("0 3 * * * x\n")
