"""`kiqbridge schedule simulate` on the command line."""

import csv
import io
import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

WEEKEND = ("--from", "2026-03-28", "--to", "2026-03-30")
FILE = """\
nightly:
  expression: cron(0 3 * * ? *)
  timezone: Europe/Paris
  class: NightlyReport
  args: [1]
  queue: low
pulse:
  expression: cron(0/30 * * * ? *)
  class: Pulse
"""


@pytest.fixture
def run(run, tmp_path):
    def simulate(*words, text=FILE):
        (tmp_path / "schedules.yml").write_text(text)
        return run("schedule", "simulate", "--file", tmp_path / "schedules.yml", *words)

    return simulate


def test_a_few_firings_are_listed_with_both_clocks(run):
    status, out, _ = run(*WEEKEND, "--name", "nightly")

    assert status == 0
    assert out.splitlines() == [
        "2026-03-28 to 2026-03-30: 2 firings of 1 schedule",
        "",
        "  nightly  Sat 2026-03-28 03:00 CET = 02:00 UTC",
        "  nightly  Sun 2026-03-29 03:00 CEST = 01:00 UTC",
        "",
        "SCHEDULE  FIRINGS  FIRST                 LAST",
        "nightly         2  Sat 2026-03-28 02:00  Sun 2026-03-29 01:00",
    ]


def test_many_firings_are_summed_up(run):
    _, out, _ = run(*WEEKEND, "--timezone", "Europe/Paris")

    lines = out.splitlines()
    assert lines[0] == "2026-03-28 to 2026-03-30: 98 firings of 2 schedules"
    assert "pulse          96  Sat 2026-03-28 01:00  Mon 2026-03-30 01:30" in lines
    assert any(line.startswith("  03  █") and line.endswith(" 6") for line in lines)
    assert any(line.startswith("  02  █") and line.endswith(" 2") for line in lines)
    assert "  Busiest minute of the day: 03:00 with 4 firings" in lines
    assert "  Most at once: 2 at 2026-03-28 03:00 CET, the first of 2 such minutes" in lines


def test_csv_has_a_line_for_each_firing(run):
    _, out, _ = run(*WEEKEND, "--format", "csv")

    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 98
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    assert [row for row in rows if row["schedule"] == "nightly"] == [
        {
            "at": at,
            "local": local,
            "timezone": "Europe/Paris",
            "schedule": "nightly",
            "class": "NightlyReport",
            "queue": "low",
        }
        for at, local in (
            ("2026-03-28T02:00:00Z", "2026-03-28T03:00:00+01:00"),
            ("2026-03-29T01:00:00Z", "2026-03-29T03:00:00+02:00"),
        )
    ]


def test_json_has_the_firings_and_their_sums(run):
    _, out, _ = run(*WEEKEND, "--format", "json")

    found = json.loads(out)
    assert (found["from"], found["to"]) == ("2026-03-28T00:00:00Z", "2026-03-30T00:00:00Z")
    assert len(found["firings"]) == found["total"] == sum(found["by_hour"]) == 98
    assert found["firings"][0] == {"at": "2026-03-28T00:00:00Z", "schedule": "pulse"}
    assert found["schedules"][0] == {
        "name": "nightly",
        "enabled": True,
        "firings": 2,
        "first": "2026-03-28T02:00:00Z",
        "last": "2026-03-29T01:00:00Z",
    }
    assert (found["most_at_once"], found["most_at_once_at"]) == (2, "2026-03-28T02:00:00Z")


def test_json_of_nothing_is_json(run):
    found = json.loads(
        run("--from", "2026-03-28T00:01:00Z", "--to", "2026-03-28T00:02:00Z", "--format", "json")[1]
    )

    assert (found["firings"], found["total"], found["most_at_once_at"]) == ([], 0, None)


def test_the_heat_map_is_written(run, tmp_path):
    path = tmp_path / "load.svg"
    status, _, err = run(*WEEKEND, "--heatmap", str(path))

    assert status == 0
    assert err == f"wrote {path}\n"
    assert "98 firings" in ET.parse(path).getroot().find("{http://www.w3.org/2000/svg}desc").text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--from", "tomorrow"), "--from: 'tomorrow' is no ISO 8601 time"),
        (("--from", "2026-01-02", "--to", "2026-01-02"), "--to: 2026-01-02T00:00:00Z is not after"),
        (("--timezone", "Paris"), "time zone 'Paris' is unknown"),
        (("--name", "x*"), "--name: no schedule is named 'x*'; there are: nightly, pulse"),
        (("--template", "/nowhere/template.yaml"), "cannot be read"),
        (("--heatmap", "load.png"), "--heatmap: load.png is no SVG"),
        ((*WEEKEND, "--heatmap", "/nowhere/load.svg"), "--heatmap: /nowhere/load.svg cannot be"),
    ],
)
def test_what_is_wrong_exits_with_2_and_the_reason(run, words, reason):
    status, _, err = run(*words)

    assert status == 2
    assert reason in err


def test_an_expression_that_cannot_be_read_is_reported_before_anything_is_written(run):
    assert run(text="x: {expression: cron(61 * * * ? *), class: A}\n")[:2] == (2, "")


def test_a_reader_that_stops_early_is_no_error(tmp_path):
    (tmp_path / "many.yml").write_text("x: {expression: '* * * * *', class: A}\n")
    command = [sys.executable, "-m", "kiqbridge", "schedule", "simulate", "--format", "csv"]
    with subprocess.Popen(
        [*command, "--file", str(tmp_path / "many.yml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.slow
def test_two_hundred_schedules_a_year_as_csv(run):
    lines = [
        f"s{n}: {{expression: '{n % 60} {n % 24} * * *', timezone: {zone}, class: A}}"
        for n in range(150)
        for zone in [("UTC", "Europe/Paris", "America/New_York")[n % 3]]
    ]
    lines += [f"h{n}: {{expression: '{n} * * * *', class: A}}" for n in range(50)]
    year = ("--from", "2026-01-01", "--to", "2027-01-01", "--format", "csv")

    count = run(*year, text="\n".join(lines))[1].count("\n") - 1

    # 02:30 and the like are left out on one day in Paris and New York.
    assert 492_700 < count <= 150 * 365 + 50 * 24 * 365
