"""The commands of a plain push (protocol §5.5); guarded ones are scripts, with the part `enqueue`."""

from collections.abc import Container, Mapping, Sequence

from kiqbridge.store.round_trip import Command
from kiqbridge.wire.keys import Keys


def push_commands(
    keys: Keys, by_queue: Mapping[str, Sequence[bytes]], listed: Container[str] = ()
) -> list[Command]:
    """Commands that push texts of jobs to the producing end of their queues, naming the queues first.

    Args:
        keys: the namespace.
        by_queue: queue name → texts, the first to be performed first.
        listed: queues that need not be named again.
    """
    unlisted = [name for name in by_queue if name not in listed]
    commands: list[Command] = [["SADD", keys.queues, *unlisted]] if unlisted else []
    commands += [["LPUSH", keys.queue(name), *texts] for name, texts in by_queue.items()]
    return commands


def schedule_commands(keys: Keys, scheduled: Sequence[str | bytes]) -> list[Command]:
    """The command that adds jobs to `schedule`: score, text, score, text, …; none for no job."""
    return [["ZADD", keys.schedule, *scheduled]] if scheduled else []
