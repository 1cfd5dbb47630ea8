"""What a file says beside a schedule."""

import pytest

from kiqbridge.schedule.sourced import block_of, ignored_codes, names_zone

LINES = """\
Events:
  # The night's report.
  # lint: ignore KB104, KB106
  Nightly:
    Type: ScheduleV2

    Properties:
      ScheduleExpressionTimezone: UTC
  Other:
    Type: ScheduleV2  # lint: ignore KB101
""".splitlines()


def test_a_block_is_its_comments_its_key_and_what_is_below():
    assert block_of(LINES, 4) == LINES[1:8]
    assert block_of(LINES, 9) == LINES[8:]


def test_codes_of_comments():
    assert ignored_codes(block_of(LINES, 4)) == {"KB104", "KB106"}
    assert ignored_codes(block_of(LINES, 9)) == {"KB101"}


@pytest.mark.parametrize("text", ["# lint ignore KB101", "# lint: ignore all", "lint: ignore KB1"])
def test_what_is_no_such_comment(text):
    assert ignored_codes([text]) == frozenset()


def test_whether_a_zone_is_written():
    assert names_zone(block_of(LINES, 4))
    assert not names_zone(block_of(LINES, 9))
    assert names_zone(["  timezone: UTC"])
    assert not names_zone(["  # timezone: UTC"])
