"""`kiqbridge metrics`: show executions, failures and durations of each class, as the workers measured them.

For one class also percentiles, by minute, and its errors.
"""

import argparse
import time
from collections.abc import Mapping
from typing import Any, Final

from kiqbridge import api
from kiqbridge.api.groups import fetch_groups
from kiqbridge.commands.arguments import add, add_example, add_json
from kiqbridge.commands.output import answer_table, error_text, fields_of, write_line
from kiqbridge.wire.amounts import instant_text, span_text

LOOKED_AT: Final = 200
MOST_ERRORS: Final = 3
"""Retries and dead jobs of which the errors are counted, and errors that are named."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of what, and since when."""
    add(parser, "[CLASS]", "one class, with percentiles", dest="job_class")
    add(parser, "--minutes N", "the last N minutes, up to 480 (default 60)", default=60)
    add_json(parser)
    add_example(parser, "kiqbridge metrics --minutes 120")


def run(options: argparse.Namespace) -> int:
    """Show the classes, or one of them."""
    operator = api.open_operator(via="cli")
    return _one(operator, options) if options.job_class else _all(operator, options)


def _all(operator: api.Operator, options: argparse.Namespace) -> int:
    until = api.complete_until(operator)
    found = api.top_jobs(options.minutes, operator=operator)
    code = answer_table(
        options,
        {
            "minutes": options.minutes,
            "until": until,
            "classes": [_counts(each) for each in found.classes.values()],
            "marks": _marks(found.marks),
        },
        ("class", ">ran", ">failed", ">average", ">total"),
        [
            (each.job_class, *_cells(each.total), _ms(each.total.ms))
            for each in found.classes.values()
        ],
        none=f"No job ran in the last {options.minutes:,} minutes{_end(until)}",
    )
    if found.classes and until and not options.json:
        write_line(f"This is all{_end(until)}")
    _write_marks(options, found.marks)
    return code


def _one(operator: api.Operator, options: argparse.Namespace) -> int:
    until = api.complete_until(operator)
    found = api.job_metrics(options.job_class, options.minutes, operator=operator)
    total, series = found.counts.total, found.counts.series
    code = answer_table(
        options,
        {
            "minutes": options.minutes,
            "until": until,
            **_counts(found.counts),
            **_percentiles(found.histogram),
            "series": [
                {"at": at, **fields_of(each, "executions failures ms")}
                for at, each in series.items()
            ],
            "marks": _marks(found.marks),
        },
        ("minute", ">ran", ">failed", ">average"),
        [
            (time.strftime("%H:%M UTC", time.gmtime(at)), *_cells(each))
            for at, each in (series.items() if total.executions else ())
        ],
        none=f"{options.job_class} did not run in the last {options.minutes:,} minutes{_end(until)}",
    )
    if total.executions and not options.json:
        shown = "  ".join(
            f"{name.removesuffix('_ms')} {_ms(value)}"
            for name, value in _percentiles(found.histogram).items()
        )
        write_line(
            f"{options.job_class}: {total.executions:,} ran, {total.failures:,} failed, "
            f"average {_ms(total.average_ms)}  {shown}"
        )
        if until:
            write_line(f"This is all{_end(until)}")
        if total.failures:
            _write_errors(operator, options.job_class)
    _write_marks(options, found.marks)
    return code


def _write_errors(operator: api.Operator, job_class: str) -> None:
    """Of its jobs among the next retries, and among the last that died."""
    for jobs, which in (
        (api.RetrySet(operator), "next retries"),
        (api.DeadSet(operator), "last dead jobs"),
    ):
        found = fetch_groups(jobs, LOOKED_AT)
        for each in found.of(job_class).groups[:MOST_ERRORS]:
            write_line(
                f"{each.count:,} of {found.looked_at:,} {which}: {error_text(each.error_class, each.message)}"
            )


def _write_marks(options: argparse.Namespace, marks: Mapping[float, str]) -> None:
    for at, label in marks.items() if not options.json else ():
        write_line(f"deployed {instant_text(at)}: {label}")


def _end(until: float | None) -> str:
    """The end of a sentence: of jobs that have ended since then nothing is known yet."""
    if until is None:
        return "."
    ago = span_text(max(0.0, time.time() - until))
    return f", up to {instant_text(until)} ({ago} ago): a process writes what it measured with its next heartbeat."


def _cells(total: api.Counts) -> tuple[str, str, str]:
    return f"{total.executions:,}", f"{total.failures:,}", _ms(total.average_ms)


def _counts(counts: api.ClassCounts) -> dict[str, Any]:
    numbers = fields_of(counts.total, "executions failures ms average_ms")
    return {"class": counts.job_class, **numbers}


def _marks(marks: Mapping[float, str]) -> list[dict[str, Any]]:
    return [{"at": at, "label": label} for at, label in marks.items()]


def _percentiles(histogram: api.Histogram) -> dict[str, float | None]:
    return {f"p{share}_ms": histogram.percentile(share / 100) for share in (50, 95, 99)}


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.1f} s"  # noqa: PLR2004 - from there on seconds read better
