"""`kiqbridge queue move NAME --to SHARD`: a queue goes to another shard, while clients push and workers run."""

import argparse
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Final

from kiqbridge.api import Operator, ProcessSet, WorkSet, open_operator
from kiqbridge.api.audit import record_audit
from kiqbridge.client.client import Client
from kiqbridge.commands.filters import filter_of
from kiqbridge.commands.moments import count_text
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.config.client_settings import SHARDS, WAIT_REPLICAS
from kiqbridge.config.setting import read
from kiqbridge.errors import PayloadError, RedisUnavailable
from kiqbridge.store.replicas import WAIT_TIMEOUT_MS, parse_replicas
from kiqbridge.store.shards import READ_WITHIN_S, REREAD_S, ShardPools, open_shards
from kiqbridge.transfer.leaving import Present, count_held, count_present, move_sets
from kiqbridge.transfer.moving import Moved, Mover, pending_batch
from kiqbridge.transfer.rerouting import moved_at, reroute, where_it_lies
from kiqbridge.wire.names import printable

QUIET_S: Final = REREAD_S + READ_WITHIN_S + 1.5
"""How long nothing may come any more: longer than a client trusts what it has read of routes."""

LOOK_S: Final = 0.2
"""From one look at an empty queue to the next."""

SETS_S: Final = 5.0
"""From one look through `schedule` and `retry` to the next, with --follow."""

STEP: Final = 10_000
"""Jobs from one line of progress to the next."""


@dataclass(slots=True)
class Move:
    """A move that is going on.

    Attributes:
        sources: shards from which jobs go → what moves them.
        away: shards that did not answer.
        moved: how many went.
        stayed: how many are left, of each shard what was found last.
    """

    queue: str
    to: str
    pools: ShardPools
    client: Client
    sources: dict[str, Mover] = field(default_factory=dict)
    away: list[str] = field(default_factory=list)
    moved: Moved = field(default_factory=Moved)
    stayed: dict[tuple[str, str], int] = field(default_factory=dict)


def add_move_arguments(parser: argparse.ArgumentParser) -> None:
    """What `queue move` takes besides a selection of jobs."""
    parser.add_argument(
        "--to", required=True, metavar="NAME", help="the other queue; without a selection, a shard"
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="to a shard: go on until nothing of the queue runs on the others",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="to a shard: also if no process there serves the queue",
    )


def is_meant(options: argparse.Namespace) -> bool:
    """Whether a whole queue is to go to a shard: there are shards, and no jobs are selected."""
    is_selected = options.jids or options.all or options.limit or filter_of(options)
    return not is_selected and bool(read(SHARDS, os.environ))


def run_move(options: argparse.Namespace) -> int:
    """Move a queue; the exit code.

    Raises:
        PayloadError: a wrong name, or nobody serves the queue there.
        RedisUnavailable: a shard is away; repeat the command.
    """
    pools = open_shards(read(SHARDS, os.environ), os.environ)
    client = Client(pool=pools)
    try:
        return _run(options, pools, client)
    finally:
        client.close()


def _run(options: argparse.Namespace, pools: ShardPools, client: Client) -> int:
    move = Move(queue=options.name, to=options.to, pools=pools, client=client)
    if move.to not in pools.names:
        raise PayloadError(
            f"--to: {move.to!r:.100} is not one of the shards ({', '.join(pools.names)}); to move jobs to another "
            "queue, say which: JIDs, or a filter such as --class, or --all"
        )
    held_by, _ = where_it_lies(move.queue, client.keys, pools)
    if options.dry_run:
        return _count(options, move, held_by)
    _check_served(options, move)
    _finish_elsewhere(move)
    source = reroute(move.queue, client.keys, pools, move.to)
    _open_sources(move)
    if source is not None:
        operator = _operator(move, source)
        record_audit(operator, "move", f"queue:{move.queue}", f"to shard {move.to}")
    _move_all(options, move)
    return _report(options, move, source)


def _count(options: argparse.Namespace, move: Move, held_by: str) -> int:
    found: dict[str, Present] = {}
    for name in move.pools.names:
        if name != move.to:
            found[name] = count_present(move.pools.pool(name), move.client.keys, move.queue)
    if options.json:
        shards = {
            name: {"queue": each.queue, "schedule": each.schedule, "retry": each.retry}
            for name, each in found.items()
        }
        total = sum(each.total for each in found.values())
        write_json(
            {
                "dry_run": True,
                "queue": move.queue,
                "to": move.to,
                "from": held_by,
                "count": total,
                "shards": shards,
            }
        )
        return 0
    lies = "lies there already" if held_by == move.to else f"lies on {held_by}"
    write_line(f"would move queue {move.queue} to shard {move.to}; it {lies}")
    for name, each in found.items():
        if each.total or name == held_by:
            write_line(
                f"  {name}: {each.queue:,} waiting, {each.schedule:,} scheduled, {each.retry:,} in retry"
            )
    return 0


def _check_served(options: argparse.Namespace, move: Move) -> None:
    serving = [
        process
        for process in ProcessSet(_operator(move, move.to))
        if move.queue in process.queues and not process.is_quiet
    ]
    if serving or options.force or options.yes:
        return
    raise PayloadError(
        f"--to: no process on shard {move.to} serves queue {printable(move.queue)}: its jobs would wait there. Start a "
        f"worker of it (kiqbridge worker --shard {move.to} -q {printable(move.queue)}), or repeat this with --force; "
        "nothing was changed"
    )


def _finish_elsewhere(move: Move) -> None:
    """What a killed run has left on its way to a shard goes there first, also if it is to go on to another one."""
    keys, pools = move.client.keys, move.pools
    for name in pools.names:
        try:
            batch = pending_batch(pools.pool(name), keys, move.queue)
        except RedisUnavailable:
            continue
        if batch is not None and batch.target != move.to and batch.target in pools.names:
            target = pools.pool(batch.target)
            Mover(move.queue, keys, pools.pool(name), target, to=batch.target).finish()


def _open_sources(move: Move) -> None:
    replicas = parse_replicas(
        read(WAIT_REPLICAS, os.environ), WAIT_TIMEOUT_MS, source="KIQBRIDGE_WAIT_REPLICAS"
    )
    target = move.pools.pool(move.to)
    for name in move.pools.names:
        if name == move.to:
            continue
        pool = move.pools.pool(name)
        try:
            move.sources[name] = Mover(
                move.queue, move.client.keys, pool, target, to=move.to, replicas=replicas
            )
        except RedisUnavailable:
            move.away.append(name)


def _move_all(options: argparse.Namespace, move: Move) -> None:
    """Until nothing has come for longer than clients trust old routes, and with --follow nothing runs elsewhere."""
    keys = move.client.keys
    # By the clock of this machine, which wrote it or is near to that one.
    age = time.time() - moved_at(move.queue, keys, move.pools, move.to)
    quiet_since = time.monotonic() - (max(age, 0.0) if age > QUIET_S else 0.0)
    sets_at, shown = 0.0, 0
    while True:
        before, now = move.moved.total, time.monotonic()
        is_quiet = now - quiet_since >= QUIET_S
        if not sets_at or is_quiet or now - sets_at > SETS_S:
            _move_sets(move)
            sets_at = time.monotonic()
        _move_queues(options, move)
        if move.moved.total > before:
            quiet_since = time.monotonic()
        elif is_quiet:
            running = _running(move) if options.follow else 0
            if not running:
                return
            if running != shown:
                shown = running
                _show(
                    options, f"{count_text(running, 'job')} of {move.queue} in progress elsewhere"
                )
        time.sleep(LOOK_S)


def _move_queues(options: argparse.Namespace, move: Move) -> None:
    done = move.moved.total
    shown = done // STEP

    def advance(count: int) -> None:
        nonlocal shown
        if (done + count) // STEP > shown:
            shown = (done + count) // STEP
            _show(options, f"moved {count_text(done + count, 'job')} of {move.queue}")

    for name, mover in move.sources.items():
        moved = mover.move_queue(advance)
        move.moved.add(moved)
        move.stayed[name, "queue"] = moved.stayed
        done = move.moved.total


def _move_sets(move: Move) -> None:
    for name, mover in move.sources.items():
        move.moved.add(mover.finish())
        moved = move_sets(mover, move.pools.pool(name), move.client.keys, move.queue)
        move.moved.add(moved)
        move.stayed[name, "sets"] = moved.stayed


def _running(move: Move) -> int:
    """How many jobs of the queue workers hold on the other shards, Ruby's as they show them."""
    count = 0
    for name in move.sources:
        shown = sum(1 for each in WorkSet(_operator(move, name)) if each.job.queue == move.queue)
        held = count_held(move.pools.pool(name), move.client.keys, move.queue)
        count += max(shown, held)
    return count


def _operator(move: Move, shard: str) -> Operator:
    return open_operator(client=move.client.on(shard), via="cli")


def _show(options: argparse.Namespace, line: str) -> None:
    if not options.json:
        sys.stderr.write(f"{printable(line)}\n")
        sys.stderr.flush()


def _report(options: argparse.Namespace, move: Move, source: str | None) -> int:
    moved, stayed, running = move.moved, sum(move.stayed.values()), _running(move)
    if options.json:
        write_json(
            {
                "dry_run": False,
                "queue": move.queue,
                "to": move.to,
                "from": source,
                "count": moved.total,
                "moved": {
                    "queue": moved.queue,
                    "schedule": moved.schedule,
                    "retry": moved.retry,
                },
                "stayed": stayed,
                "running": running,
                "away": move.away,
            }
        )
        return 1 if move.away else 0
    if source is None and not moved.total:
        write_line(
            f"queue {move.queue} lies on shard {move.to} already; nothing of it waits elsewhere"
        )
    else:
        where = f" from {source}" if source else ""
        write_line(
            f"queue {move.queue} lies on shard {move.to}: moved {count_text(moved.total, 'job')}{where} "
            f"({moved.queue:,} waiting, {moved.schedule:,} scheduled, {moved.retry:,} in retry)"
        )
    if stayed:
        write_line(
            f"  {count_text(stayed, 'job')} of batches, chains or schedules' occurrences stay where they are, and are "
            "performed there"
        )
    if running:
        write_line(
            f"  {count_text(running, 'job')} still in progress elsewhere: retries of them are performed there; to move "
            "them as well, repeat this with --follow"
        )
    for name in move.away:
        write_line(
            f"  shard {name} is away: what it has of the queue was not looked at; repeat this"
        )
    return 1 if move.away else 0
