"""`kiqbridge limiter`: how much of each limiter of kiqbridge.flow is taken, which jobs hold it and which wait; reset it.

It lists those that were used within the last day.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kiqbridge.api import Operator
from kiqbridge.api.operator import open_operator
from kiqbridge.commands import arguments, output
from kiqbridge.commands.acting import REFUSED, confirm
from kiqbridge.features.limiters.overview import list_limiters, read_limiter, reset_limiter
from kiqbridge.features.limiters.store import KINDS, LimitState
from kiqbridge.wire.amounts import span_text

MOST = 1000
_AT_ONCE = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs list and reset."""
    verbs = arguments.add_verbs(parser)
    text = "list limiters: how much of each is taken, and how many jobs wait; the last used first"
    listing = arguments.add_verb(verbs, "list", _list, text, "kiqbridge limiter list --json")
    arguments.add_listing(listing, MOST, "for scripts that go through all of them")
    text = "show which jobs hold a limiter, and which wait for it"
    show = arguments.add_verb(verbs, "show", _show, text, "kiqbridge limiter show concurrent erp")
    arguments.add(show, "KIND", ", ".join(KINDS), choices=KINDS)
    arguments.add(show, "NAME")
    arguments.add_json(show)
    text = "free a limiter"
    reset = arguments.add_verb(
        verbs, "reset", _reset, text, "kiqbridge limiter reset concurrent erp --yes"
    )
    arguments.add(reset, "KIND", ", ".join(KINDS), choices=KINDS)
    arguments.add(reset, "NAME")
    arguments.add_changing(reset, asks=True)


def _list(options: argparse.Namespace) -> int:
    found = output.listed(options, _rows(open_operator(via="cli")), _fields, MOST)
    return output.answer_table(
        options,
        {"limiters": [_fields(each) for each in found]},
        ("kind", "!name", ">used", ">of", ">waits", "free again in"),
        [
            (
                each.kind,
                each.name,
                f"{each.used:,.6g}",
                f"{each.limit:,.6g}",
                f"{each.waits:,}",
                span_text(each.free_in_s) if each.free_in_s else "",
            )
            for each in found
        ],
        none="No limiter was used within the last day.",
    )


def _rows(operator: Operator) -> Iterator[LimitState]:
    number = 0
    while True:
        number += 1
        page = list_limiters(operator, number, _AT_ONCE)
        yield from page.rows
        if number >= page.count:
            return


def _fields(state: LimitState) -> dict[str, Any]:
    return {**asdict(state), "full": state.is_full}


def _show(options: argparse.Namespace) -> int:
    found = read_limiter(open_operator(via="cli"), options.kind, options.name)
    if found is None:
        output.warn(
            f"limiter {options.kind} {options.name}: it was not entered within the last day"
        )
        return REFUSED
    state = found.state
    if options.json:
        owners = [asdict(each) for each in found.owners]
        output.write_json({**_fields(state), "owners": owners, "waiting": found.waiting})
        return 0
    full = ", full" if state.is_full else ""
    output.write_line(
        f"{state.kind} {state.name}: {state.used:g} of {state.limit:g} used{full}, {state.waits:,} wait"
    )
    for each in found.owners:
        owner = f"{each.job_class} {each.jid}" if each.jid else "no job"
        output.write_line(
            f"held by     {owner}  {each.process}  since {output.since_cell(each.since, time.time())}"
        )
    for who in found.waiting:
        output.write_line(f"waits       {who}")
    return 0


def _reset(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    kind, name = options.kind, options.name
    found = read_limiter(operator, kind, name)
    key = operator.keys.limit(kind, name)
    used = (found.state.used if found else float(operator.pool.call("EXISTS", key))) or None
    title = f"limiter {kind} {name}"
    is_reset = False
    if used is not None and not options.dry_run:
        question = f"Forget that {used:g} are taken of {title}? More may pass for a while."
        if not confirm(question, options):
            return REFUSED
        is_reset = reset_limiter(operator, kind, name)
    said = "would reset" if options.dry_run else "reset"
    return output.answer(
        options,
        {"dry_run": options.dry_run, "kind": kind, "name": name, "used": used, "reset": is_reset},
        [f"nothing is taken of {title}" if used is None else f"{said} {title}"],
    )
