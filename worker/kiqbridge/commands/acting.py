"""An action of a command on jobs: counted, asked about, shown as it goes on, reported."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kiqbridge.api import Filter, Operator, record_audit
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.errors import PayloadError
from kiqbridge.transfer.form import Place
from kiqbridge.wire.amounts import count_text
from kiqbridge.wire.names import printable

Advance = Callable[[int], None]
"""What is called with how much is done in all."""

PAST: Final = {
    "retry": "pushed",
    "kill": "killed",
    "delete": "deleted",
    "reschedule": "rescheduled",
    "clear": "deleted",
    "move": "moved",
}
"""Verb → what was done."""

VERBS: Final = {"retry": "push", "clear": "delete"}
"""Verb → what it does, where that is another word."""

ASKED: Final = frozenset({"kill", "delete", "clear"})
"""What takes jobs away from where they would run."""

REFUSED: Final = 1
"""Exit code when the answer was no, or nothing was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done.

    Attributes:
        verb: `retry`, `kill`, `delete`, `reschedule`, `clear`, `move`.
        target: `retry`, `schedule`, `dead` or `queue:NAME`, as in the audit log.
        noun: what one of them is called, such as `dead job`.
        where: which.
        count: how many there are now.
        ending: what else a sentence about it says, such as ` to mail`.
    """

    verb: str
    target: str
    noun: str
    where: Filter
    count: int
    ending: str = ""

    @property
    def sentence(self) -> str:
        """`delete 1,204 dead jobs that match class=Mail`."""
        which = f" that match {self.where}" if self.where else ""
        if self.count == 1 and which:
            which = f" that matches {self.where}"
        nouns = "retries" if (self.noun, self.count != 1) == ("retry", True) else None
        counted = f"{self.count:,} {nouns}" if nouns else count_text(self.count, self.noun)
        return f"{VERBS.get(self.verb, self.verb)} {counted}{which}{self.ending}"


def carry_out(options: argparse.Namespace, plan: Plan, do: Callable[[Advance], int]) -> int:
    """Ask if it destroys, do it, report; the exit code.

    Args:
        options: with `dry_run`, `yes` and `json`.
        plan: what it is.
        do: does it, calls the function it gets with how many are done, and returns how many were.

    Raises:
        PayloadError: it destroys, and there is nobody to ask.
    """
    if options.dry_run:
        return _report(options, plan, plan.count)
    if not plan.count:
        return _report(options, plan, 0)
    question = plan.sentence[0].upper() + plan.sentence[1:] + "?"
    if plan.verb in ASKED and not confirm(question, options):
        return REFUSED
    with progress(VERBS.get(plan.verb, plan.verb), plan.count) as advance:
        done = do(advance)
    return _report(options, plan, done)


def confirm(question: str, options: argparse.Namespace) -> bool:
    """Ask on the terminal, unless `--yes` was given; False is no, which is also the end of the input.

    Raises:
        PayloadError: there is no terminal to ask on, and no `--yes`.
    """
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise PayloadError(
            f"{printable(question)} Nobody can answer, as this is no terminal; nothing was changed. "
            "Repeat it with --yes, or look first with --dry-run"
        )
    sys.stderr.write(f"{printable(question)} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip().lower()
    if answer in {"y", "yes"}:
        return True
    sys.stderr.write("Nothing was changed.\n")
    return False


@contextlib.contextmanager
def progress(what: str, total: int | None) -> Iterator[Advance]:
    """A bar while the block runs; `total` None: how much there is, is not known."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    try:
        from rich.console import Console  # noqa: PLC0415 - slow to import, and may be missing
        from rich.progress import Progress  # noqa: PLC0415
    except ImportError:
        yield lambda _done: None
        return
    with Progress(console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def report_resumed(options: argparse.Namespace, rows: list[dict[str, Any]], kind: str = "") -> int:
    """What was resumed, each with `name` and `was_paused`; `kind` stands before the names. The exit code."""
    if options.json:
        write_json({"dry_run": options.dry_run, "resumed": rows})
        return 0
    verb = "would resume" if options.dry_run else "resumed"
    for row in rows:
        name = f"{kind} {row['name']}".strip()
        write_line(f"{verb} {name}" if row["was_paused"] else f"{name} was not paused")
    return 0


def record_transfer(
    operator: Operator, action: str, counts: Mapping[Place, int], file: str
) -> None:
    """Add one entry to the audit log for what an export or a restore moved; none if it moved nothing.

    Args:
        operator: in whose name, and of which shard.
        action: the command and its option.
        counts: jobs of each queue and set.
        file: to or from which.
    """
    moved = {place: count for place, count in counts.items() if count}
    record_audit(
        operator,
        action,
        ", ".join(f"queue:{each.name}" if each.kind == "queue" else each.name for each in moved),
        f"{file} ({', '.join(f'{place}: {count:,}' for place, count in moved.items())})",
        sum(moved.values()),
    )


def _report(options: argparse.Namespace, plan: Plan, count: int) -> int:
    if options.json:
        write_json(
            {
                "dry_run": options.dry_run,
                "action": plan.verb,
                "target": plan.target,
                "filter": str(plan.where),
                "count": count,
            }
        )
    elif options.dry_run:
        write_line(f"would {plan.sentence}")
    else:
        gone = plan.count - count
        rest = f"; {gone:,} had left meanwhile" if gone > 0 else ""
        write_line(f"{PAST[plan.verb]} {count_text(count, 'job')}{plan.ending}{rest}")
    return 0
