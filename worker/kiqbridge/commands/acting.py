"""An action of a command on jobs: counted, asked about, shown as it goes on, reported."""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final

from kiqbridge.api import Applied, Filter, Operator
from kiqbridge.api.wording import pause_text
from kiqbridge.commands.output import answer, write_line
from kiqbridge.errors import PayloadError
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
        warning: what is to be known before the answer, a sentence; with it any verb asks.
        more: what the JSON document has besides.
    """

    verb: str
    target: str
    noun: str
    where: Filter
    count: int
    ending: str = ""
    warning: str = ""
    more: Mapping[str, object] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """`delete 1,204 dead jobs that match class=Mail`."""
        is_one = self.count == 1
        which = f" that match{'es' if is_one else ''} {self.where}" if self.where else ""
        counted = count_text(self.count, self.noun).replace("retrys", "retries")
        return f"{VERBS.get(self.verb, self.verb)} {counted}{which}{self.ending}"


def carry_out(options: argparse.Namespace, plan: Plan, do: Callable[[Advance], int]) -> int:
    """Ask if it destroys, do it, report; the exit code.

    Args:
        options: with `dry_run`, `yes` and `json`.
        plan: what it is.
        do: does it, calls the function it gets with how many are done, and returns how many were; of those that
            cannot be moved a `Applied` has the number and the first reason.

    Raises:
        PayloadError: it destroys, and no terminal is there to ask.
    """
    done = Applied(plan.count)
    if done and not options.dry_run:
        question = plan.sentence[0].upper() + plan.sentence[1:] + "?"
        if plan.warning:
            question = f"{plan.warning} {question}"
        if (plan.verb in ASKED or plan.warning) and not confirm(question, options):
            return REFUSED
        with progress(VERBS.get(plan.verb, plan.verb), plan.count) as advance:
            answered = do(advance)
            done = answered if isinstance(answered, Applied) else Applied(answered)
    left = max(plan.count - done - done.refused, 0)
    said = f"would {plan.sentence}"
    if not options.dry_run:
        said = f"{PAST[plan.verb]} {count_text(done, 'job')}{plan.ending}"
        if left:
            said += f"; {left:,} had left meanwhile"
        if done.refused:
            reason = printable(done.reason)
            said += (
                f"; {done.refused:,} cannot be {PAST[plan.verb]} and stay, the first one: {reason}"
            )
    document = {
        "dry_run": options.dry_run,
        "action": plan.verb,
        "target": plan.target,
        "filter": str(plan.where),
        "count": done,
        "left": left,
        "refused": done.refused,
        "reason": done.reason,
        **plan.more,
    }
    return answer(options, document, [said])


def confirm(question: str, options: argparse.Namespace) -> bool:
    """Ask on the terminal, unless `--yes` was given; False is no, which is also the end of the input.

    Raises:
        PayloadError: there is no terminal to ask on, and no `--yes`.
    """
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise PayloadError(
            f"{printable(question)} This is no terminal, so the question cannot be answered; nothing was changed. "
            "Repeat it with --yes, or look first with --dry-run"
        )
    sys.stderr.write(f"{printable(question)} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    sys.stderr.write("Nothing was changed.\n")
    return False


def write_paused_classes(operator: Operator, classes: Collection[str] | None = None) -> None:
    """A sentence for each class that is paused, of these classes; None: of all."""
    for each in operator.pauses():
        if each.kind == "class" and (classes is None or each.name in classes):
            write_line(f"The {pause_text(each, time.time())}.")


@contextlib.contextmanager
def progress(what: str, total: int | None) -> Iterator[Advance]:
    """A bar while the block runs; `total` None: how much there is, is not known."""
    if not (sys.stderr.isatty() and find_spec("rich")):
        yield lambda _done: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import, and may be missing
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
