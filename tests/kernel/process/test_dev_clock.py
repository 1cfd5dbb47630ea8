"""`kiqbridge dev --at`: the clock of the rules starts anywhere, the real command does the rest."""

import re

import pytest
from support.dev_project import interrupt, lines_of, wait_for_job

pytestmark = pytest.mark.slow

YEARS_WITHOUT_A_LEAP = ("2019-03-01T02:58:30", "2190-03-01T01:58:30Z")


def instants_of(run, rule):
    """When the ticks of a rule were due, as its lines say in UTC."""
    ticks = [line for line in lines_of(run, "tick") if f" {rule} " in line]
    return [re.search(r"due ([^;]*)", line)[1] for line in ticks]


class TestATimeFarAway:
    @pytest.mark.parametrize("at", YEARS_WITHOUT_A_LEAP)
    def test_has_its_ticks_enqueued_and_their_jobs_performed(self, project, at):
        project.change("ScheduleExpressionTimezone: UTC", "ScheduleExpressionTimezone: Asia/Tokyo")

        run = project.dev("--at", at, "--speed", "120")
        wait_for_job(run)

        year = at[:4]
        assert all(line.startswith(year) for line in lines_of(run, "done"))
        assert f" {year}-03-01 " in instants_of(run, "HealthPulse")[0]
        assert "older than what the ledger remembers" not in run.output
        assert interrupt(run) == 0


class TestTheStart:
    def test_catches_up_nothing_before_it(self, project):
        run = project.dev("--at", "2026-10-25T00:59:00Z", "--speed", "60")
        wait_for_job(run)

        assert instants_of(run, "HealthPulse")[0] == "Sun 2026-10-25 01:00 UTC"
        assert "catching up" not in run.output
        assert (
            "the rules' clock runs 60 times as fast, starting at Sun 2026-10-25 00:59:00 UTC"
            in run.output
        )

    def test_drops_a_maximum_age_which_is_of_another_clock(self, project):
        project.change(
            '"schedule": "${AWS::StackName}/HealthPulse",',
            '"schedule": "${AWS::StackName}/HealthPulse", "max_age_s": 60,',
        )

        run = project.dev("--at", "2019-03-01T01:59:50Z", "--speed", "60")
        wait_for_job(run)

        assert interrupt(run) == 0
        assert ", 0 failed, 0 given back" in run.output

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("tomorrow", "'tomorrow' is not a time"),
            ("2026-13-01", "'2026-13-01' is not a time"),
            ("1969-07-20", "is not in the years 1971 to 2199"),
            ("2200-01-01", "is not in the years 1971 to 2199"),
        ],
    )
    def test_must_be_a_time_that_rules_have(self, project, text, told):
        run = project.dev(f"--at={text}")

        assert run.wait() == 2
        assert told in run.output
