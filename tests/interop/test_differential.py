"""The same jobs, generated from a seed, run by real Ruby Sidekiq and by us, leave the same state.

Compared field by field, order and kind of number included: what is in `retry` and `dead`, the scores,
the queues and the counters. Where the two differ on purpose, the difference is in DOCUMENTED with its
section of the protocol; anything else fails.
"""

import base64
import json
import random
import re
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from support.bad_payloads import raw_of
from support.idle import is_idle
from support.ruby import RubySidekiq
from support.waiting import wait_until
from support.workers import WorkerProcess

pytestmark = pytest.mark.interop

DIRECTION = "The same jobs in both"

SEED = 20_261_121
JOBS = 300
MALFORMED = 3
QUEUES = ("default", "low")

RUBY_JOBS = """
module Behaves
  def self.included(base) = base.include(Sidekiq::Worker)

  def perform(action, *args)
    raise Object.const_get(args[0]), args[1] if action == "raise"
  end
end

class Plain; include Behaves; end
class NoRetry; include Behaves; sidekiq_options retry: false; end
class Twice; include Behaves; sidekiq_options retry: 2; end
class AtOnce; include Behaves; sidekiq_options retry: 0; end
class Traced; include Behaves; sidekiq_options backtrace: 3; end
module Shop; class Named; include Behaves; end; end
class OneArgument; include Sidekiq::Worker; def perform(one); end; end
"""
PYTHON_JOBS = """
import builtins
from kiqbridge import job

def behave(action, *args):
    if action == "raise":
        raise getattr(builtins, args[0])(args[1])

for name, options in (("Plain", {}), ("NoRetry", {"retry": False}), ("Twice", {"retry": 2}),
                      ("AtOnce", {"retry": 0}), ("Traced", {"backtrace": 3}), ("Shop::Named", {})):
    job(name=name, **options)(behave)

@job(name="OneArgument")
def one_argument(one): ...
"""
ERRORS = ("RuntimeError", "ZeroDivisionError", "IndexError", "NotImplementedError", "EOFError")
MESSAGES = ("boom", "", "café \u2028 \U0001f600", 'a "quoted" <b>', "x" * 12_000, "é" * 10_001)
VALUES = (
    None,
    True,
    0,
    -1,
    2**64,
    2**70,
    1.5,
    -0.0,
    1e20,
    "",
    "naïve",
    [1, [2]],
    {"a": {"b": None}},
)

DOCUMENTED = {
    "backtrace": "§8.6: the lines are those of the language, and up to 7.2.0 Ruby breaks their Base64",
    "hint": "§7.4: our message goes on with the near names, or where to declare the class",
    "arity": "§7.5: a wrong number of arguments is Ruby's ArgumentError and Python's TypeError",
}
"""What differs on purpose, with its section of the protocol."""


@dataclass(frozen=True)
class State:
    """What is left in Redis when all jobs have run.

    `members` has (place, payload or raw text, score minus the time of writing) by jid or raw text.
    """

    members: dict[str, tuple[str, Any, float]]
    counters: dict[str, bytes | None]
    queues: dict[str, int]


def generate(rng: random.Random) -> list[tuple[str, bytes]]:
    """(queue, text) of each job; at least a third of them fails."""
    jobs = [(rng.choice(QUEUES), dumps(make(rng, number))) for number in range(JOBS - MALFORMED)]
    return [*jobs, *(("default", text) for text in (b"no json", b'{"class":"Plain"', b"[1,"))]


def make(rng: random.Random, number: int) -> dict[str, Any]:
    now = 1_700_000_000 + number + 0.25
    payload: dict[str, Any] = {"class": rng.choice(("Plain", "Traced", "Twice", "Shop::Named"))}
    action = rng.choice(("ok", "raise", "raise"))
    args = [action, rng.choice(ERRORS), rng.choice(MESSAGES), *rng.sample(VALUES, rng.randrange(4))]
    kind = rng.random()
    if kind < 0.08:
        payload["class"] = rng.choice(("Nope", "No::Such", "Shop::Nope", "Plain::Inner"))
    elif kind < 0.14:
        payload["class"] = rng.choice(("NoRetry", "AtOnce"))
    elif kind < 0.18:
        payload["class"], args = "OneArgument", [1, 2, 3]
    payload |= {"args": args, "jid": f"{number:024x}"}
    retry = rng.choice((True, True, False, None, 0, 1, 3, 25, "yes", ...))
    if retry is not ...:
        payload["retry"] = retry
    payload |= {"queue": rng.choice(("default", "elsewhere")), "created_at": now}
    payload["enqueued_at"] = now + 0.5
    for name, values in (
        ("retry_count", (0, 1, 2, 23, 24, -1, None)),
        ("backtrace", (True, False, 1)),
        ("dead", (True, False)),
        ("retry_queue", ("later",)),
        ("tags", (["a", "b"], [])),
        ("custom", VALUES),
    ):
        if rng.random() < 0.3:
            payload[name] = rng.choice(values)
    if payload.get("retry_count") is not None:
        payload["failed_at"] = now - 60
    return payload


def dumps(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def fill(redis, jobs: list[tuple[str, bytes]]) -> None:
    redis.flushdb()
    for queue, text in jobs:
        redis.lpush(f"queue:{queue}", text)


def state_of(redis) -> State:
    members = {}
    for place in ("retry", "dead"):
        for text, score in redis.zrange(place, 0, -1, withscores=True):
            try:
                payload = json.loads(text)
            except ValueError:
                members[text.decode()] = (place, text, 0.0)
                continue
            # Ours keeps what nobody can read as the argument of a job that Ruby's pages can show.
            if (raw := raw_of(text)) is not None:
                members[raw.decode()] = (place, raw, 0.0)
                continue
            written = payload["failed_at"]
            if "retried_at" in payload:
                written = payload["retried_at"]
            members[payload["jid"]] = (place, payload, score - written)
    return State(
        members=members,
        counters={name: redis.get(f"stat:{name}") for name in ("processed", "failed")},
        queues={key.decode(): redis.llen(key) for key in redis.keys("queue:*")},
    )


def differences(ruby: State, ours: State) -> Iterator[tuple[str, str, Any, Any]]:
    """(jid, field, Ruby's, ours) of everything that is not equal."""
    for name in ("counters", "queues"):
        if getattr(ruby, name) != getattr(ours, name):
            yield "", name, getattr(ruby, name), getattr(ours, name)
    for jid in sorted(ruby.members.keys() | ours.members.keys()):
        if jid not in ruby.members or jid not in ours.members:
            yield jid, "place", ruby.members.get(jid), ours.members.get(jid)
            continue
        yield from differences_of(jid, ruby.members[jid], ours.members[jid])


def differences_of(jid: str, theirs: Any, mine: Any) -> Iterator[tuple[str, str, Any, Any]]:
    (place, payload, delay), (our_place, our_payload, our_delay) = theirs, mine
    if place != our_place:
        yield jid, "place", place, our_place
    if isinstance(payload, bytes) or isinstance(our_payload, bytes):
        if payload != our_payload:
            yield jid, "text", payload, our_payload
        return
    if list(payload) != list(our_payload):
        yield jid, "order", list(payload), list(our_payload)
    for field in payload.keys() & our_payload.keys():
        value, our_value = payload[field], our_payload[field]
        if field in {"failed_at", "retried_at"}:
            given = value < time.time() - 3600  # told by the job, not written at this failure
            same = type(value) is type(our_value) and (not given or value == our_value)
        else:
            same = exactly(value) == exactly(our_value)
        if not same:
            yield jid, field, value, our_value
    least, most = bounds(place, payload["retry_count"])
    for name, each in (("score", delay), ("score", our_delay)):
        if not least - 0.01 <= each <= most + 1:
            yield jid, name, delay, our_delay


def bounds(place: str, count: int) -> tuple[float, float]:
    """Least and most seconds from the failure to the score (§8.2)."""
    if place == "dead":
        return 0, 0
    count = max(count, 0)
    return count**4 + 15, count**4 + 15 + 9 * (count + 1)


def exactly(value: Any) -> str:
    """A text that tells 1 from 1.0 and -0.0 from 0.0, at any depth."""
    return json.dumps(value)


def excuse(field: str, theirs: Any, mine: Any, error_class: str) -> str | None:
    """The name in DOCUMENTED that explains a difference."""
    if field == "error_backtrace":
        # Lines of 60 characters there, one line here; lines of Ruby there, of Python here.
        if all(decoded(theirs)) and all(decoded(mine)) and "\n" not in mine:
            return "backtrace"
    elif field == "error_message" and error_class == "NameError":
        if mine.startswith(
            f"{theirs.splitlines()[0]}; "
        ):  # its error_highlight shows the line as well
            return "hint"
    elif (field, theirs, mine) == ("error_class", "ArgumentError", "TypeError") or (
        field == "error_message" and error_class == "ArgumentError" and "argument" in mine
    ):
        return "arity"
    return None


def decoded(text: str) -> list[bool]:
    """Of a backtrace, deflated and in Base64: for each line whether it is a text; not empty."""
    lines = json.loads(zlib.decompress(base64.b64decode(re.sub(r"\s", "", text))))
    return [isinstance(line, str) for line in lines] or [False]


def unexplained(ruby: State, ours: State, seen: Counter | None = None) -> list[Any]:
    found = []
    for jid, field, theirs, mine in differences(ruby, ours):
        member = ruby.members.get(jid)
        error_class = member[1].get("error_class") if member and field != "text" else ""
        name = excuse(field, theirs, mine, error_class)
        if name is None:
            found.append((jid, field, theirs, mine))
        elif seen is not None:
            seen[name] += 1
    return found


def run_in_ruby(redis, jobs: list[tuple[str, bytes]], url: str) -> State:
    fill(redis, jobs)
    with RubySidekiq(RUBY_JOBS, url, queues=QUEUES, concurrency=5) as sidekiq:
        finish(redis)
        # What one of its threads pops while it is told to stop goes back, so it must have counted all
        # before; it does so at each beat.
        counted = str(len(jobs) - MALFORMED).encode()
        wait_until(lambda: redis.get("stat:processed") == counted, 30, "all jobs counted")
        assert sidekiq.stop() == 0
    return state_of(redis)


def run_in_python(redis, jobs: list[tuple[str, bytes]], url: str, folder) -> State:
    fill(redis, jobs)
    file = folder / "differential_jobs.py"
    file.write_text(PYTHON_JOBS, encoding="utf-8")
    flags = [part for queue in QUEUES for part in ("-q", queue)]
    with WorkerProcess("-r", str(file), *flags, "-c", "5", redis_url=url) as worker:
        finish(redis)
        assert worker.stop() == 0
    return state_of(redis)


def finish(redis) -> None:
    """Wait until every queue is empty; what still runs then is waited for by the orderly stop."""
    wait_until(
        lambda: is_idle(redis, *QUEUES),  # else those not begun would go back
        30,
        "all jobs being taken",
    )


@pytest.fixture(scope="module")
def states(server, tmp_path_factory):
    """(Ruby's, ours, the jobs), each run once on the same emptied database."""
    import redis as redis_py

    jobs = generate(random.Random(SEED))
    with redis_py.Redis.from_url(server.url) as redis:
        ruby = run_in_ruby(redis, jobs, server.url)
        ours = run_in_python(redis, jobs, server.url, tmp_path_factory.mktemp("jobs"))
        redis.flushdb()
    return ruby, ours, jobs


@pytest.mark.operation("300 generated jobs")
def test_the_same_jobs_leave_the_same_state(states, tell):
    ruby, ours, jobs = states
    seen: Counter = Counter()

    assert unexplained(ruby, ours, seen) == []

    failed = int(ruby.counters["failed"])
    assert failed >= 100
    assert (
        int(ruby.counters["processed"]) == len(jobs) - MALFORMED
    )  # these texts do not count (§11)
    assert seen.keys() <= DOCUMENTED.keys()
    assert len(DOCUMENTED) <= 10
    places = Counter(place for place, _, _ in ruby.members.values())
    tell(
        f"differential test: {len(jobs)} jobs, {failed} failed; in retry {places['retry']}, dead "
        f"{places['dead']}; differences: 0 but for {dict(seen)} (documented: {len(DOCUMENTED)})"
    )


@pytest.mark.operation("A planted difference")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("retry_count", 7),
        ("error_class", "Other"),
        ("queue", "other"),
        ("retry", 1.0),
        ("args", []),
    ],
)
def test_a_planted_difference_is_found(states, field, value):
    ruby, ours, _ = states
    jid = next(
        jid
        for jid, (place, payload, _) in ours.members.items()
        if place == "retry" and payload.get("retry") is True and payload["args"]
    )
    place, payload, delay = ours.members[jid]
    planted = State(
        members={**ours.members, jid: (place, {**payload, field: value}, delay)},
        counters=ours.counters,
        queues=ours.queues,
    )

    assert {found[:2] for found in unexplained(ruby, planted)} == {(jid, field)}


@pytest.mark.operation("A planted difference")
def test_a_planted_loss_is_found(states):
    ruby, ours, _ = states
    jid = next(iter(ours.members))
    rest = {key: member for key, member in ours.members.items() if key != jid}
    planted = State(members=rest, counters=ours.counters, queues=ours.queues)

    assert [found[:2] for found in unexplained(ruby, planted)] == [(jid, "place")]
