"""Two clocks, one ledger: either is taken away for simulated days, and each tick is enqueued once.

AWS's clock is the enqueue function's own code, called with the tick of a rule, sometimes twice. The fleet's is
`check_missed`, each simulated minute. The days lie just behind the server's own time, by which `push_tick` decides
what is too old.
"""

import json
import logging
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from kiqbridge.aws.allow_list import AllowList
from kiqbridge.aws.enqueue import Enqueuer
from kiqbridge.aws.push import Pusher
from kiqbridge.features.missed_ticks.missed import check_missed
from kiqbridge.features.publishing.function import publish_manifest
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

pytestmark = pytest.mark.any_server

KEYS = Keys()
MINUTE, HOUR, DAY = 60, 3600, 86_400
DAYS = 5
RULES = {
    "EveryFive": ("cron(0/5 * * * ? *)", "UTC", "all"),
    "Quarter": ("cron(3/15 * * * ? *)", "Europe/Paris", "all"),
    "Hourly": ("cron(0 * * * ? *)", "UTC", "all"),
    "Nightly": ("cron(0 3 * * ? *)", "America/New_York", "all"),
    "HalfHours": ("rate(30 minutes)", "UTC", "all"),
    "LastOnly": ("cron(30 * * * ? *)", "UTC", "last"),
    "AlertOnly": ("cron(45 * * * ? *)", "Asia/Kolkata", "alert"),
}
# Hours since the begin at which a clock is away: AWS a day, the fleet a day, both for some hours. Once the fleet
# is back first, once AWS.
PHASES = {
    "both": (0, 24),
    "no AWS": (24, 48),
    "no fleet": (48, 71),
    "both again": (71, 78),
    "neither, fleet first": (78, 84),
    "no AWS yet": (84, 88),
    "both at last": (88, 96),
    "neither, AWS first": (96, 102),
    "no fleet yet": (102, 106),
    "the end": (106, 121),
}
WITHOUT_AWS = ("no AWS", "neither, fleet first", "no AWS yet", "neither, AWS first")
WITHOUT_FLEET = ("no fleet", "neither, fleet first", "neither, AWS first", "no fleet yet")


@dataclass
class World:
    """Both clocks, and what they did."""

    begin: int
    redelivers: bool
    enqueuer: Enqueuer
    pool: RedisPool
    client: object
    rng: random.Random = field(default_factory=lambda: random.Random(13))
    waiting: list[tuple[str, int]] = field(default_factory=list)
    alerts: Counter = field(default_factory=Counter)
    answers: Counter = field(default_factory=Counter)

    def phase(self, at: int) -> str:
        hours = (at - self.begin) / HOUR
        return next(name for name, (low, high) in PHASES.items() if low <= hours < high)

    def deliver(self, name: str, at: int, now: int) -> None:
        instant = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
        event = {
            "class": "Report",
            "args": [name, at],
            "tick": {"schedule": f"shop/{name}", "at": instant},
        }
        answer = self.enqueuer.handle(event, now=now, by="lambda:request").answer_or_raise()
        for outcome in ("enqueued", "duplicates"):
            self.answers[outcome] += len(answer[outcome])

    def aws(self, due: list[tuple[str, int]], now: int) -> None:
        """A minute of AWS: it delivers what is due, or keeps it for later as Scheduler's retries do."""
        if self.phase(now) in WITHOUT_AWS:
            self.waiting += due if self.redelivers else []
            return
        late, self.waiting = self.waiting, []
        self.rng.shuffle(late)
        for name, at in [*late, *due]:
            for _ in range(self.rng.choice([1, 1, 1, 2])):
                self.deliver(name, at, now)

    def fleet(self, now: int) -> None:
        if self.phase(now) in WITHOUT_FLEET:
            return
        check_missed(
            self.pool, KEYS, self.client, by="worker:leader", now=now, notify=self._notified
        )

    def _notified(self, ticks) -> None:
        self.alerts.update((each.schedule, each.at) for each in ticks)


@pytest.fixture
def world(redis, redis_url, client, caplog):
    caplog.set_level(
        logging.ERROR, "kiqbridge.features.missed_ticks.missed"
    )  # some thousand lines otherwise
    pool = RedisPool(redis_url)
    begin = (int(redis.time()[0]) - DAYS * DAY) // DAY * DAY

    def world(*, redelivers):
        allowed = AllowList.from_environment(
            {"KIQBRIDGE_ALLOWED_CLASSES": "*", "KIQBRIDGE_ALLOWED_QUEUES": "*"}
        )
        return World(
            begin=begin,
            redelivers=redelivers,
            enqueuer=Enqueuer(Pusher(client), allowed),
            pool=pool,
            client=client,
        )

    yield world
    pool.close()


def publish(world, redis):
    """Publish the rules as of the begin; returns what is due, by minute."""
    start = f"{datetime.fromtimestamp(world.begin - DAY, UTC):%Y-%m-%dT%H:%M:%SZ}"
    schedules = {}
    for name, (expression, zone, policy) in RULES.items():
        schedules[name] = {
            "expression": expression,
            "timezone": zone,
            "start": start,
            "missed": policy,
            "origin": "template",
        }
    documents = {
        name: members | {"jobs": [{"class": "Report", "args": [name, 0]}]}
        for name, members in schedules.items()
    }
    manifest = {"version": 1, "hash": "x", "schedules": documents}
    publish_manifest(world.pool, KEYS, manifest, stack="shop", by="test")
    due = defaultdict(list)
    first = datetime.fromtimestamp(world.begin, UTC)
    for name, document in documents.items():
        text = redis.hget("kb:schedules", f"shop/{name}")
        since = json.loads(text) | {"since": world.begin - 1}
        redis.hset("kb:schedules", f"shop/{name}", json.dumps(since))
        definition = ScheduleDefinition.from_document(name, document)
        last = first + timedelta(days=DAYS, seconds=-1)
        for moment in definition.when.between(first - timedelta(seconds=1), last):
            due[int(moment.timestamp())].append((name, int(moment.timestamp())))
    return due


def run(world, redis):
    due = publish(world, redis)
    end = world.begin + DAYS * DAY + 5 * MINUTE  # the grace time of the last ones is over then
    for now in range(world.begin, end, MINUTE):
        world.aws(due.get(now, []), now)
        world.fleet(now + 2)
    enqueued = Counter()
    for text in redis.lrange("queue:default", 0, -1):
        mark = json.loads(text)["tick"]
        enqueued[mark["schedule"], mark["at"]] += 1
    rows = defaultdict(Counter)
    for name, at in (tick for ticks in due.values() for tick in ticks):
        schedule = f"shop/{name}"
        [entry] = redis.zrangebyscore(f"kb:ticks:{schedule}", at, at) or [b"{}"]
        by = json.loads(entry).get("by", "")
        count = enqueued.pop((schedule, at), 0)
        rows[world.phase(at), name] += Counter(
            due=1,
            aws=by.startswith("lambda"),
            fleet=by.startswith("worker"),
            alerts=world.alerts.pop((schedule, at), 0),
            twice=max(count - 1, 0),
            missing=count == 0,
        )
    assert not enqueued, "what was enqueued was due"
    assert not world.alerts, "what was missed was due"
    return rows


def table(rows):
    columns = ("due", "aws", "fleet", "alerts", "twice", "missing")
    lines = [f"{'phase':22} {'schedule':10} " + " ".join(f"{each:>7}" for each in columns)]
    for phase in PHASES:
        for name in RULES:
            row = rows.get((phase, name), Counter())
            lines.append(f"{phase:22} {name:10} " + " ".join(f"{row[each]:7}" for each in columns))
    total = sum(rows.values(), Counter())
    lines.append(f"{'all':22} {'':10} " + " ".join(f"{total[each]:7}" for each in columns))
    return "\n".join(lines)


def total(rows, column, *, phases=tuple(PHASES), names=tuple(RULES)):
    return sum(
        row[column] for (phase, name), row in rows.items() if phase in phases and name in names
    )


@pytest.mark.slow
def test_with_late_deliveries_by_aws_each_tick_is_enqueued_once_and_alerted_once(
    world, redis, tell
):
    made = world(redelivers=True)

    rows = run(made, redis)

    tell(table(rows))
    tell(f"deliveries by AWS: {dict(made.answers)}")
    assert total(rows, "twice") == total(rows, "missing") == 0
    assert total(rows, "aws") + total(rows, "fleet") == total(rows, "due") > 2500
    watched_without_aws = ("no AWS", "neither, fleet first", "no AWS yet")
    assert total(rows, "alerts", phases=("both", "no fleet", "both again", "no fleet yet")) == 0
    assert total(rows, "alerts") <= total(rows, "due", phases=watched_without_aws)
    for phase in ("no AWS", "neither, fleet first"):
        for name in RULES:
            row = rows[phase, name]
            # The last minutes before AWS is back are within the grace time, or delivered late.
            assert row["due"] - 1 <= row["alerts"] <= row["due"], (phase, name)
    assert total(rows, "fleet", names=("AlertOnly",)) == 0
    assert made.answers["duplicates"] > total(rows, "fleet")


@pytest.mark.slow
def test_without_them_each_tick_is_enqueued_that_the_policy_asks_for(world, redis, tell):
    rows = run(world(redelivers=False), redis)

    tell(table(rows))
    to_enqueue = [name for name, (_, _, policy) in RULES.items() if policy == "all"]
    assert total(rows, "twice") == 0
    assert total(rows, "missing", names=to_enqueue) == 0
    assert total(rows, "alerts") == total(rows, "due", phases=WITHOUT_AWS)
    assert total(rows, "missing", names=("AlertOnly",)) == total(
        rows, "alerts", names=("AlertOnly",)
    )
    away = ("neither, fleet first", "neither, AWS first")
    assert total(rows, "missing", names=("LastOnly",)) == total(
        rows, "due", names=("LastOnly",), phases=away
    ) - total(rows, "fleet", names=("LastOnly",), phases=away)
    assert total(rows, "fleet", names=("LastOnly",), phases=away[:1]) == 1
