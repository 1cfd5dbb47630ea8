"""The scripts that everybody needs, in Python: with the KEYS, ARGV and answers that stand at the top of each file.

So a push of any kind is recorded without a further package. All other scripts are run as they are (lua_scripts.py).
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from kiqbridge.store import scripts
from kiqbridge.testing.memory import Function, Hash, List, Memory, Zset
from kiqbridge.wire import json_text

FUNCTIONS: Final[dict[str, Function]] = {}
"""SHA-1 of a script → what runs in its place."""


def in_place_of(name: str) -> Callable[[Function], Function]:
    """Run this function in the place of the script `name`.lua; a decorator."""

    def register(function: Function) -> Function:
        FUNCTIONS[scripts.load(name).sha] = function
        return function

    return register


@in_place_of("push_once")
def push_once(memory: Memory, keys: Sequence[str], args: Sequence[bytes]) -> Any:
    """Push jobs, each under a guard of its own."""
    queues, guards, guards_until, *targets = keys
    count = int(args[1])
    jobs = [(target, args[2 + 7 * i : 9 + 7 * i]) for i, target in enumerate(targets[:count])]
    known: list[bytes | None] = [_jid_under(memory, guards, job[0]) for _, job in jobs]
    depths = [
        [i + 1, length]
        for i, (target, job) in enumerate(jobs)
        if known[i] is None and (length := _too_deep(memory, target, job[6])) is not None
    ]
    if depths:
        return depths
    answers: list[bytes] = []
    for target, (guard, keep_s, jid, queue, score, text, _limit) in jobs:
        before = _jid_under(memory, guards, guard)
        if before is not None:
            answers.append(before)
            continue
        if guard:
            until = int(memory.now()) + int(keep_s)
            memory.run_one("ZADD", guards_until, until, guard)
            memory.run_one("HSET", guards, guard, b"%d %s" % (until, jid))
        _push(memory, queues, target, (queue, score, text))
        answers.append(b"")
    return answers


@in_place_of("push_tick")
def push_tick(memory: Memory, keys: Sequence[str], args: Sequence[bytes]) -> Any:
    """Push the jobs of one occurrence of a schedule, once."""
    queues, ledger, ledgers, attempts, _ends, states, *targets = keys
    instant, horizon_s, entry, schedule, ahead_s, without_jobs = args[:6]
    now = memory.now()
    if int(instant) < int(now) - int(horizon_s):
        return [b"stale"]
    if ahead_s and int(instant) > now + float(ahead_s):
        return [b"future"]
    entries: Zset = memory.get(ledger, dict)
    known = [text for text, score in sorted(entries.items()) if score == int(instant)]
    if known:
        is_repeated = known[0] == entry or (
            without_jobs != b"" and known[0].startswith(without_jobs[:-1])
        )
        if not is_repeated and memory.run_one("HINCRBY", attempts, instant, 1) == 1:
            memory.run_one("HINCRBY", attempts, instant, 1)
        return [b"duplicate", known[0]]
    reason = _left_out(memory, states, schedule, int(instant)) if without_jobs else None
    count = int(args[6])
    jobs = [(target, args[7 + 4 * i : 11 + 4 * i]) for i, target in enumerate(targets[:count])]
    if reason is None:
        depths = [
            [i + 1, length]
            for i, (target, job) in enumerate(jobs)
            if (length := _too_deep(memory, target, job[3])) is not None
        ]
        if depths:
            return depths
        for target, (queue, score, text, _limit) in jobs:
            _push(memory, queues, target, (queue, score, text))
    else:
        entry = without_jobs[:-1] + b',"%s":true}' % reason
    memory.run_one("ZADD", ledgers, "GT", int(instant) + int(horizon_s) + 3600, schedule)
    memory.run_one("ZADD", ledger, instant, entry)
    return [b"enqueued" if reason is None else reason]


@in_place_of("save_schedule")
def save_schedule(memory: Memory, keys: Sequence[str], args: Sequence[bytes]) -> Any:
    """Create or change the definition of a schedule; nothing of it is placed ahead here."""
    schedules, cursors, *_rest, changes = keys
    name, known, text, cursor, _withdraw_after = args
    now_known = memory.get(schedules, dict).get(name, b"")
    if now_known == text:
        return [b"same"]
    if now_known != known:
        return [b"other"]
    memory.run_one("HSET", schedules, name, text)
    if cursor != b"back":
        memory.run_one("HSET", cursors, name, cursor)
    memory.run_one("INCR", changes)
    return [b"saved", 0]


@in_place_of("hold_schedule")
def hold_schedule(memory: Memory, keys: Sequence[str], args: Sequence[bytes]) -> Any:
    """Change the state of a schedule, or delete it; nothing of it is placed ahead here."""
    schedules, states, cursors, *_rest, changes = keys
    name, verb, known, state, cursor = args[:5]
    now_known = memory.get(states, dict).get(name, b"")
    is_deletion = verb != b"keep"
    is_written = now_known == state and (known != state or len(args) == 5)  # noqa: PLR2004 - no instants
    if is_deletion:
        is_written = name not in memory.get(schedules, dict) and now_known == state
    if is_written:
        return [b"same"]
    if now_known != known:
        return [b"other"]
    if state:
        memory.run_one("HSET", states, name, state)
    else:
        memory.run_one("HDEL", states, name)
    if is_deletion:
        memory.run_one("HDEL", schedules, name)
    if verb == b"delete":
        memory.run_one("HDEL", cursors, name)
    elif cursor not in (b"", b"back"):
        memory.run_one("HSET", cursors, name, cursor)
    memory.run_one("INCR", changes)
    return [b"done", 0]


def _push(memory: Memory, queues: str, target: str, job: Sequence[bytes]) -> None:
    queue, score, text = job
    if score:
        memory.run_one("ZADD", target, score, text)
    else:
        memory.run_one("SADD", queues, queue)
        memory.run_one("LPUSH", target, text)


def _jid_under(memory: Memory, guards: str, guard: bytes) -> bytes | None:
    fields: Hash = memory.get(guards, dict)
    until, _, jid = fields.get(guard, b"").partition(b" ")
    return jid if guard and until and int(until) > int(memory.now()) else None


def _too_deep(memory: Memory, target: str, limit: bytes) -> int | None:
    """The length of a queue that takes no more; None: it does."""
    if not limit:
        return None
    entries: List = memory.get(target, deque)
    return len(entries) if len(entries) >= int(limit) else None


def _left_out(memory: Memory, states: str, schedule: bytes, instant: int) -> bytes | None:
    """Why this occurrence enqueues nothing, by the state of its schedule."""
    text = memory.get(states, dict).get(schedule)
    state = json_text.loads(text) if text else {}
    if instant in (state.get("skipped") or ()):
        return b"skipped"
    paused = state.get("paused")
    if isinstance(paused, dict):
        until = paused.get("until")
        if not isinstance(until, int | float) or memory.now() < until:
            return b"paused"
    return None
