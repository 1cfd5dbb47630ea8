"""What a file says beside a schedule."""

import pytest

from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.sourced import sourced

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


@pytest.mark.parametrize("text", ["# lint ignore KB101", "# lint: ignore all", "lint: ignore KB1"])
def test_what_is_no_such_comment(text):
    assert beside(f"a:  {text}") == (set(), False)


def test_whether_a_zone_is_written():
    assert beside("a:\n  timezone: UTC")[1]
    assert not beside("a:\n  # timezone: UTC")[1]
