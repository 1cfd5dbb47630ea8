"""`kiqbridge metrics`: how often each class ran and failed, and how long it took."""

import argparse
import time
from typing import Any

from kiqbridge.api import ClassCounts, Histogram, Operator, job_metrics, open_operator, top_jobs
from kiqbridge.commands.arguments import add_example, add_json, add_option, count
from kiqbridge.commands.output import fields_of, write_json, write_line, write_table
from kiqbridge.wire.amounts import instant_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of what, and since when."""
    add_option(parser, "job_class", "CLASS", "one class, with percentiles", nargs="?")
    add_option(
        parser, "--minutes", "N", "the last so many, up to 480 (default 60)", type=count, default=60
    )
    add_json(parser)
    add_example(parser, "kiqbridge metrics --minutes 120")


def run(options: argparse.Namespace) -> int:
    """Show the classes, or one of them."""
    operator = open_operator(via="cli")
    return _one(operator, options) if options.job_class else _all(operator, options)


def _all(operator: Operator, options: argparse.Namespace) -> int:
    found = top_jobs(options.minutes, operator=operator)
    if options.json:
        write_json(
            {
                "minutes": options.minutes,
                "classes": [_counts(each) for each in found.classes.values()],
                "marks": [{"at": at, "label": label} for at, label in found.marks.items()],
            }
        )
        return 0
    if not found.classes:
        write_line(f"No job ran in the last {options.minutes:,} minutes.")
    else:
        write_table(
            ("~class", ">ran", ">failed", ">average", ">total"),
            [
                (
                    each.job_class,
                    f"{each.total.executions:,}",
                    f"{each.total.failures:,}",
                    _ms(each.total.average_ms),
                    _ms(each.total.ms),
                )
                for each in found.classes.values()
            ],
        )
    for at, label in found.marks.items():
        write_line(f"deployed {instant_text(at)}: {label}")
    return 0


def _one(operator: Operator, options: argparse.Namespace) -> int:
    found = job_metrics(options.job_class, options.minutes, operator=operator)
    if options.json:
        write_json(
            {
                "minutes": options.minutes,
                **_counts(found.counts),
                **_percentiles(found.histogram),
                "series": [
                    {"at": at, **fields_of(each, "executions failures ms")}
                    for at, each in found.counts.series.items()
                ],
                "marks": [{"at": at, "label": label} for at, label in found.marks.items()],
            }
        )
        return 0
    total = found.counts.total
    if not total.executions:
        write_line(f"{options.job_class} did not run in the last {options.minutes:,} minutes.")
        return 0
    write_table(
        ("minute", ">ran", ">failed", ">average"),
        [
            (
                time.strftime("%H:%M UTC", time.gmtime(at)),
                f"{each.executions:,}",
                f"{each.failures:,}",
                _ms(each.average_ms),
            )
            for at, each in found.counts.series.items()
        ],
    )
    shown = "  ".join(
        f"{name} {_ms(value)}" for name, value in _percentiles(found.histogram).items()
    )
    write_line(
        f"{options.job_class}: {total.executions:,} ran, {total.failures:,} failed, "
        f"average {_ms(total.average_ms)}  {shown.replace('_ms', '')}"
    )
    return 0


def _counts(counts: ClassCounts) -> dict[str, Any]:
    numbers = fields_of(counts.total, "executions failures ms average_ms")
    return {"class": counts.job_class, **numbers}


def _percentiles(histogram: Histogram) -> dict[str, float | None]:
    return {f"p{share}_ms": histogram.percentile(share / 100) for share in (50, 95, 99)}


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.1f} s"  # noqa: PLR2004 - from there on seconds read better
