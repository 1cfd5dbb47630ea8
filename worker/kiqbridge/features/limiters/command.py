"""`kiqbridge limiter`: what is taken of each limiter of kiqbridge.flow, and forgetting it.

Limiters of which nothing is taken have no state in Redis, and are not listed.
"""

import argparse
from dataclasses import asdict

from kiqbridge.api.audit import record_audit
from kiqbridge.api.operator import open_operator
from kiqbridge.commands.acting import REFUSED, confirm
from kiqbridge.commands.arguments import add, add_changing, add_json, add_verb, add_verbs
from kiqbridge.commands.output import answer, answer_table
from kiqbridge.features.limiters.store import KINDS, list_limits, read_limit, reset_limit
from kiqbridge.wire.amounts import span_text

MOST = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs list and reset."""
    verbs = add_verbs(parser)
    text = f"what is taken of each, up to {MOST:,} of them"
    add_json(add_verb(verbs, "list", _list, text, "kiqbridge limiter list --json"))
    text = "forget what is taken of one, so that all of it is free"
    reset = add_verb(verbs, "reset", _reset, text, "kiqbridge limiter reset concurrent erp --yes")
    add(reset, "KIND", ", ".join(KINDS), choices=KINDS)
    add(reset, "NAME")
    add_changing(reset, asks=True)


def _list(options: argparse.Namespace) -> int:
    client = open_operator(via="cli").client
    found = sorted(
        list_limits(client.pool, client.keys, MOST), key=lambda each: (each.kind, each.name)
    )
    return answer_table(
        options,
        {"limiters": [asdict(each) for each in found]},
        ("kind", "!name", ">used", "forgotten in"),
        [
            (each.kind, each.name, f"{each.used:,.6g}", span_text(each.forgotten_in_s))
            for each in found
        ],
        none="Nothing is taken of any limiter.",
    )


def _reset(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    client, kind, name = operator.client, options.kind, options.name
    state = read_limit(client.pool, client.keys, kind, name)
    title = f"limiter {kind} {name}"
    is_reset = False
    if state is not None and not options.dry_run:
        question = f"Forget that {state.used:g} are taken of {title}? More may pass for a while."
        if not confirm(question, options):
            return REFUSED
        is_reset = reset_limit(client.pool, client.keys.limit(kind, name))
        record_audit(operator, "reset", f"limiter:{kind}:{name}")
    used = None if state is None else state.used
    said = "would reset" if options.dry_run else "reset"
    return answer(
        options,
        {"dry_run": options.dry_run, "kind": kind, "name": name, "used": used, "reset": is_reset},
        [f"nothing is taken of {title}" if state is None else f"{said} {title}"],
    )
