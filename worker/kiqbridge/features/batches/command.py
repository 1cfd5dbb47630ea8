"""`kiqbridge batch`: the progress of batches, groups and chains; the pending and failed jobs of one; cancel it."""

import argparse
import json
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from kiqbridge.api import Operator, open_operator
from kiqbridge.commands import output
from kiqbridge.commands.acting import REFUSED, confirm
from kiqbridge.commands.arguments import (
    add,
    add_changing,
    add_json,
    add_listing,
    add_verb,
    add_verbs,
)
from kiqbridge.features.batches.overview import (
    BatchView,
    Member,
    Which,
    cancel_batch,
    count_batches,
    describe,
    find_members,
    list_batches,
    read_batch,
    read_members,
)
from kiqbridge.features.batches.status import BatchStatus
from kiqbridge.wire.amounts import instant_text, span_text

ROWS: Final = 50
_BID: Final = "f3c1577edbccf1d805744efa"
_AT_ONCE: Final = 500
_ROW: Final = "{:<24}  {:<24}  {:<7}  {}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs list, show and cancel."""
    verbs = add_verbs(parser)
    text = "how far each is, those that have not succeeded first"
    listing = add_verb(verbs, "list", _list, text, "kiqbridge batch list --unfinished")
    add(listing, "--unfinished", "only those that have not succeeded")
    add_listing(listing, ROWS, "for scripts that go through all of them")
    text = "its callbacks, steps and parents, and its jobs that are pending or have failed"
    show = add_verb(verbs, "show", _show, text, f"kiqbridge batch show {_BID} --failed")
    add(show, "BID")
    add(show, "--failed", "only the jobs that have ended without success, all of them")
    add(show, "--pending", "only the jobs that have not ended, all of them")
    add_json(show)
    text = "start no more of its jobs; running ones continue"
    cancel = add_verb(verbs, "cancel", _cancel, text, f"kiqbridge batch cancel {_BID} --yes")
    add(cancel, "BID")
    add_changing(cancel, asks=True)


def _list(options: argparse.Namespace) -> int:
    client = open_operator(via="cli").client
    which: Which = "unfinished" if options.unfinished else "all"

    def rows() -> Iterable[BatchStatus]:
        number = 0
        while True:
            number += 1
            page = list_batches(client, number, _AT_ONCE, which)
            yield from page.rows
            if number >= page.count:
                return

    found = output.listed(options, rows(), _fields, ROWS)
    counts = count_batches(client)
    return output.answer_table(
        options,
        {"total": counts[which], "batches": [_fields(each) for each in found]},
        ("batch", "!about", "state", ">done", ">pending", ">failed", ">age"),
        [_row(each) for each in found],
        none="There are no batches.",
    )


def _row(batch: BatchStatus) -> tuple[str, ...]:
    return (
        batch.bid,
        batch.description or (batch.kind if batch.kind != "batch" else ""),
        batch.state,
        f"{batch.done:,} of {batch.total:,}",
        f"{batch.pending:,}",
        f"{batch.failed:,}",
        span_text(time.time() - batch.created_at),
    )


def _fields(batch: BatchStatus) -> dict[str, Any]:
    callbacks = [each._asdict() for each in batch.callbacks]
    return {**asdict(batch), "state": batch.state, "done": batch.done, "callbacks": callbacks}


def _show(options: argparse.Namespace) -> int:
    code = show_batch(options, open_operator(via="cli"), options.bid)
    if code is None:
        return _say_missing(options.bid)
    return code


def show_batch(options: argparse.Namespace, operator: Operator, bid: str) -> int | None:
    """Show the batch with this id: the exit code; None: there is none. `kiqbridge job` calls it as well."""
    client = operator.client
    batch = read_batch(client, bid)
    if batch is None:
        return None
    states = [each for each in ("failed", "pending") if getattr(options, each, False)]
    if states:
        write = _write_json if options.json else _write_lines
        write(bid, _all_members(operator, batch, states))
        return 0
    shown = read_members(client, batch.status, ("failed", "pending")).rows
    shown = describe(operator, batch, shown)
    if options.json:
        output.write_json(_document(batch) | {"members": list(map(_member_fields, shown))})
        return 0
    _print(batch)
    for each in shown:
        about = "  ".join(filter(None, (each.label, each.place)))
        output.write_line(f"{each.state:<12}{'batch ' * each.is_batch}{each.name}  {about}")
    left = batch.status.failed + batch.status.pending - len(shown)
    if left > 0:
        output.write_line(f"{'':<12}and {left:,} more: --failed and --pending list all")
    return 0


def _all_members(operator: Operator, batch: BatchView, states: Any) -> Iterable[Member]:
    """All of them, of which some hundred are held at a time."""
    cursor, known = "", find_members(operator)
    while True:
        found = read_members(operator.client, batch.status, states, cursor)
        yield from describe(operator, batch, found.rows, known)
        cursor = found.next_cursor
        if not cursor:
            return


def _write_json(bid: str, members: Iterable[Member]) -> None:
    """One document, written as it comes."""
    output.write(f'{{"bid": {json.dumps(bid)}, "members": [')
    for number, each in enumerate(members):
        output.write(f"{', ' * bool(number)}{json.dumps(_member_fields(each))}")
    output.write("]}\n")


def _write_lines(_: str, members: Iterable[Member]) -> None:
    """A line for each, under a heading."""
    number = -1
    for number, each in enumerate(members):
        if not number:
            output.write_line(_ROW.format("JOB", "CLASS", "STATE", "PLACE").rstrip())
        output.write_line(_ROW.format(each.name, each.label, each.state, each.place).rstrip())
    if number < 0:
        output.write_line("None.")


def _document(batch: BatchView) -> dict[str, Any]:
    return {
        **_fields(batch.status),
        "parents": [each.bid for each in batch.parents],
        "pushes": dict(batch.callbacks),
        "steps": [[_member_fields(each) for each in lane] for lane in batch.lanes],
    }


def _member_fields(member: Member) -> dict[str, Any]:
    kind = "batch" if member.is_batch else "job"
    shown = {"name": member.name, "kind": kind, "state": member.state, "label": member.label}
    return {**shown, "place": member.place}


def _print(batch: BatchView) -> None:
    status = batch.status
    parents = " in ".join(each.description or each.bid for each in reversed(batch.parents))
    progress = f"{status.done:,} of {status.total:,} done, {status.pending:,} pending, {status.failed:,} failed"
    for title, value in (
        (status.kind, status.bid),
        ("about", status.description),
        ("state", status.state),
        ("progress", progress),
        ("within", parents),
        ("refused", status.refused),
    ):
        if value:
            output.write_line(f"{title:<12}{value}")
    now = time.time()
    for title, at in (
        ("made", status.created_at),
        ("died", status.death_at),
        ("complete", status.complete_at),
        ("succeeded", status.success_at),
        ("cancelled", status.cancelled_at),
    ):
        if at is not None:
            output.write_line(f"{title:<12}{instant_text(at)}  {output.since_cell(at, now)}")
    for each in status.callbacks:
        when = "waits" if each.pushed_at is None else f"pushed as {each.member}"
        what = batch.callbacks.get(each.event, each.member)
        output.write_line(f"{'on ' + each.event:<12}{what}, {when}")
    for lane in batch.lanes[:ROWS]:
        steps = (f"{each.label or each.name} ({each.state})" for each in lane[:ROWS])
        output.write_line(f"{'steps':<12}{' → '.join(steps)}{' → …' if len(lane) > ROWS else ''}")


def _cancel(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    bid = options.bid
    batch = read_batch(operator.client, bid)
    if batch is None:
        return _say_missing(bid)
    pending = batch.status.pending
    title = f"batch {bid}: {pending:,} pending"
    if not options.dry_run:
        question = f"Cancel {title}? None of its jobs begins any more, and it never succeeds."
        if not confirm(question, options):
            return REFUSED
        cancel_batch(operator, bid)
    said = "would cancel" if options.dry_run else "cancelled"
    document = {"dry_run": options.dry_run, "bid": bid, "pending": pending}
    return output.answer(options, document, [f"{said} {title}"])


def _say_missing(bid: str) -> int:
    output.warn(f"{bid}: no such batch (any more); it is kept for 30 days after its success")
    return REFUSED
