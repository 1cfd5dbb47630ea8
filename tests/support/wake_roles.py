"""Who of a fleet of real workers listens for pushes, and who is the standby, as the server sees it.

The listener renews its sign by a script, the standby looks for it by another one. MONITOR shows both with the
address of the client, and `/proc` to which process that address belongs.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import redis as redis_py

from kiqbridge.wire.keys import Keys
from support.waiting import wait_until
from support.workers import WorkerProcess

KEYS = Keys()
LIST, SIGN, STANDBY = KEYS.wake("default")
PATIENCE_S = 20
_ESTABLISHED = "01"


class Roles(NamedTuple):
    """Of an idle fleet on the queue `default`."""

    listener: WorkerProcess
    standby: WorkerProcess
    generation: bytes


def wait_for_roles(redis: redis_py.Redis, workers: Sequence[WorkerProcess]) -> Roles:
    """Wait until one listens and all others are parked, one of them as the standby."""
    wait_until(
        lambda: (
            len(parked(redis, workers)) == len(workers) - 1 and redis.exists(SIGN, STANDBY) == 2
        ),
        PATIENCE_S,
        lambda: f"one listener: parked {[each.pid for each in parked(redis, workers)]}",
    )
    listener = standby = generation = None
    deadline = time.monotonic() + PATIENCE_S
    with redis.monitor() as monitor:
        for seen in monitor.listen():
            assert time.monotonic() < deadline, (
                "no renewal of the sign, or no look for it, was seen"
            )
            words = seen["command"].split(" ")
            if words[0].upper() not in ("EVALSHA", "EVAL") or words[3:4] != [SIGN]:
                continue  # a claim names the sign as well, behind other keys
            name = words[3 + int(words[2])].encode()
            # Whose port it is takes long on a busy machine: asked of what still holds alone, or what
            # MONITOR shows is read later and later.
            if name == redis.get(SIGN):
                listener, generation = owner(int(seen["client_port"]), workers), generation_of(name)
            elif name == redis.get(STANDBY):
                standby = owner(int(seen["client_port"]), workers)
            if listener and standby and generation and listener is not standby:
                return Roles(listener, standby, generation)
    raise AssertionError("MONITOR has ended")


def generation_of(sign: bytes | None) -> bytes:
    """Which does not change with its renewals."""
    return (sign or b"").partition(b":")[0]


def parked(redis: redis_py.Redis, workers: Sequence[WorkerProcess]) -> list[WorkerProcess]:
    """Those that the server has blocked in BLPOP, seen at one instant."""
    clients = redis.client_list()
    ports = {
        int(each["addr"].rpartition(":")[2])
        for each in clients
        if each["cmd"] == "blpop" and "b" in each["flags"]
    }
    inodes = _inodes({*ports})
    return [worker for worker in workers if _sockets(worker.pid) & inodes]


def owner(port: int, workers: Sequence[WorkerProcess]) -> WorkerProcess | None:
    """Whose end of a connection has this port."""
    inodes = _inodes({port})
    return next((worker for worker in workers if _sockets(worker.pid) & inodes), None)


def _inodes(ports: set[int]) -> set[str]:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    return {
        row[9]
        for row in rows
        if row[3] == _ESTABLISHED and int(row[1].rpartition(":")[2], 16) in ports
    }


def _sockets(pid: int) -> set[str]:
    found = set()
    try:
        for each in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(each.readlink())
            except FileNotFoundError:
                continue
            if target.startswith("socket:["):
                found.add(target[len("socket:[") : -1])
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return set()  # the process has ended
    return found
