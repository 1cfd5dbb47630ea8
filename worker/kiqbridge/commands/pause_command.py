"""`kiqbridge queue` and `kiqbridge class`: pausing, resuming, and what is paused."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from kiqbridge.api import Operator, Queue, open_operator
from kiqbridge.api.audit import record_audit
from kiqbridge.commands.acting import report_resumed
from kiqbridge.commands.arguments import add_changing, add_example, add_json, add_pause
from kiqbridge.commands.jobs_command import add_queue_verbs
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.errors import did_you_mean
from kiqbridge.store.pauses import Kind, Pause
from kiqbridge.wire.amounts import count_text


def add_arguments(parser: argparse.ArgumentParser, kind: Kind) -> None:
    """The verbs pause, resume and list."""
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    pause = verbs.add_parser("pause", help=f"let no worker run jobs of this {kind}")
    pause.add_argument("names", nargs="+", metavar="NAME")
    add_pause(pause)
    resume = verbs.add_parser("resume", help="end the pause, whoever made it")
    resume.add_argument("names", nargs="+", metavar="NAME")
    listing = verbs.add_parser(
        "list", help="queues, their length and pause" if kind == "queue" else "what is paused"
    )
    listing.add_argument("names", nargs="*", metavar="NAME")
    for verb in (pause, resume):
        add_changing(verb)
    add_json(listing)
    for verb, function in ((pause, _pause), (resume, _resume), (listing, _list)):
        verb.set_defaults(command=function, kind=kind)
    name = "mail" if kind == "queue" else "Billing::Invoice"
    add_example(
        pause, f"kiqbridge {kind} pause {name} --reason 'provider is down' --for 2h --dry-run"
    )
    add_example(resume, f"kiqbridge {kind} resume {name}")
    add_example(listing, f"kiqbridge {kind} list --json")
    if kind == "queue":
        add_queue_verbs(verbs)


def _pause(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    operator = replace(operator, by=operator.by if options.by is None else options.by)
    _warn_of_unknown(options, operator)
    client, by = operator.client, operator.by
    act: Callable[..., Pause] = (
        client.pause_queue if options.kind == "queue" else client.pause_class
    )
    made = []
    for name in options.names:
        if options.dry_run:
            made.append(Pause(kind=options.kind, name=name, reason=options.reason, by=by))
        else:
            made.append(act(name, reason=options.reason, by=by, for_s=options.for_s))
            record_audit(operator, "pause", f"{options.kind}:{name}", options.reason)
    if options.json:
        write_json({"dry_run": options.dry_run, "paused": [asdict(each) for each in made]})
        return 0
    verb = "would pause" if options.dry_run else "paused"
    ending = f" for {options.for_s:g} s" if options.dry_run and options.for_s else ""
    for each in made:
        write_line(f"{verb} {each.kind} {each.name}{ending or _until(each)}")
    return 0


def _resume(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    paused = {each.name for each in operator.pauses() if each.kind == options.kind}
    client = operator.client
    resume = client.resume_queue if options.kind == "queue" else client.resume_class
    results = [
        {"name": name, "was_paused": name in paused if options.dry_run else resume(name)}
        for name in options.names
    ]
    for each in results:
        if each["was_paused"] and not options.dry_run:
            record_audit(operator, "resume", f"{options.kind}:{each['name']}")
    return report_resumed(options, results, options.kind)


def _list(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    paused = {each.name: each for each in operator.pauses() if each.kind == options.kind}
    if options.kind == "class":
        shown = [name for name in paused if not options.names or name in options.names]
        rows: list[dict[str, Any]] = [{"name": name, **_fields(paused[name])} for name in shown]
    else:
        sizes = _queue_sizes(operator, options.names, paused)
        rows = [
            {"name": name, "size": size, **_fields(paused.get(name))}
            for name, size in sizes.items()
        ]
    if options.json:
        write_json({"queues" if options.kind == "queue" else "classes": rows})
        return 0
    for row in rows:
        pause = paused.get(row["name"])
        size = f"  {count_text(row['size'], 'job')}" if "size" in row else ""
        write_line(f"{row['name']}{size}{_line(pause) if pause else ''}")
    if not rows:
        write_line(f"no {options.kind} is {'known' if options.kind == 'queue' else 'paused'}")
    return 0


def _queue_sizes(
    operator: Operator, names: Sequence[str], paused: Mapping[str, Pause]
) -> Mapping[str, int]:
    wanted = sorted(names or _known_queues(operator) | set(paused))
    commands = [("LLEN", operator.keys.queue(name)) for name in wanted]
    return dict(zip(wanted, operator.pool.run(*commands) if commands else [], strict=True))


def _warn_of_unknown(options: argparse.Namespace, operator: Operator) -> None:
    """A misspelt queue would be paused without an effect; one that is only new is paused for later."""
    if options.kind != "queue":
        return
    known = _known_queues(operator)
    for name in options.names:
        if name not in known:
            hint = did_you_mean(name, known)
            sys.stderr.write(f"kiqbridge: no job was ever pushed to queue {name}{hint}\n")


def _known_queues(operator: Operator) -> set[str]:
    return {queue.name for queue in Queue.all(operator)}


def _fields(pause: Pause | None) -> dict[str, Any]:
    if pause is None:
        return {"paused": False}
    return {
        "paused": True,
        "reason": pause.reason,
        "by": pause.by,
        "at": pause.at,
        "until": pause.until,
    }


def _line(pause: Pause) -> str:
    by = f" by {pause.by}" if pause.by else ""
    reason = f": {pause.reason}" if pause.reason else ""
    return f"  paused{by}{_until(pause)}{reason}"


def _until(pause: Pause) -> str:
    if pause.until is None:
        return ""
    return f" until {datetime.fromtimestamp(pause.until, UTC):%Y-%m-%d %H:%M:%S} UTC"
