"""The verbs of `kiqbridge queue` that act on jobs: delete, kill, move, clear."""

import argparse
import time
from typing import Final, cast

from kiqbridge.api import Action, Filter, Queue, open_operator
from kiqbridge.commands.acting import Plan, carry_out
from kiqbridge.commands.help_text import add_example
from kiqbridge.commands.set_actions import add_safety, add_selection, check_selection
from kiqbridge.errors import PayloadError
from kiqbridge.wire.names import printable

_HELP: Final = {
    "delete": "delete jobs of a queue",
    "kill": "move jobs of a queue to the dead set",
    "move": "move jobs to another queue, behind what waits there",
    "clear": "delete all jobs of a queue, and its name from the list of queues",
}


def add_verbs(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verbs; each takes the name of a queue first."""
    for verb, text in _HELP.items():
        parser = verbs.add_parser(verb, help=text, description=f"{text.capitalize()}.")
        parser.add_argument("name", metavar="NAME")
        if verb != "clear":
            add_selection(parser, without=["queue"])
        if verb == "move":
            parser.add_argument(
                "--to", required=True, metavar="QUEUE", help="move them to this queue"
            )
        add_safety(parser)
        parser.set_defaults(command=_act, verb=verb)
        which = "" if verb == "clear" else " --class 'Mail*'"
        to = " --to low" if verb == "move" else ""
        add_example(parser, f"kiqbridge queue {verb} default{which}{to} --dry-run")


def _act(options: argparse.Namespace) -> int:
    now = time.time()
    queue = Queue(options.name, open_operator(via="cli"))
    if options.verb == "clear":
        plan = _plan(options, Filter(), queue.size)
        return carry_out(options, plan, lambda _advance: queue.clear())
    where, to = check_selection(options), getattr(options, "to", None)
    action = cast("Action", options.verb)
    if options.jids:
        wanted = set(options.jids)
        jobs = [job for job in queue if job.jid in wanted]
        missing = wanted.difference(job.jid for job in jobs)
        if missing:
            shown = ", ".join(printable(jid) for jid in sorted(missing))
            raise PayloadError(f"{shown}: not in queue {printable(queue.name)}")
        plan = _plan(options, where, len(jobs[: options.limit]))
        return carry_out(
            options, plan, lambda _advance: queue.apply(action, jobs[: options.limit], to=to)
        )
    total = sum(1 for _ in queue.scan(where, now=now)) if where else queue.size
    plan = _plan(options, where, min(total, options.limit or total))
    return carry_out(
        options,
        plan,
        lambda advance: queue.apply_all(
            action,
            where or None,
            to=to,
            limit=options.limit,
            progress=lambda done, _looked_at: advance(done),
        ),
    )


def _plan(options: argparse.Namespace, where: Filter, total: int) -> Plan:
    to = f" to {options.to}" if options.verb == "move" else ""
    return Plan(
        verb=options.verb,
        target=f"queue:{options.name}",
        noun="waiting job",
        where=where,
        count=total,
        ending=f"{to} from queue {options.name}"
        if options.verb == "move"
        else f" of queue {options.name}",
    )
