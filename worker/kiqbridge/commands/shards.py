"""Which of several shards a command means: `--shard NAME`, else all that answer (docs/shards.md)."""

import argparse
import sys
from collections.abc import Sequence

from kiqbridge.api import Operator, open_operator
from kiqbridge.commands.output import Column, columns_of
from kiqbridge.wire.names import printable


def add_shard(parser: argparse.ArgumentParser) -> None:
    """The option, for a command and all its verbs."""
    verbs = [
        verb
        for action in parser._actions  # noqa: SLF001 - argparse has no other way to its subparsers
        if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
        for verb in action.choices.values()
    ]
    for verb in verbs:
        add_shard(verb)
    if not verbs and "--shard" not in parser._option_string_actions:  # noqa: SLF001
        parser.add_argument(
            "--shard",
            dest="only_shards",
            action="append",
            metavar="NAME",
            help="only this one of several shards; may be repeated (default: all)",
        )


def chosen_operator(options: argparse.Namespace, *, via: str = "cli") -> Operator:
    """Of the shards that are named, else of all, whether or not they answer.

    Raises:
        PayloadError: there is no shard of such a name.
    """
    operator = open_operator(via=via)
    only = getattr(options, "only_shards", None)
    return operator.limited_to(tuple(dict.fromkeys(only))) if only else operator


def operator_of(options: argparse.Namespace, *, via: str = "cli") -> Operator:
    """Of the shards that are named, else of all that answer; those that do not are named on standard error.

    Raises:
        PayloadError: there is no shard of such a name.
        RedisUnavailable: of several shards none answers.
    """
    operator = chosen_operator(options, via=via)
    if getattr(options, "only_shards", None):
        return operator
    found = operator.reachable()
    for name, why in found.missing:
        sys.stderr.write(f"kiqbridge: shard {name} is away, and left out here: {printable(why)}\n")
    return found


def with_shard(operator: Operator, *columns: str | Column) -> Sequence[Column]:
    """The columns of a table, the shard first where there are several."""
    return columns_of(*(["shard"] if operator.shards else []), *columns)


def shard_cell(operator: Operator, shard: str) -> Sequence[str]:
    """What a row begins with, as `with_shard`."""
    return (shard,) if operator.shards else ()
