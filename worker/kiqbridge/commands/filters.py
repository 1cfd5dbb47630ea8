"""Which jobs a command means: options for `kiqbridge.api.Filter`, and jids."""

import argparse
from collections.abc import Sequence
from typing import Final

from kiqbridge.api import Filter
from kiqbridge.commands.argument_types import duration

_OPTIONS: Final = (
    ("--class", "job_class", "GLOB", "class of the job, such as 'Billing::*'"),
    ("--error-class", "error_class", "GLOB", "class of the last error"),
    ("--error", "error", "TEXT", "part of the last error's message"),
    ("--queue", "queue", "GLOB", "queue of the job"),
    ("--tag", "tag", "TAG", "one of its tags"),
    ("--arg", "arg", "TEXT", "part of one of its arguments"),
    ("--text", "text", "TEXT", "part of the job's JSON, as it lies in Redis"),
)


def add_filters(parser: argparse.ArgumentParser, *, without: Sequence[str] = ()) -> None:
    """The options that say which jobs are meant; `without` names attributes that make no sense here."""
    group = parser.add_argument_group("which jobs", "All that is given must apply.")
    for flag, name, metavar, text in _OPTIONS:
        if name not in without:
            group.add_argument(flag, dest=name, default="", metavar=metavar, help=text)
    for flag, name, text in (
        ("--older-than", "older_than_s", "it failed, or was enqueued, longer ago: 90, 15m, 2h, 1d"),
        ("--newer-than", "newer_than_s", "it failed, or was enqueued, since then"),
    ):
        group.add_argument(flag, dest=name, type=duration, metavar="DURATION", help=text)


def filter_of(options: argparse.Namespace) -> Filter:
    """The filter that the options say; an empty one if none was given."""
    given = vars(options)
    texts = {name: given.get(name, "") for _, name, _, _ in _OPTIONS}
    return Filter(
        **texts, older_than_s=given.get("older_than_s"), newer_than_s=given.get("newer_than_s")
    )


def that_match(where: Filter) -> str:
    """` that match class=Mail`, or nothing."""
    return f" that match {where}" if where else ""
