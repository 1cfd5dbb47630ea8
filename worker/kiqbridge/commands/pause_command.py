"""`kiqbridge queue`, `class`, and two verbs of `schedule`: pausing, resuming, and what is paused."""

import argparse
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from kiqbridge import seams
from kiqbridge.api import Operator, ProcessSet, Queue, fetch_queue_rates, open_operator
from kiqbridge.api.audit import record_audit
from kiqbridge.commands import arguments
from kiqbridge.commands.jobs_command import add_queue_verbs
from kiqbridge.commands.output import answer, warn
from kiqbridge.errors import did_you_mean
from kiqbridge.store.pauses import Pause
from kiqbridge.wire.amounts import count_text, instant_text

_ABOUT: Final = {
    "queue": "List and pause queues; show, move, kill and delete their jobs. No worker serves a paused queue, except "
    "Ruby's without Sidekiq Pro; jobs can be pushed to it.",
    "class": "Pause classes of jobs, resume them, list the paused ones. Kiqbridge's workers put their jobs off, a minute each "
    "time; Ruby's workers run them.",
}
_EXAMPLES: Final = {"queue": "mail", "class": "Billing::Invoice", "schedule": "nightly-report"}


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """The verbs pause, resume and list; of a queue those for its jobs, too."""
    parser.description = _ABOUT[kind]
    verbs = arguments.add_verbs(parser)
    add_pause_verbs(verbs, kind, f"stop workers from running jobs of this {kind}")
    text = "list queues, their length and pause" if kind == "queue" else "list the paused classes"
    listing = arguments.add_verb(
        verbs, "list", _list, text, f"kiqbridge {kind} list --json", kind=kind
    )
    arguments.add(listing, "[NAME...]", dest="names")
    arguments.add_json(listing)
    if kind == "queue":
        add_queue_verbs(verbs)


def add_pause_verbs(verbs: "arguments.Verbs[Any]", kind: str, text: str, **more: str) -> None:
    """The verbs pause and resume; `text`: the help of pause."""
    line = f"kiqbridge {kind} %s {_EXAMPLES[kind]}"
    example = f"{line % 'pause'} --reason 'provider is down' --for 2h --dry-run"
    pause = arguments.add_verb(verbs, "pause", _pause, text, example, kind=kind, **more)
    text = "end the pause, also one that another user made"
    resume = arguments.add_verb(verbs, "resume", _resume, text, line % "resume", kind=kind)
    for verb in (pause, resume):
        arguments.add(verb, "NAME...", dest="names")
        arguments.add_changing(verb)
    arguments.add(pause, "--reason TEXT", "why; shown by list", default="")
    arguments.add(pause, "--by WHO", "who paused it (default: you, on this machine)")
    end = pause.add_mutually_exclusive_group()
    arguments.add(end, "--for DURATION", "end the pause after 90, 90s, 15m, 2h or 1d")
    arguments.add(end, "--until TIME", "end the pause at this time (ISO 8601)")


def warn_of_unknown(operator: Operator, kind: str, names: Collection[str]) -> None:
    """What is misspelt would be paused without an effect; what is only new is paused for later."""
    known = _known_queues(operator) if kind == "queue" else ()
    for name in names:
        if kind == "queue" and name not in known:
            warn(f"no job was ever pushed to queue {name}{did_you_mean(name, known)}")
        elif kind == "schedule" and (schedules := _schedules(operator)).get(name) is None:
            near = schedules.near_names(name)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            warn(f"schedule {name} is not known{hint}")


def _schedules(operator: Operator) -> Any:
    return seams.call("schedules")(operator.client)


def _acts(operator: Operator, kind: str) -> tuple[Callable[..., Any], Callable[[str], bool]]:
    """What pauses something of a kind, and what resumes it."""
    client = operator.client
    if kind == "schedule":
        schedules = _schedules(operator)
        return schedules.pause, schedules.resume
    if kind == "queue":
        return client.pause_queue, client.resume_queue
    return client.pause_class, client.resume_class


def _pause(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    operator = replace(operator, by=operator.by if options.by is None else options.by)
    act, _ = _acts(operator, options.kind)
    warn_of_unknown(operator, options.kind, options.names)
    rows: list[dict[str, Any]] = []
    for name in options.names:
        made: dict[str, Any] = {"kind": options.kind, "name": name, "reason": options.reason}
        made |= {"by": operator.by, "at": None}
        made["until"] = options.until.timestamp() if options.until else None
        if not options.dry_run:
            ends = {"for_s": options.for_, "until": options.until}
            made |= asdict(act(name, reason=options.reason, by=operator.by, **ends))
            record_audit(operator, "pause", f"{options.kind}:{name}", options.reason)
        rows.append(made)
    verb = "would pause" if options.dry_run else "paused"
    ending = f" for {options.for_:g} s" if options.dry_run and options.for_ else ""
    lines = (f"{verb} {_label(options, row['name'])}{ending or _until(row)}" for row in rows)
    return answer(options, {"dry_run": options.dry_run, "paused": rows}, lines)


def _resume(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    _, resume = _acts(operator, options.kind)
    rows = []
    for name in options.names:
        was_paused = _is_paused(operator, options.kind, name) if options.dry_run else resume(name)
        if was_paused and not options.dry_run:
            record_audit(operator, "resume", f"{options.kind}:{name}")
        if not was_paused and options.kind == "schedule":
            warn_of_unknown(operator, options.kind, [name])
        rows.append({"name": name, "was_paused": was_paused})
    verb = "would resume" if options.dry_run else "resumed"
    lines = (
        f"{verb} {label}" if row["was_paused"] else f"{label} was not paused"
        for row in rows
        for label in [_label(options, row["name"])]
    )
    return answer(options, {"dry_run": options.dry_run, "resumed": rows}, lines)


def _is_paused(operator: Operator, kind: str, name: str) -> bool:
    if kind != "schedule":
        return any((each.kind, each.name) == (kind, name) for each in operator.pauses())
    known = _schedules(operator).get(name)
    return known is not None and known.state.paused is not None


def _list(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    paused = {each.name: each for each in operator.pauses() if each.kind == options.kind}
    if options.kind == "class":
        rows: list[dict[str, Any]] = [
            {"name": name} for name in paused if not options.names or name in options.names
        ]
    else:
        rows = _queue_sizes(operator, options.names, paused)
    for row in rows:
        pause = paused.get(row["name"])
        row["paused"] = pause is not None
        if pause is not None:
            row |= {name: getattr(pause, name) for name in ("reason", "by", "at", "until")}
    none = f"no {options.kind} is {'known' if options.kind == 'queue' else 'paused'}"
    lines = list(map(_line, rows))
    for row in rows:
        if rates := row.get("rates"):
            row["rates"] = rates.fields(row["size"])
    document = {"queues" if options.kind == "queue" else "classes": rows}
    return answer(options, document, lines or [none])


def _queue_sizes(
    operator: Operator, names: Collection[str], paused: Mapping[str, Pause]
) -> list[dict[str, Any]]:
    wanted = sorted(names or _known_queues(operator) | set(paused))
    commands = [("LLEN", operator.keys.queue(name)) for name in wanted]
    sizes = operator.pool.run(*commands) if commands else []
    rates = fetch_queue_rates(operator)
    served = Counter(
        name for each in ProcessSet(operator) if not each.is_quiet for name in each.queues
    )
    return [
        {
            "name": name,
            "size": size,
            "served": served[name],
            **({"rates": rates[name]} if name in rates else {}),
        }
        for name, size in zip(wanted, sizes, strict=True)
    ]


def _known_queues(operator: Operator) -> set[str]:
    return {queue.name for queue in Queue.all(operator)}


def _line(row: Mapping[str, Any]) -> str:
    size = f"  {count_text(row['size'], 'job')}" if "size" in row else ""
    if rates := row.get("rates"):
        size += f"  {rates.text(row['size'])}"
    if not row["paused"]:
        waits = "  no process serves it" if row.get("size") and not row["served"] else ""
        return f"{row['name']}{size}{waits}"
    by = f" by {row['by']}" if row["by"] else ""
    reason = f": {row['reason']}" if row["reason"] else ""
    return f"{row['name']}{size}  paused{by}{_until(row)}{reason}"


def _label(options: argparse.Namespace, name: str) -> str:
    return name if options.kind == "schedule" else f"{options.kind} {name}"


def _until(row: Mapping[str, Any]) -> str:
    return "" if row["until"] is None else f" until {instant_text(float(row['until']))}"
