"""A simulation of a fleet over shards: what fails, how long jobs wait, when all is caught up.

It counts jobs in steps of a tenth of a second rather than following each one, so that a million a second over
minutes take seconds. The same seed gives the same result.

1. Pushes arrive at a shard with the noise of chance. While it is away, or busy, producers hold them (a spill
   queue, or a caller that tries again) and push them afterwards.
2. Workers of a shard claim what it has, as far as they and the core of its server allow.
3. What they run is acknowledged in the next step, or when the shard is back.
4. What a lost worker held goes back to its queue after the time that a reap takes, and runs again.
"""

import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kiqbridge.sizing.workload import MICRO

STEP_S: Final = 0.1
_STEPS_A_SECOND: Final = 10
_CAUGHT_UP_S: Final = 1.0
HOT: Final = "hot"
SHARD: Final = "shard"
ZONE: Final = "zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens to the fleet.

    Attributes:
        kind: `shard`: its primary is away until its replica has taken over; `zone`: the primaries of the zone
            and its workers are; `hot`: so many times as many jobs are pushed to a shard.
        at, seconds: when, and for how long.
        number: of the shard or zone.
        factor: of a hot shard.
    """

    kind: str
    at: float
    seconds: float
    number: int
    factor: float = 1.0

    @property
    def end(self) -> float:
        """When it is over, in seconds."""
        return self.at + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What is assumed.

    Attributes:
        shards, zones: shard n has its primary in zone n mod zones; workers of each shard are in all zones.
        jobs_per_s: pushed in all, evenly over the shards.
        job_s: how long a job runs, at most a step.
        workers: jobs that the workers of a shard perform, beside those that are pushed: 1.5 = half as many more.
        push_us, claim_us: server CPU of a job pushed in bulk, and claimed and acknowledged, µs.
        server_share: of a server's core, that is used at most.
        pickup_s: how long a job waits for an idle worker.
        replay: jobs that producers push again in a second, beside those that are new.
        reap_s: until what a lost worker held is given back.
        replace_s: until workers of a lost zone run in the others.
        scale_wait_s, scale_s, scale: a shard whose oldest job has waited so long gets, so many seconds later, so
            many times as many workers, until none waits for a second.
        lag_s: what a replica has not yet got when its primary is lost, in seconds of writes.
        wait_replicas: whether a push is confirmed by the replica first.
        spread: standard deviation of the noise, in those of chance alone.
    """

    shards: int = 16
    zones: int = 3
    jobs_per_s: float = 1_000_000
    job_s: float = 0.05
    workers: float = 1.5
    push_us: float = 0.5
    claim_us: float = 6.5
    server_share: float = 0.8
    pickup_s: float = 0.001
    replay: float = 1.0
    reap_s: float = 20.0
    replace_s: float = 90.0
    scale_wait_s: float = 10.0
    scale_s: float = 90.0
    scale: float = 2.0
    lag_s: float = 0.1
    wait_replicas: bool = False
    spread: float = 1.0


FAILURES: Final = (
    Event(kind=SHARD, at=30, seconds=30, number=2),
    Event(kind=ZONE, at=150, seconds=30, number=1),
    Event(kind=HOT, at=400, seconds=60, number=5, factor=3.0),
)
SECONDS: Final = 600


@dataclass(slots=True, kw_only=True)
class Second:
    """What the whole fleet did in a second; counts of jobs.

    Attributes:
        pushed: that Redis took.
        done: that were acknowledged.
        waiting: in queues at its end, of each shard.
        held: by producers at its end.
        running: claimed and not acknowledged at its end, what dead workers held included.
        p50, p99: seconds from the first try to push a job until it begins, of those that began.
    """

    pushed: int = 0
    done: int = 0
    waiting: Sequence[int] = ()
    held: int = 0
    running: int = 0
    p50: float = 0.0
    p99: float = 0.0


@dataclass(slots=True, kw_only=True)
class Result:
    """A simulation's outcome.

    Attributes:
        arrived: jobs that producers had.
        done: that ran and were acknowledged.
        repeated: times that a job was begun again, since its worker died or its claim was not copied.
        lost: that no replica had when their primary was lost, and that nobody had begun.
        at_risk: pushes of the last `lag_s` before such a loss: what could be lost at most.
        drained_s: for each event, seconds from its end until at most a second's jobs waited, or None.
    """

    fleet: Fleet
    events: Sequence[Event]
    seconds: list[Second] = field(default_factory=list)
    arrived: int = 0
    done: int = 0
    repeated: int = 0
    lost: int = 0
    at_risk: int = 0
    drained_s: list[float | None] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Jobs that wait, are held or run at the end."""
        last = self.seconds[-1]
        return sum(last.waiting) + last.held + last.running


def simulate(
    fleet: Fleet | None = None,
    events: Sequence[Event] = FAILURES,
    *,
    seconds: int = SECONDS,
    seed: int = 1,
) -> Result:
    """Run a fleet for so many seconds."""
    fleet, chance = fleet or Fleet(), random.Random(seed)  # noqa: S311 - a simulation, no secret
    shards = [_Shard(number, fleet) for number in range(fleet.shards)]
    result = Result(fleet=fleet, events=events)
    began: list[tuple[float, int]] = []
    second = Second()
    for step in range(seconds * _STEPS_A_SECOND):
        now = step * STEP_S
        for shard in shards:
            shard.set_state(now, events, result)
            arrived = _noisy(shard.mean(now, events), chance, fleet.spread)
            result.arrived += arrived
            shard.step(now, arrived, second, began)
        if (step + 1) % _STEPS_A_SECOND == 0:
            second.waiting = [shard.waiting for shard in shards]
            second.held = sum(shard.held for shard in shards)
            second.running = sum(shard.running + shard.orphaned for shard in shards)
            second.p50, second.p99 = percentiles(began, (0.5, 0.99))
            result.done += second.done
            result.seconds.append(second)
            second, began = Second(), []
    result.repeated = sum(shard.repeated for shard in shards)
    result.drained_s = [_drained(result, event) for event in events]
    return result


def percentiles(waits: Sequence[tuple[float, int]], shares: Sequence[float]) -> list[float]:
    """The shortest waits, in seconds, that such shares of the jobs do not exceed; waits are (seconds, jobs)."""
    ordered, total, found = sorted(waits), sum(jobs for _, jobs in waits), []
    for share in shares:
        passed = 0
        for wait, jobs in ordered:
            passed += jobs
            if passed >= share * total:
                found.append(wait)
                break
        else:
            found.append(0.0)
    return found


def _noisy(mean: float, chance: random.Random, spread: float) -> int:
    """A number of arrivals: Poisson's, by the normal distribution that it nears."""
    return max(round(chance.gauss(mean, spread * math.sqrt(mean))), 0)


def _drained(result: Result, event: Event) -> float | None:
    """Seconds from the end of an event until no shard has more than a second's jobs waiting or held."""
    fleet = result.fleet
    bound = fleet.jobs_per_s / fleet.shards
    for number, second in enumerate(result.seconds):
        if number >= event.end and second.held + max(second.waiting) <= bound:
            return number - event.end
    return None


class _Shard:
    """One shard: its queue, its producers, its workers."""

    def __init__(self, number: int, fleet: Fleet) -> None:
        self.number = number
        self.held = self.waiting = self.running = self.orphaned = self.repeated = 0
        self._fleet = fleet
        self._normal = fleet.jobs_per_s / fleet.shards
        self._queue: deque[tuple[float, int]] = deque()
        self._holding: deque[tuple[float, int]] = deque()
        self._returning: deque[tuple[float, list[tuple[float, int]]]] = deque()
        self._begun: list[tuple[float, int]] = []
        self._recent: deque[tuple[float, int, int]] = deque()
        self._is_up = True
        self._workers = 1.0
        self._late_since: float | None = None

    def mean(self, now: float, events: Sequence[Event]) -> float:
        """Jobs that are to be expected in a step."""
        hot = [each.factor for each in events if each.kind == HOT and each.number == self.number and each.at <= now < each.end]  # fmt: skip
        return self._normal * STEP_S * math.prod(hot)

    def set_state(self, now: float, events: Sequence[Event], result: Result) -> None:
        """Whether its primary is there, and which part of its workers."""
        away, workers = False, 1.0
        for each in events:
            if each.kind == SHARD and each.number == self.number:
                away |= each.at <= now < each.end
            if each.kind == ZONE:
                in_zone = self.number % self._fleet.zones == each.number
                away |= in_zone and each.at <= now < each.end
                if each.at <= now < each.at + self._fleet.replace_s:
                    workers -= 1 / self._fleet.zones
        if workers < self._workers:
            self._lose_workers(1 - workers / self._workers, now)
        if away and self._is_up:
            self._lose_primary(now, result)
        self._is_up, self._workers = not away, workers

    def step(
        self, now: float, arrived: int, second: Second, began: list[tuple[float, int]]
    ) -> None:
        """A tenth of a second: `second` and `began`, (waited, jobs), get what happened."""
        fleet = self._fleet
        if arrived:
            self._holding.append((now, arrived))
            self.held += arrived
        if not self._is_up:
            return  # workers finish what they run, and cannot acknowledge it
        second.done += self.running
        self.running, self._begun = 0, []
        while self._returning and self._returning[0][0] <= now:
            _, jobs = self._returning.popleft()
            self._queue.extendleft(reversed(jobs))
            count = sum(number for _, number in jobs)
            self.orphaned -= count
            self.waiting += count
            self.repeated += count
        budget = STEP_S * fleet.server_share / MICRO
        most = int(min(budget / fleet.push_us, arrived + self._normal * fleet.replay * STEP_S))
        pushed = _move(self._holding, self._queue, most)
        self.held -= pushed
        self.waiting += pushed
        second.pushed += pushed
        free = fleet.workers * self._workers * self._scaled(now) * self._normal * STEP_S
        claimed = int(min((budget - pushed * fleet.push_us) / fleet.claim_us, free, self.waiting))
        taken: deque[tuple[float, int]] = deque()
        claimed = _move(self._queue, taken, claimed)
        self.waiting -= claimed
        self.running = claimed
        self._begun = list(taken)
        began += [(now - since + fleet.pickup_s, number) for since, number in taken]
        self._recent.append((now, pushed, claimed))
        while self._recent[0][0] < now - fleet.lag_s:
            self._recent.popleft()

    def _scaled(self, now: float) -> float:
        """How many times as many workers there are because jobs wait."""
        fleet = self._fleet
        oldest = now - self._queue[0][0] if self._queue else 0.0
        if oldest < _CAUGHT_UP_S:
            self._late_since = None
        elif self._late_since is None and oldest > fleet.scale_wait_s:
            self._late_since = now
        if self._late_since is None or now < self._late_since + fleet.scale_s:
            return 1.0
        return fleet.scale

    def _lose_workers(self, part: float, now: float) -> None:
        """What a part of the workers ran waits for a reap."""
        lost = [(since, int(number * part)) for since, number in self._begun]
        lost = [(since, number) for since, number in lost if number]
        count = sum(number for _, number in lost)
        self.running -= count
        self.orphaned += count
        self._returning.append((now + self._fleet.reap_s, lost))

    def _lose_primary(self, now: float, result: Result) -> None:
        """The replica takes over without the last writes of the primary."""
        recent = [each for each in self._recent if each[0] >= now - self._fleet.lag_s]
        self._recent.clear()
        pushed = sum(pushed for _, pushed, _ in recent)
        claimed = sum(claimed for _, _, claimed in recent)
        if self._fleet.wait_replicas:  # no producer was answered before the replica had its push
            self.repeated += claimed
            return
        result.at_risk += pushed
        gone = min(pushed, self.waiting)
        # Of what was claimed, the replica still has in its queue what was pushed before.
        self.repeated += max(claimed - (pushed - gone), 0)
        self.waiting -= gone
        result.lost += gone
        while gone:
            since, number = self._queue.pop()
            if number > gone:
                self._queue.append((since, number - gone))
            gone -= min(number, gone)


def _move(source: deque[tuple[float, int]], target: deque[tuple[float, int]], most: int) -> int:
    """Move up to so many jobs from one end to the other; how many."""
    moved = 0
    while source and moved < most:
        since, number = source.popleft()
        part = min(number, most - moved)
        if part < number:
            source.appendleft((since, number - part))
        target.append((since, part))
        moved += part
    return moved
