"""`kiqbridge limiter`: the limiters that have a state in Redis, and forgetting that of one (docs/limiters.md)."""

import argparse
from dataclasses import asdict

from kiqbridge.api.audit import record_audit
from kiqbridge.api.operator import open_operator
from kiqbridge.commands.acting import confirm
from kiqbridge.commands.arguments import add_changing, add_example, add_json, add_option
from kiqbridge.commands.output import (
    write_json,
    write_line,
    write_table,
)
from kiqbridge.store.limits import KINDS, list_limits, read_limit, reset_limit
from kiqbridge.wire.amounts import span_text

MOST = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs list and reset."""
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    listing = verbs.add_parser("list", help=f"what is taken of each, up to {MOST:,} of them")
    add_json(listing)
    listing.set_defaults(command=_list)
    add_example(listing, "kiqbridge limiter list --json")
    reset = verbs.add_parser("reset", help="forget what is taken of one, so that all of it is free")
    add_option(reset, "kind", "KIND", ", ".join(KINDS), choices=KINDS)
    reset.add_argument("name", metavar="NAME")
    add_changing(reset, asks=True)
    reset.set_defaults(command=_reset)
    add_example(reset, "kiqbridge limiter reset concurrent erp --yes")


def _list(options: argparse.Namespace) -> int:
    client = open_operator(via="cli").client
    found = sorted(
        list_limits(client.pool, client.keys, MOST), key=lambda each: (each.kind, each.name)
    )
    if options.json:
        write_json({"limiters": [asdict(each) for each in found]})
        return 0
    if not found:
        write_line("Nothing is taken of any limiter.")
        return 0
    write_table(
        ("kind", "!name", ">used", "forgotten in"),
        [
            (each.kind, each.name, f"{each.used:,.6g}", span_text(each.forgotten_in_s))
            for each in found
        ],
    )
    return 0


def _reset(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    client = operator.client
    state = read_limit(client.pool, client.keys, options.kind, options.name)
    title = f"limiter {options.kind} {options.name}"
    is_reset = False
    if state is not None and not options.dry_run:
        question = f"Forget that {state.used:g} are taken of {title}? More may pass for a while."
        if not confirm(question, options):
            return 1
        is_reset = reset_limit(client.pool, client.keys.limit(options.kind, options.name))
        record_audit(operator, "reset", f"limiter:{options.kind}:{options.name}")
    if options.json:
        write_json(
            {
                "dry_run": options.dry_run,
                "kind": options.kind,
                "name": options.name,
                "used": None if state is None else state.used,
                "reset": is_reset,
            }
        )
    elif state is None:
        write_line(f"nothing is taken of {title}")
    else:
        write_line(f"{'would reset' if options.dry_run else 'reset'} {title}")
    return 0
