"""From a command of a crontab to a job."""

import re

import pytest

from kiqbridge.schedule.imports.command_line import (
    class_name_to_identifier,
    job_of_command,
)
from kiqbridge.schedule.imports.record import Reading, Unsayable

READING = Reading(queue="q", shell_queue="shell")


@pytest.mark.parametrize(
    ("command", "name", "args"),
    [
        ("cd /app && bin/rails runner -e production 'A.perform_async(1, \"x\")'", "A", [1, "x"]),
        ("bin/rails runner 'Foo::BarJob.perform_async'", "Foo::BarJob", []),
        ("rails r 'A.perform_async()'", "A", []),
        ("rails runner '::A.perform_async 1, 2'", "A", [1, 2]),
        ("rails runner 'A.perform_async;'", "A", []),
        ("rails runner A.perform_async", "A", []),
        ("cd /a; RAILS_ENV=production nice -n 10 /a/bin/rails runner 'A.perform_async'", "A", []),
        (
            "/usr/bin/env TZ=UTC flock -n /tmp/l timeout -k 5 60 bin/rails runner 'A.perform_async'",
            "A",
            [],
        ),
        (
            (
                "/bin/bash -l -c 'cd /app && bin/rails runner -e production '\\''A.perform_async(\"x\")'\\'' "
                ">> log/cron.log 2>&1'"
            ),
            "A",
            ["x"],
        ),
        ("rails runner 'A.perform_async(1)' -e production >/dev/null 2>&1", "A", [1]),
        ("rails runner --environment=production 'A.perform_async'", "A", []),
        ("ruby bin/rails runner 'A.perform_async'", "A", []),
    ],
)
def test_a_call_in_rails_is_that_job(command, name, args):
    assert job_of_command(command, READING).job == {"class": name, "args": args, "queue": "q"}


@pytest.mark.parametrize(
    ("command", "job"),
    [
        (
            "rails runner 'A.set(queue: :low).perform_async(1)'",
            {"class": "A", "args": [1], "queue": "low"},
        ),
        (
            'bundle exec rails runner "Foo.perform_later"',
            {"active_job": "Foo", "args": [], "queue": "q"},
        ),
        (
            "rails runner 'A.perform_later(1, [true, \"mon\"])'",
            {"active_job": "A", "args": [1, [True, "mon"]], "queue": "q"},
        ),
    ],
)
def test_its_queue_and_an_active_job_are_read_too(command, job):
    assert job_of_command(command, READING).job == job


@pytest.mark.parametrize(
    ("command", "run", "name"),
    [
        ("/usr/local/bin/backup.sh --full", "/usr/local/bin/backup.sh --full", "Backup"),
        ("backup >> /var/log/b.log 2>&1", "backup", "Backup"),
        ("backup > /dev/null", "backup", "Backup"),
        ("backup 2>&1 | mail ops", "backup 2>&1 | mail ops", "Backup"),
        ("echo 'a > b'", "echo 'a > b'", "Echo"),
        (
            "cd /app && bin/rake reports:weekly",
            "cd /app && bin/rake reports:weekly",
            "ReportsWeekly",
        ),
        ("python3 -u /srv/sync.py", "python3 -u /srv/sync.py", "Sync"),
        ("a 'b", "a 'b", "A"),
        ("123", "123", "Schedule123"),
        ("test -x /x || ( cd / && y )", "test -x /x || ( cd / && y )", "Test"),
    ],
)
def test_another_command_is_run_by_a_job(command, run, name):
    found = job_of_command(command, READING)

    assert found.job == {"class": "ShellCommand", "args": [run], "queue": "shell", "retry": 0}
    assert found.name == name


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("A.perform_async(:x)", "no JSON literals"),
        ('A.perform_async("#{x}")', "no JSON literals"),
        ('A.perform_async({"a": 1})', "no JSON literals"),
        ("A.perform_async(01)", "no JSON literals"),
        ("A.perform_in(5, 1)", "for later"),
        ("A.new.perform", "enqueues nothing|no single call"),
        ("A.run!", "enqueues nothing"),
        ("A.perform_async(day: 1)", "no JSON literals"),
        ("A.set(wait: 5).perform_later", "more than a queue"),
        ("A.perform_async(1); B.perform_async", "no JSON literals|no single call"),
        ("A.perform_async(Date.today)", "no JSON literals"),
        ("a.perform_async", "no single call"),
        ("puts 1", "no single call"),
        ("A.perform_async if monday?", "no JSON literals"),
    ],
)
def test_other_ruby_stays_a_command_with_the_reason(code, reason):
    found = job_of_command(f"bin/rails runner '{code}'", READING)

    assert found.job["class"] == "ShellCommand"
    assert re.match(f"not recognized as a job: .*({reason})", found.notes[-1])


@pytest.mark.parametrize(
    "command",
    [
        "bin/rails runner 'A.perform_async' && rm x",
        "bin/rails runner \"A.perform_async('$(id)')\"",
        "echo 'bin/rails runner A.perform_async'",
        "bin/rails runner script.rb arg",
        "bin/rails server",
        "bash -x script.sh",
        "bash -c \"bin/rails runner 'A.perform_async' | tee x\"",
    ],
)
def test_what_the_shell_adds_is_never_lost(command):
    assert job_of_command(command, READING).job == {
        "class": "ShellCommand",
        "args": [command],
        "queue": "shell",
        "retry": 0,
    }


def test_what_is_left_out_is_noted_and_no_command_refused():
    command = "flock -n l TZ=UTC rails runner 'A.perform_async' >> x.log"
    notes = "\n".join(job_of_command(command, READING).notes)
    assert all(told in notes for told in ("overlap", "TZ=UTC", "x.log"))
    with pytest.raises(Unsayable, match="no command"):
        job_of_command("  ", READING)


def test_names_become_logical_ids():
    names = ("Foo::BarJob", "nightly_report", "my job-2", "9to5", "")
    ids = ["FooBarJob", "NightlyReport", "MyJob2", "Schedule9to5", "Schedule"]
    assert [class_name_to_identifier(name) for name in names] == ids
