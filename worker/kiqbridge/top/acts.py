"""What a key does to the rows of a table: who may, what is asked before, and the call of `kiqbridge.api`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from kiqbridge.api import DeadSet, JobSet, Operator, Queue, RetrySet, ScheduledSet, ScheduleSet
from kiqbridge.top.model import Kind, Role, View
from kiqbridge.top.visible import visible

if TYPE_CHECKING:
    from kiqbridge.api import ScheduleView
    from kiqbridge.top.rows import QueueItem

Progress = Callable[[int, int], None]
Move = Literal["retry", "kill", "delete"]

_SETS: Final[Mapping[str, Callable[[Operator], JobSet]]] = {
    "retry": RetrySet,
    "dead": DeadSet,
    "schedule": ScheduledSet,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What is to be done, to what.

    Attributes:
        operator: in whose name.
        kind: what the rows are.
        items: of the rows; empty for all that match.
        view: for all that match: its filter, its queue.
        total: how many rows there were, as far as it is known.
        progress: called with how many are done and looked at.
    """

    operator: Operator
    kind: Kind
    items: Sequence[Any]
    view: View
    total: int | None
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a key does.

    Attributes:
        key: of the keyboard.
        kinds: of the listings where it does.
        label: a word or two for the line of keys.
        question: before it, with `{what}` for how many of what.
        role: who may, at least.
        perform: does it, and says what it did.
        is_for_all: whether it acts on all that match, not on rows.
    """

    key: str
    kinds: Sequence[Kind]
    label: str
    question: str
    perform: Callable[[Deed], str]
    role: Role = "operator"
    is_for_all: bool = False


def actions_for(kind: Kind | None) -> Sequence[Action]:
    """The actions on a listing."""
    return [each for each in ACTIONS if kind in each.kinds]


def carry_out(action: Action, deed: Deed) -> str:
    """Do it on those shards that answer, on which lies what is listed; says what was done, and what was left out."""
    there = deed.operator.reachable()
    done = action.perform(replace(deed, operator=there))
    if there.missing and action.is_for_all:
        names = ", ".join(name for name, _ in there.missing)
        done += f"; not on {names}, away at this moment"
    return done


def _selection(move: Move, done: str) -> Callable[[Deed], str]:
    def perform(deed: Deed) -> str:
        if deed.kind == "waiting":
            queue = Queue(deed.view.queue, deed.operator)
            count = queue.apply("kill" if move == "kill" else "delete", deed.items)
        else:
            count = _SETS[deed.kind](deed.operator).apply(move, deed.items)
        return _counted(count, len(deed.items), done)

    return perform


def _all(move: Move, done: str) -> Callable[[Deed], str]:
    def perform(deed: Deed) -> str:
        where = deed.view.where
        if deed.kind == "waiting":
            queue = Queue(deed.view.queue, deed.operator)
            count = queue.apply_all(
                "kill" if move == "kill" else "delete", where, progress=deed.progress
            )
        else:
            job_set = _SETS[deed.kind](deed.operator)
            count = job_set.apply_all(move, where, progress=deed.progress)
        return f"{count:,} {'job' if count == 1 else 'jobs'} {done}"

    return perform


def _counted(count: int, asked: int, done: str) -> str:
    gone = f"; {asked - count:,} had left before" if count < asked else ""
    return f"{count:,} {'job' if count == 1 else 'jobs'} {done}{gone}"


def _pause_queues(deed: Deed) -> str:
    items: Sequence[QueueItem] = deed.items
    for item in items:
        if item.pause is None:
            item.queue.pause_it(reason="")
        else:
            item.queue.resume()
    return _named([item.queue.name for item in items], [item.pause is None for item in items])


def _pause_schedules(deed: Deed) -> str:
    items: Sequence[ScheduleView] = deed.items
    schedules = ScheduleSet(deed.operator)
    for item in items:
        if item.pause is None:
            schedules.pause(item.name)
        else:
            schedules.resume(item.name)
    return _named([item.name for item in items], [item.pause is None for item in items])


def _named(names: Sequence[str], paused: Sequence[bool]) -> str:
    parts = [
        f"{'paused' if is_pause else 'resumed'} {visible(name, 100)}"
        for name, is_pause in zip(names, paused, strict=True)
    ]
    return ", ".join(parts)


def _run_schedules(deed: Deed) -> str:
    names: Sequence[str] = [item.name for item in deed.items]
    schedules = ScheduleSet(deed.operator)
    jids = [jid for name in names for jid in schedules.run(name).jids]
    shown = ", ".join(visible(name, 100) for name in names)
    return f"ran {shown}: enqueued {', '.join(jids) or 'no job'}"


def _skip_schedules(deed: Deed) -> str:
    schedules = ScheduleSet(deed.operator)
    count = sum(len(schedules.skip(item.name)) for item in deed.items)
    return f"the next run of {count:,} {'schedule' if count == 1 else 'schedules'} will be skipped"


def _to_processes(
    verb: Literal["quiet", "stop", "dump_threads"], done: str
) -> Callable[[Deed], str]:
    def perform(deed: Deed) -> str:
        for process in deed.items:
            getattr(process, verb)()
        return f"asked {len(deed.items):,} to {done}; it happens at the next heartbeat"

    return perform


ACTIONS: Final[Sequence[Action]] = (
    Action(
        key="r",
        kinds=("retry", "dead"),
        label="retry",
        question="Retry {what} now?",
        perform=_selection("retry", "put into their queues"),
    ),
    Action(
        key="r",
        kinds=("schedule",),
        label="enqueue now",
        question="Put {what} into their queues now?",
        perform=_selection("retry", "put into their queues"),
    ),
    Action(
        key="x",
        kinds=("retry", "schedule", "waiting"),
        label="kill",
        question="Kill {what}? They go to the dead set and can be retried from there.",
        perform=_selection("kill", "killed"),
    ),
    Action(
        key="d",
        kinds=("retry", "dead", "schedule", "waiting"),
        label="delete",
        question="Delete {what} for good?",
        perform=_selection("delete", "deleted"),
    ),
    Action(
        key="R",
        kinds=("retry", "dead", "schedule"),
        label="all now",
        question="Put {what} into their queues now?",
        perform=_all("retry", "put into their queues"),
        role="admin",
        is_for_all=True,
    ),
    Action(
        key="X",
        kinds=("retry", "waiting"),
        label="kill all",
        question="Kill {what}? They go to the dead set and can be retried from there.",
        perform=_all("kill", "killed"),
        role="admin",
        is_for_all=True,
    ),
    Action(
        key="D",
        kinds=("retry", "dead", "schedule", "waiting"),
        label="delete all",
        question="Delete {what} for good?",
        perform=_all("delete", "deleted"),
        role="admin",
        is_for_all=True,
    ),
    Action(
        key="p",
        kinds=("queues",),
        label="pause/resume",
        question="Pause {what}, or resume what is paused?",
        perform=_pause_queues,
    ),
    Action(
        key="p",
        kinds=("schedules",),
        label="pause/resume",
        question="Pause {what}, or resume what is paused?",
        perform=_pause_schedules,
    ),
    Action(
        key="r",
        kinds=("schedules",),
        label="run now",
        question="Enqueue the jobs of {what} now, besides its times?",
        perform=_run_schedules,
    ),
    Action(
        key="s",
        kinds=("schedules",),
        label="skip next",
        question="Skip the next run of {what}?",
        perform=_skip_schedules,
    ),
    Action(
        key="u",
        kinds=("processes",),
        label="quiet",
        question="Let {what} finish its jobs and take no new ones?",
        perform=_to_processes("quiet", "take no new jobs"),
        role="admin",
    ),
    Action(
        key="t",
        kinds=("processes",),
        label="stop",
        question="Stop {what}? Jobs that do not end in time go back to their queues.",
        perform=_to_processes("stop", "stop"),
        role="admin",
    ),
    Action(
        key="b",
        kinds=("processes",),
        label="backtraces",
        question="Have {what} write into its log where each thread is?",
        perform=_to_processes("dump_threads", "log its threads"),
    ),
)
