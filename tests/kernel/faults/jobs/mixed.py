"""Jobs of a fleet of two builds: those of `marking.py`, and some that somebody waits for."""

import time
from typing import Any

from marking import BEGUN, FAILED, PERFORMED, FailOnce, Mark, mark

from kiqbridge import Client, Job
from kiqbridge.flow import Batch, Unique, call, chain

__all__ = ["Doomed", "FailOnce", "Mark", "Once", "push_all"]


class Doomed(Job):
    """Dies at its first failure."""

    retry = 0

    def perform(self) -> None:
        mark(BEGUN, self.jid)
        mark(FAILED, self.jid)
        raise RuntimeError("it dies, as asked")


class Once(Job):
    """Of those with one number only one waits or runs."""

    unique = Unique()

    def perform(self, number: int) -> None:
        mark(BEGUN, self.jid)
        time.sleep(0.1)  # the work: it is killed within
        mark(PERFORMED, self.jid)


def push_all(client: Client, count: int, instant: int) -> dict[str, list[Any]]:
    """Push `count` plain jobs, and a tenth as many of each other kind; the jids by kind, and the ids of batches."""
    some = count // 10
    jids: dict[str, list[Any]] = {
        "plain": client.push_bulk({"class": Mark, "args": [[n % 7 * 50] for n in range(count)]}),
        "failing": [client.push({"class": FailOnce, "args": []}) for _ in range(some)],
        "doomed": [client.push({"class": Doomed, "args": []}) for _ in range(some)],
        "unique": [client.push({"class": Once, "args": [n % 5]}) for n in range(some)],
        "scheduled": client.push_bulk(
            {
                "class": Mark,
                "args": [[80]] * some,
                "at": [time.time() + n / 10 for n in range(some)],
            }
        ),
        "tick": [],
        "batches": [],
    }
    for minute in range(3):
        items = [{"class": Mark, "args": [80]}] * some
        tick = client.push_tick("stack/Often", instant + 60 * minute, items, by="test")
        jids["tick"] += [each.jid for each in tick.jobs]
    for _ in range(3):
        with Batch(client=client, on_success=call(Mark, 0), on_complete=call(Mark, 0)) as batch:
            client.push_bulk({"class": Mark, "args": [[80]] * some})
            client.push({"class": FailOnce, "args": []})
        jids["batches"].append(batch.bid)
    chain(*[call(Mark, 20)] * some).perform_async(client=client)
    return jids
