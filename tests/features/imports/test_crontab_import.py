"""From a crontab to schedules: its lines, their commands, and the words of a shell."""

import re
import string
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.features.imports.command_line import (
    class_name_to_identifier,
    job_of_command,
)
from kiqbridge.features.imports.crontab_file import read_crontab
from kiqbridge.features.imports.record import ImportKindError, Reading, Unsayable
from kiqbridge.runtime.shell_words import ShellSyntax, plain_words, shell_words

RUN = "bin/rails runner 'A.perform_async'"


def read(text, *, has_user=False, zone="UTC"):
    return read_crontab(text, Reading(timezone=zone), has_user=has_user)


@pytest.mark.parametrize(
    ("line", "expression"),
    [
        ("0 3 * * *", "0 3 * * *"),
        ("  */5\t*  * * 1-5 ", "*/5 * * * 1-5"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@annually", "0 0 1 1 *"),
        ("0 0 * jan,FEB mon-fri", "0 0 * jan,FEB mon-fri"),
        ("0 0 1,15 * 7", "0 0 1,15 * 7"),
    ],
)
def test_fields_and_macros(line, expression):
    [found] = read(f"{line} {RUN}").schedules

    assert (found.expression, found.job["class"], found.line) == (expression, "A", 1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"60 * * * * {RUN}", "minute: '60' is out of range"),
        (f"0 22-6 * * * {RUN}", "runs backwards"),
        (f"5/15 * * * * {RUN}", "step after one number"),
        (f"@reboot {RUN}", "@reboot is no time"),
        (f"@fortnightly {RUN}", "none of"),
        ("0 3 * *", "has 4 fields"),
        ("0 3 * * *", "no command"),
        ("@daily", "no command"),
        ("0 3 * * * mail ops%Hello", "standard input"),
        ("0 3 * * * a % ", None),
        (f"0 0 3 * * * {RUN}", None),
        ("rubbish", "fields"),
    ],
)
def test_what_cannot_be_said_is_refused_with_its_line_and_reason(line, reason):
    found = read(f"A=1\n{line}\n0 4 * * * ok\n")

    assert found.schedules[-1].job["args"] == ["ok"]
    if reason is None:
        assert found.refused == []
    else:
        [refused] = found.refused
        assert (refused.line, refused.source) == (2, line)
        assert reason in refused.reason


@pytest.mark.parametrize(
    ("text", "options", "commands"),
    [
        (r"0 3 * * * dump x-$(date +\%F)", {}, ["dump x-$(date +%F)"]),
        ("0 1 * * * a\r\n0 2 * * * b", {}, ["a", "b"]),
        ("0 1 * * *\troot\ta b\n", {"has_user": True}, ["a b"]),
        ("\n# nothing\n", {}, []),
    ],
)
def test_each_line_has_its_command(text, options, commands):
    found = read(text, **options).schedules
    assert [each.job["args"] for each in found] == [[command] for command in commands]


def test_cron_tz_holds_for_what_follows_and_tz_does_not():
    found = read(
        f"0 1 * * * {RUN}\nCRON_TZ = Europe/Paris\nTZ=Asia/Tokyo\n0 2 * * * {RUN}\n"
        f'CRON_TZ="America/New_York"\n0 3 * * * {RUN}\n',
        zone="Europe/London",
    )

    zones = [each.timezone for each in found.schedules]
    assert zones == ["Europe/London", "Europe/Paris", "America/New_York"]
    assert any(note.startswith("TZ=Asia/Tokyo") for note in found.notes)


def test_an_unknown_zone_refuses_the_lines_below_it_until_the_next():
    found = read(f"CRON_TZ=Mars/Base\n0 1 * * * {RUN}\nCRON_TZ=UTC\n0 2 * * * {RUN}\n")

    assert [each.line for each in found.refused] == [1, 2]
    assert "Mars/Base" in found.refused[1].reason
    assert [each.line for each in found.schedules] == [4]


def test_comments_right_above_describe_a_line():
    found = read(
        "# the file\n\n# the report\n# of the day\n0 1 * * * a\n0 2 * * * b\n"
        "# off\n# 0 3 * * * old\n0 4 * * * c\n#@daily old\n@daily d\n"
    )

    assert [each.description for each in found.schedules] == ["the report of the day", "", "", ""]


def test_variables_are_noted():
    notes = read(f"MAILTO=ops@example.com\nPATH=/bin\nSHELL=/bin/sh\nFOO='a b'\n@daily {RUN}").notes

    assert any(note.startswith("no CRON_TZ: read in UTC") for note in notes)
    assert any(note.startswith("MAILTO") for note in notes)
    assert any(note.startswith("FOO, PATH") for note in notes)


def test_a_system_crontab_has_users():
    found = read(
        "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n@daily www-data a b\n"
        f"0 1 * * * deploy {RUN}\n0 3 * * * /usr/bin/x y\n0 3 * * * root\n",
        has_user=True,
    )

    assert [each.job["args"] for each in found.schedules] == [
        ["cd / && run-parts --report /etc/cron.hourly"],
        ["a b"],
        [],
    ]
    assert "it ran as root; here the worker's own user runs it" in found.schedules[0].notes
    assert found.schedules[2].notes == ("it ran as deploy",)
    assert [each.line for each in found.refused] == [4, 5]
    assert "'/usr/bin/x' is no user" in found.refused[0].reason


def test_what_is_no_crontab_at_all_is_said_so():
    with pytest.raises(ImportKindError, match="no crontab: line 1"):
        read("every 1.day do\n  runner 'x'\nend\n")


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
        ("/usr/local/bin/backup.sh --full", None, "Backup"),
        ("backup >> /var/log/b.log 2>&1", "backup", "Backup"),
        ("backup > /dev/null", "backup", "Backup"),
        ("backup 2>&1 | mail ops", None, "Backup"),
        ("echo 'a > b'", None, "Echo"),
        ("cd /app && bin/rake reports:weekly", None, "ReportsWeekly"),
        ("python3 -u /srv/sync.py", None, "Sync"),
        ("a 'b", None, "A"),
        ("123", None, "Schedule123"),
        ("test -x /x || ( cd / && y )", None, "Test"),
        # What the shell adds is never lost.
        ("bin/rails runner 'A.perform_async' && rm x", None, None),
        ("bin/rails runner \"A.perform_async('$(id)')\"", None, None),
        ("echo 'bin/rails runner A.perform_async'", None, None),
        ("bin/rails runner script.rb arg", None, None),
        ("bin/rails server", None, None),
        ("bash -x script.sh", None, None),
        ("bash -c \"bin/rails runner 'A.perform_async' | tee x\"", None, None),
    ],
)
def test_another_command_is_run_by_a_job(command, run, name):
    found, args = job_of_command(command, READING), [run or command]
    assert found.job == {"class": "ShellCommand", "args": args, "queue": "shell", "retry": 0}
    assert name is None or found.name == name


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


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("backup --full /srv", ["backup", "--full", "/srv"]),
        ("echo 'a b' \"c d\" e\\ f", ["echo", "a b", "c d", "e f"]),
        ("echo 'it'\\''s'", ["echo", "it's"]),
        ('echo "a \\"b\\" \\x"', ["echo", 'a "b" \\x']),
        ("echo '$HOME' '`id`' 'a;b' '*'", ["echo", "$HOME", "`id`", "a;b", "*"]),
        ("echo \\$HOME \\; ''", ["echo", "$HOME", ";", ""]),
        ("echo a~b x=1", ["echo", "a~b", "x=1"]),
    ],
)
def test_plain_words_are_those_of_a_program(command, words):
    assert plain_words(command) == words


@pytest.mark.parametrize(
    "command",
    [
        *("", "   ", "a; b", "a && b", "a | b", "a &", "a > f", "a < f", "a\nb", "a $(id)"),
        *("a `id`", 'a "$HOME"', 'a "`id`"', "a *.txt", "a ~/x", "a {b,c}", "a # b", "(a)"),
        *("A=1 b", "a 'b", 'a "b', "a \\", "a \\\nb", "!a", "a [x]", "a ${IFS}b"),
    ],
)
def test_what_only_a_shell_can_run_is_no_plain_words(command):
    assert plain_words(command) is None


def test_operators_are_separate_and_quoted_ones_are_not():
    words = shell_words("cd /a&&b 'c && d' 2>&1")
    assert [word.text for word in words if word.is_operator] == ["&&", ">", "&"]
    assert "c && d" in [word.text for word in words]
    with pytest.raises(ShellSyntax, match="character 6"):
        shell_words("echo 'a")


@given(
    st.text(string.ascii_letters + string.digits + " \t'\"\\$`;&|<>()*?[]~#=-_./!{}", max_size=20)
)
def test_a_real_shell_reads_plain_words_alike(text):
    words = plain_words("printf %s\\\\0 " + text)
    if words is None:
        return

    said = subprocess.run(
        ["/bin/sh", "-c", "printf '%s\\0' " + text], capture_output=True, check=True, timeout=60
    ).stdout

    assert said.decode().split("\0")[:-1] == (words[2:] or [""])
