"""`kiqbridge job`: the life of a job by its jid: where it is, why it waits, how it ended.

Show it, follow it, push it, move it, kill it or delete it.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from typing import Any, Final

from kiqbridge import api, seams
from kiqbridge.api.job_list import ListedJob
from kiqbridge.commands import output
from kiqbridge.commands.acting import REFUSED, Advance, Plan, carry_out, write_paused_classes
from kiqbridge.commands.arguments import add, add_changing, add_json, add_verb, add_verbs
from kiqbridge.commands.jobs_command import MORE, add_destination, destination_of
from kiqbridge.errors import PayloadError
from kiqbridge.wire.amounts import instant_text, took_text
from kiqbridge.wire.names import printable, text_of

_HELP: Final = {
    "retry": "push it to its queue now",
    "kill": "move it to the dead set",
    "delete": "delete it",
    "move": "move it to another queue; out of a set it is pushed there now",
    "reschedule": "change the time at which it is due",
}
_DUE: Final = {"retry": "next try", "schedule": "due", "dead": "died"}
_JID: Final = "b4a577edbccf1d805744efa9"
_LOOK_S: Final = 0.5
_SHARE: Final = 10
"""Of the time at most a tenth is spent looking: where queues are long a look takes seconds, also of the server."""
_GRACE_S: Final = 3.0
"""What is nowhere for so long has ended: a job may be missed while it moves, and its result comes a moment later."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs; without one it is `show`."""
    verbs = add_verbs(parser, "show", default_takes_word=True)
    text = "where it is and why it waits, its attempts, arguments and error, or its end; the verb may be left out"
    examples = f"kiqbridge job show {_JID}", f"kiqbridge job {_JID}"
    show = add_verb(verbs, "show", _show, text, *examples)
    add(show, "JID")
    form = show.add_mutually_exclusive_group()
    add_json(form)
    add(form, "--raw", "its text, as it lies in Redis")
    add(form, "--follow", "a line at each change of its state until it has ended, or until Ctrl-C")
    for word, text in _HELP.items():
        example = f"kiqbridge job {word} {_JID}{MORE.get(word, '')} --dry-run"
        verb = add_verb(verbs, word, _act, text, example, verb=word)
        add(verb, "JID")
        add_destination(verb, word)
        add_changing(verb, asks=True)


def _show(options: argparse.Namespace) -> int:
    operator = api.open_operator(via="cli")
    if options.follow:
        return _follow(options.jid, operator)
    history = api.history_of(options.jid, operator)
    if not history.is_known and seams.named("batches") is not None:
        code: int | None = seams.call("show_batch", "batches")(options, operator, options.jid)
        if code is not None:
            return code
    if options.json:
        output.write_json(_document(history))
    elif options.raw:
        for each in history.found:
            _write_raw(each)
    elif history.is_known:
        _print(history, time.time())
        _write_pause(history, operator)
    if not (history.found if options.raw else history.is_known):
        if not options.json:
            _say_missing(options.jid)
        return REFUSED
    return 0


def _follow(jid: str, operator: api.Operator) -> int:
    """Exit code 0 once it has ended, whatever its end; `REFUSED` if nothing of it is kept."""
    shown, gone_at = "", None
    while True:
        began = time.monotonic()
        history = api.history_of(jid, operator, brief=True)
        if history.status != "unknown":
            gone_at = None
        elif not shown:
            _say_missing(jid)
            return REFUSED
        elif gone_at is None:
            gone_at = began
        if gone_at is None or began - gone_at >= _GRACE_S:
            text = f"{history.status:<11}{_detail(history)}".rstrip()
            if text != shown:
                output.write_line(f"{instant_text(time.time())}  {text}")
                sys.stdout.flush()
                shown = text
            if history.job is None or history.status == "dead":
                return 0
        time.sleep(max(_LOOK_S, _SHARE * (time.monotonic() - began)))


def _detail(history: api.JobHistory) -> str:
    """Besides the status what is to be said of it, and changes with it."""
    job = history.job
    if job is None:
        unknown = "it was performed, or deleted; no record of it is kept"
        return history.end.reason if history.end else unknown
    due = (
        f"{_DUE[history.found[0].place]} {instant_text(job.at)}"
        if isinstance(job, api.SortedEntry)
        else ""
    )
    tries = "" if job.retry_count is None else f"retry_count {job.retry_count}"
    error = "" if history.status == "running" else output.error_cell(job)
    return "  ".join(filter(None, (f"queue {job.queue}", due, tries, error)))


def _document(history: api.JobHistory) -> dict[str, Any]:
    kept = {name: _plain(getattr(history, name)) for name in ("wait", "end", "stack")}
    lists = ("events", "attempts", "parents", "children")
    return {
        **output.fields_of(history, "jid status queue tags refused"),
        "class": history.job_class,
        "found": [_fields(each) for each in history.found],
        **kept,
        **{name: [_plain(each) for each in getattr(history, name)] for name in lists},
    }


def _plain(value: Any) -> dict[str, Any] | None:
    return None if value is None else asdict(value)


def _fields(found: api.Found) -> dict[str, Any]:
    return {
        "place": found.place,
        "name": found.name,
        **output.job_fields(found.job),
        "error_backtrace": found.job.error_backtrace,
        "raw": text_of(found.job.text),
    }


def _write_raw(found: api.Found) -> None:
    if output.is_terminal():
        output.write_line(text_of(found.job.text))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(found.job.text + b"\n")
    sys.stdout.buffer.flush()


def _print(history: api.JobHistory, now: float) -> None:
    job, wait, end = history.job, history.wait, history.end
    places = [
        each.place if each.name == each.place else f"{each.place} {each.name}"
        for each in history.found
    ]
    tries = (
        ""
        if job is None or job.retry_count is None
        else f"{job.retry_count} (0 is the first failure)"
    )
    for title, value in (
        ("jid", history.jid),
        ("class", output.class_cell(job) if job else history.job_class),
        ("status", history.status),
        ("waits", "" if wait is None else _with_time(wait.text, wait.until, now)),
        *(("where", each) for each in places),
        ("queue", history.queue),
        ("tags", ", ".join(history.tags)),
        *(("belongs to", _relative(each)) for each in history.parents),
        *(("followed by", _relative(each)) for each in history.children),
        ("arguments", output.args_cell(job.display_args, most=10_000) if job else ""),
        ("retries", tries),
        ("returned", json.dumps(end.value, default=str) if end and end.has_value else ""),
        *(("not known", each) for each in history.refused),
    ):
        if value:
            output.write_line(f"{title:<12}{value}")
    for each in history.timeline:
        said = _attempt(each) if isinstance(each, api.Attempt) else each.label
        output.write_line(f"{instant_text(each.at)}  {output.since_cell(each.at, now):<14}{said}")
    _write_stack(history, now)
    if job is not None:
        _write_error(job)


def _write_stack(history: api.JobHistory, now: float) -> None:
    """Where its thread is, if it runs."""
    title, stack = f"{'stack':<12}", history.stack
    if stack is not None:
        output.write_line(f"{title}{output.since_cell(stack.at, now)}")
        for line in stack.text.splitlines():
            output.write_line(f"{'':<12}{line}")
    elif any(each.place == "working" for each in history.found):
        output.write_line(
            f"{title}not known: kill -TTIN its process, or Dump threads on the page Processes"
        )


def _write_error(job: api.JobRecord) -> None:
    if job.error_class or job.error_message:
        output.write_line(f"{'error':<12}{job.error_class}: {job.error_message}")
    for line in job.error_backtrace:
        output.write_line(f"{'':<12}{line}")
    if not job.is_readable:
        output.write_line("Its text is no JSON object, or longer than 1 MB; --raw shows it.")


def _write_pause(history: api.JobHistory, operator: api.Operator) -> None:
    """That its class is paused, if that is not why it waits first of all."""
    if history.job and not (history.wait and history.wait.kind == "paused class"):
        write_paused_classes(operator, {history.job.own_class})


def _with_time(text: str, until: float | None, now: float) -> str:
    return (
        text if until is None else f"{text}; {instant_text(until)}, {output.since_cell(until, now)}"
    )


def _relative(relative: api.Relative) -> str:
    return f"{relative.kind} {relative.id}" + (f": {relative.text}" if relative.text else "")


def _attempt(attempt: api.Attempt) -> str:
    took = "" if attempt.took_s is None else f"after {took_text(attempt.took_s)}"
    worker = f"by {attempt.worker}" if attempt.worker else ""
    return ", ".join(filter(None, (attempt.label, took, worker)))


def _act(options: argparse.Namespace) -> int:
    operator = api.open_operator(via="cli")
    at, to, goal, _ = destination_of(options)
    found = api.find_job(options.jid, operator)
    if not found:
        _say_missing(options.jid)
        return REFUSED
    held = [(each, each.job) for each in found if isinstance(each.job, ListedJob)]
    if not held and found[0].place == "suspects":
        raise PayloadError(
            f"{printable(options.jid)}: it ran when a worker died, or hung when one stopped, and waits in queue "
            f"{printable(found[0].name)} to run alone, so that nothing can be done to it"
        )
    if not held:
        raise PayloadError(
            f"{printable(options.jid)}: it runs at this moment ({printable(found[0].name)}), so that nothing can be "
            "done to it; kiqbridge stop ends its process, which gives it back to its queue"
        )
    entry, job = held[0]
    if options.verb in {"retry", "reschedule"} and isinstance(job, api.QueuedJob):
        raise PayloadError(
            f"{printable(options.jid)}: it waits in queue {printable(entry.name)} already, and needs no {options.verb}"
        )
    goal = f" to queue {to}" if to else goal
    plan = Plan(
        verb=options.verb,
        target=f"queue:{entry.name}" if entry.place == "queue" else entry.name,
        noun="job",
        where=api.Filter(),
        count=1,
        ending=f"{goal} ({output.class_cell(job)} {job.jid}, in {entry.place} {entry.name})",
    )

    def act(_advance: Advance) -> int:
        if options.verb == "move" and isinstance(job, api.SortedEntry):
            return int(job.requeue(queue=to) is not None)
        return job.parent.apply(options.verb, [job], at=at, to=to)

    return carry_out(options, plan, act)


def _say_missing(jid: str) -> None:
    output.warn(
        f"{jid}: no such job in any queue or set, none runs, and no record of it is kept (keep_done says how many are); if it "
        "ran, the log of its worker has its lines"
    )
