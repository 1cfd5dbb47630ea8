"""Reading crontabs, odd lines included."""

import pytest

from kiqbridge.schedule.imports.crontab_file import read_crontab
from kiqbridge.schedule.imports.record import ImportKindError, Reading

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


def test_a_percent_sign_may_be_escaped():
    [found] = read(r"0 3 * * * dump x-$(date +\%F)").schedules

    assert found.job["args"] == ["dump x-$(date +%F)"]


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


def test_a_tab_may_stand_before_and_after_the_user():
    [found] = read("0 1 * * *\troot\ta b\n", has_user=True).schedules

    assert found.job["args"] == ["a b"]


def test_what_is_no_crontab_at_all_is_said_so():
    with pytest.raises(ImportKindError, match="no crontab: line 1"):
        read("every 1.day do\n  runner 'x'\nend\n")


def test_an_empty_crontab_is_empty():
    assert read("\n# nothing\n").schedules == []


def test_all_of_cron_d_end_of_line_forms():
    found = read("0 1 * * * a\r\n0 2 * * * b")

    assert [each.job["args"] for each in found.schedules] == [["a"], ["b"]]
