"""What a running system leaves in Redis, made at once: for the tests of the pages, and their pictures.

Two workers of ours, of different versions, and one of Ruby; jobs that wait, run, are retried and have died; eight
hours of measurements with two deployments; schedules whose ledgers hold every state. Same seed, same data, but for
the times. Nothing expires, so that pictures can be taken in peace.
"""

import base64
import json
import random
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import redis

from kiqbridge import Client, __version__
from kiqbridge.features.dynamic.schedule import Schedule
from kiqbridge.features.dynamic.schedules import Schedules
from kiqbridge.features.limiters.store import Asked, note_terms
from kiqbridge.flow import Batch, Call, chain, group
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.measures import (
    BOUNDS_MS,
    BUCKETS,
    histogram_minute_7,
    histogram_minute_8,
    minute_7,
    minute_8,
    ten_minutes_8,
)

CLASSES = {
    "SendMail": ("mailers", 90, 180.0, 0.01),
    "SyncCustomer": ("default", 40, 650.0, 0.04),
    "BillingInvoice": ("critical", 25, 1400.0, 0.02),
    "ResizeImage": ("low", 60, 90.0, 0.0),
    "Reports::Nightly": ("low", 1, 42_000.0, 0.15),
}
"""Class → its queue, executions in a minute, usual milliseconds, share of failures."""

ERRORS = (
    ("ConnectionError", "api.example.com:443 refused the connection"),
    ("TimeoutError", "no reply within 30 s"),
    ("ValueError", "amount: 'twelve' is no number"),
    ("Net::SMTPServerBusy", "450 try again later"),
)
OURS = "worker-1.example.internal:4711:0f3a52c19d7e"
OLDER = "worker-2.example.internal:4802:9b1de2a47f03"
RUBY = "rails-1.example.internal:2117:5ce8a1d90b44"
TICKS = 20


@dataclass(slots=True, kw_only=True)
class System:
    """A Redis that is filled, step by step.

    Attributes:
        server: the connection.
        keys: names under the namespace.
        now: epoch seconds.
        chance: the same in each run.
    """

    server: "redis.Redis[bytes]"
    keys: Keys = field(default_factory=Keys)
    now: float = field(default_factory=time.time)
    chance: random.Random = field(default_factory=lambda: random.Random(14))
    jids: Iterator[str] = field(init=False)

    def __post_init__(self) -> None:
        chance = random.Random(41)
        self.jids = (f"{chance.getrandbits(96):024x}" for _ in iter(int, 1))

    def job(self, name: str, *, age_s: float = 60, **more: Any) -> dict[str, Any]:
        """A job as a client writes it; times in milliseconds, as Sidekiq 8."""
        at = int((self.now - age_s) * 1000)
        known: dict[str, Any] = {
            "retry": True,
            "queue": CLASSES[name][0] if name in CLASSES else "default",
            "class": name,
            "args": self.arguments(name),
            "jid": next(self.jids),
            "created_at": at,
            "enqueued_at": at,
        }
        return known | more

    def arguments(self, name: str) -> list[Any]:
        """Such as a job of this class may have."""
        number = self.chance.randrange(10_000, 99_999)
        match name:
            case "SendMail":
                return ["welcome", f"user{number}@example.com", {"locale": "de"}]
            case "BillingInvoice":
                return [number, {"currency": "EUR", "send": True, "token": "tok_4242"}]
            case "Reports::Nightly":
                return ["2026-11-21", "Europe/Paris"]
            case _:
                return [number]

    def failed(self, name: str, *, count: int, ago_s: float) -> dict[str, Any]:
        """A job that has failed `count` + 1 times."""
        error, message = self.chance.choice(ERRORS)
        lines = [
            "jobs/billing.py:41:in perform",
            "httpx/_client.py:901:in send",
            f"{error}: {message}",
        ]
        packed = base64.b64encode(zlib.compress(json.dumps(lines).encode())).decode()
        return self.job(
            name,
            age_s=ago_s + 3600,
            error_class=error,
            error_message=message,
            failed_at=int((self.now - ago_s) * 1000),
            retried_at=int((self.now - ago_s / 2) * 1000),
            retry_count=count,
            error_backtrace=packed,
        )


def fill(url: str, *, dead: int = 140, queued: int = 90) -> System:
    """Fill an empty Redis.

    Args:
        url: its address.
        dead: members of the dead set.
        queued: jobs that wait.
    """
    system = System(server=redis.Redis.from_url(url))
    fill_queues(system, queued)
    fill_sets(system, dead)
    fill_processes(system)
    fill_metrics(system)
    fill_history(system)
    with_client = Client(url)
    try:
        fill_schedules(system, with_client)
        fill_flow(system, with_client)
        with_client.pause_queue("low", reason="images move to the new bucket", by="ana@example.com")
    finally:
        with_client.close()
    return system


def fill_queues(system: System, count: int) -> None:
    """Jobs that wait; those of `critical` for a few seconds, those of `low` for an hour."""
    names = list(CLASSES)
    pipe = system.server.pipeline(transaction=False)
    for number in range(count):
        name = system.chance.choices(names, [4, 3, 1, 5, 1])[0]
        age = 3600 * (count - number) / count if name == "ResizeImage" else 20.0
        job = system.job(name, age_s=age, tags=["nightly"] if number % 7 == 0 else [])
        pipe.lpush(system.keys.queue(job["queue"]), json.dumps(job))
        pipe.sadd(system.keys.queues, job["queue"])
        _flush_now_and_then(pipe)
    pipe.sadd(system.keys.queues, *{queue for queue, *_ in CLASSES.values()})
    pipe.execute()


def fill_sets(system: System, dead: int) -> None:
    """Retries, jobs for later, and the dead."""
    pipe = system.server.pipeline(transaction=False)
    names = list(CLASSES)
    for number in range(34):
        job = system.failed(system.chance.choice(names), count=number % 9, ago_s=40.0 * number + 5)
        pipe.zadd(system.keys.retry, {json.dumps(job): system.now + 31.0 * number + 12})
    for number in range(26):
        job = system.job(system.chance.choice(names), age_s=600)
        del job["enqueued_at"]
        pipe.zadd(system.keys.schedule, {json.dumps(job): system.now + 700.0 * number + 95})
    for number in range(dead):
        job = system.failed(system.chance.choice(names), count=25, ago_s=180.0 * number + 60)
        pipe.zadd(system.keys.dead, {json.dumps(job): system.now - 180.0 * number - 60})
        _flush_now_and_then(pipe)
    pipe.execute()


def fill_processes(system: System) -> None:
    """Two of ours and one of Ruby, with what runs in them: a long job, an iterable one, short ones."""
    long = system.job("Reports::Nightly", age_s=7600)
    iterable = system.job("ImportCustomers", age_s=500, queue="default")
    short = [system.job("SendMail", age_s=3) for _ in range(3)]
    ruby = [
        system.job("HardJob", age_s=25, queue="default", args=["from Rails", 42]),
        system.job(
            "Sidekiq::ActiveJob::Wrapper",
            age_s=9,
            wrapped="WelcomeJob",
            queue="mailers",
            args=[{"job_class": "WelcomeJob", "arguments": [7], "locale": "fr"}],
        ),
    ]
    keys, server = system.keys, system.server
    ours = {"critical": 3, "default": 2, "mailers": 1}
    _process(
        system, OURS, {"default": (10, ours), "bulk": (2, {"low": 0})}, f"kiqbridge-{__version__}"
    )
    _process(system, OLDER, {"default": (5, {"default": 0})}, "kiqbridge-0.0.9", is_quiet=True)
    _process(system, RUBY, {"default": (5, {"default": 0, "mailers": 0})}, "8.1.7")
    _work(system, OURS, [(long, 7500), (iterable, 480), *((job, 2) for job in short)])
    _work(system, RUBY, [(ruby[0], 21), (ruby[1], 8)])
    server.hset(
        keys.iteration(iterable["jid"]),
        mapping={"ex": 3, "c": json.dumps(["eu", 48_211]), "rt": "1260.5"},
    )
    incarnation = f"v2:{OURS}:1"
    waiting = [system.job("SyncCustomer", age_s=1) for _ in range(4)]
    server.sadd(keys.inflight, incarnation)
    # A sign of life that stays good for a year, so that its jobs are no orphans.
    server.hset(keys.alive, incarnation, f"9 {system.now} {365 * 86_400_000}")
    server.hset(keys.claims(incarnation), "t1", "7 default")
    server.rpush(
        keys.inflight_list(incarnation, "t1", 7), *(json.dumps(job) for job in [*waiting, *short])
    )
    server.sadd(keys.queues, "default")
    server.rpush(
        keys.suspects("default"), json.dumps(system.job("ResizeImage", age_s=400, queue="default"))
    )
    server.mset({keys.stat("processed"): 1_284_113, keys.stat("failed"): 20_481})
    day = time.strftime("%Y-%m-%d", time.gmtime(system.now))
    server.mset({keys.stat("processed", day): 41_977, keys.stat("failed", day): 812})


def _process(
    system: System,
    identity: str,
    capsules: dict[str, tuple[int, dict[str, int]]],
    version: str,
    *,
    is_quiet: bool = False,
) -> None:
    host, pid, _ = identity.split(":")
    concurrency = sum(threads for threads, _ in capsules.values())
    weights = [each for _, each in capsules.values()]
    info = {
        "hostname": host,
        "started_at": system.now - 93_000,
        "pid": int(pid),
        "tag": "shop",
        "concurrency": concurrency,
        "capsules": {
            name: {
                "concurrency": threads,
                "mode": "weighted" if any(each.values()) else "strict",
                "weights": each,
            }
            for name, (threads, each) in capsules.items()
        },
        "queues": list(dict.fromkeys(name for each in weights for name in each)),
        "weights": weights,
        "labels": ["kiqbridge"] if version.startswith("kiqbridge") else ["reliable"],
        "identity": identity,
        "version": version,
        "embedded": False,
    }
    system.server.sadd(system.keys.processes, identity)
    system.server.hset(
        system.keys.process(identity),
        mapping={
            "info": json.dumps(info),
            "concurrency": concurrency,
            "busy": 0,
            "beat": system.now - system.chance.uniform(0, 4),
            "quiet": "true" if is_quiet else "false",
            "rss": system.chance.randrange(60_000, 420_000),
            "rtt_us": system.chance.randrange(180, 900),
        },
    )


def _work(system: System, identity: str, jobs: list[tuple[dict[str, Any], int]]) -> None:
    fields = {
        f"t{number}": json.dumps(
            {"queue": job["queue"], "payload": json.dumps(job), "run_at": int(system.now - since)}
        )
        for number, (job, since) in enumerate(jobs, 1)
    }
    system.server.hset(system.keys.work(identity), mapping=fields)
    system.server.hset(system.keys.process(identity), "busy", len(jobs))


def fill_metrics(system: System) -> None:
    """Eight hours by minute and three days by ten; failures grow after the second deployment."""
    pipe = system.server.pipeline(transaction=False)
    keys, minute = system.keys, int(system.now) // 60 * 60
    for back in range(480):
        at = time.gmtime(minute - 60 * back)
        for name, (_, rate, ms, share) in CLASSES.items():
            _measure(system, pipe, name, at, (rate, ms, share * (4 if back < 55 else 1)))
        _flush_now_and_then(pipe)
    for back in range(48, 432):
        at = time.gmtime(minute - 600 * back)
        for name, (_, rate, ms, share) in CLASSES.items():
            wave = 0.6 + 0.4 * ((back // 18) % 4) / 3
            fields = {
                "p": 10 * rate * wave,
                "f": 10 * rate * wave * share,
                "ms": 10 * rate * wave * ms,
            }
            for kind, value in fields.items():
                pipe.hset(keys.metrics(ten_minutes_8(at)), f"{name}|{kind}", int(value))
        _flush_now_and_then(pipe)
    for back, label in ((55, "9f31c07 Retry mails sooner"), (210, "4be2d90 Invoices in EUR")):
        at = time.gmtime(minute - 60 * back)
        pipe.hset(
            keys.marks(time.strftime("%Y%m%d", at)), time.strftime("%Y-%m-%dT%H:%M:00Z", at), label
        )
    pipe.execute()


def fill_history(system: System) -> None:
    """The sizes and latencies of queues in the last hour."""
    minute = int(system.now) // 60
    for back in range(60):
        sizes = {
            "mailers": 30 + (back * 7) % 40,
            "default": 12 + back // 2,
            "critical": 8,
            "low": 34,
        }
        waits = {"mailers": 20, "default": 30 + 2 * back, "critical": 3, "low": 60.0 * (60 - back)}
        entry = {name: [size, waits[name]] for name, size in sizes.items()}
        system.server.hset(system.keys.queue_minutes, str(minute - back), json.dumps(entry))


def _measure(
    system: System,
    pipe: Any,
    name: str,
    at: time.struct_time,
    usual: tuple[float, float, float],
) -> None:
    rate, ms, share = usual
    wave = 0.75 + 0.25 * ((at.tm_min // 5) % 4) / 3
    count = max(0, round(system.chance.gauss(rate * wave, rate**0.5)))
    failed = sum(system.chance.random() < share for _ in range(count))
    took = [ms * system.chance.lognormvariate(0, 0.6) for _ in range(count - failed)]
    buckets = [0] * BUCKETS
    for each in took:
        buckets[
            next((place for place, high in enumerate(BOUNDS_MS) if each < high), BUCKETS - 1)
        ] += 1
    keys = system.keys
    for bucket in (minute_7(at), minute_8(at), ten_minutes_8(at)):
        for kind, value in (("p", count), ("f", failed), ("ms", round(sum(took)))):
            if value:
                pipe.hincrby(keys.metrics(bucket), f"{name}|{kind}", value)
    packed = struct.pack(f">{BUCKETS}H", *buckets)
    pipe.set(keys.histogram_7(name, histogram_minute_7(at)), packed)
    pipe.set(keys.histogram_8(name, histogram_minute_8(at)), packed)


def fill_schedules(system: System, client: Client) -> None:
    """Schedules of code and of programs, with ledgers in which every state occurs."""
    schedules = Schedules(client)
    schedules.save_all(
        [
            Schedule(
                "nightly-report",
                "Reports::Nightly",
                args=["yesterday"],
                queue="low",
                cron="0 3 * * *",
                timezone="Europe/Paris",
                overlap="skip",
                description="Sales of the day before, for the board",
            ),
            Schedule("sync-customers", "SyncCustomer", every="5m", description="From the CRM"),
            Schedule(
                "invoices",
                "BillingInvoice",
                queue="critical",
                expression="cron(30 8 L * ? *)",
                timezone="America/New_York",
                missed="all",
            ),
            Schedule("clean-up", "ResizeImage", queue="low", every="1h"),
        ]
    )
    schedules.pause("clean-up", reason="the disk is being moved", by="ana@example.com")
    schedules.skip_next("sync-customers")
    _ledger(system, "sync-customers", 300)
    _ledger(system, "nightly-report", 86_400, offset=2 * 3600)
    _ledger(system, "clean-up", 3600)


def fill_flow(system: System, client: Client) -> None:
    """Batches, a group and a chain, limiters that are full or free, locks of unique jobs."""
    keys, server, now = system.keys, system.server, system.now

    def call(name: str, *args: Any) -> Call:
        return Call({"class": name, "args": list(args), "queue": "flow"})

    month = Batch(
        description="Invoices of June",
        on_success=call("MonthlyReport", "June"),
        on_death=call("TellFinance"),
        client=client,
    )
    with month:
        jids = [
            client.push({"class": "BillingInvoice", "args": [n], "queue": "flow"}) for n in range(8)
        ]
        with Batch(description="Letters abroad", client=client):
            client.push({"class": "SendMail", "args": ["letter"], "queue": "flow"})
    _end_members(system, month.bid, {jids[0]: "f", **dict.fromkeys(jids[1:6], "d")})
    over = Batch(description="Import of customers", client=client)
    with over:
        done = [
            client.push({"class": "SyncCustomer", "args": [n], "queue": "flow"}) for n in range(3)
        ]
    _end_members(system, over.bid, dict.fromkeys(done, "d"))
    server.hset(keys.batch(over.bid), mapping={"complete_at": now - 60, "success_at": now - 60})
    server.zadd(keys.batches, {over.bid: now + 30 * 86_400 - 60})
    sizes = [chain(call("ResizeImage", n), call("UploadImage", n)) for n in (1, 2)]
    chain(
        call("FetchPhoto", 7), group(*sizes, description="two sizes"), call("PublishPhoto", 7)
    ).perform_async(client=client)
    group(*sizes, description="thumbnails").perform_async(client=client)
    limits = [
        Asked("concurrent", "erp", 3),
        Asked("window", "stripe", 30, 60.0),
        Asked("leaky", "crm", 40, 40.0),
    ]
    note_terms(client.pool, keys, limits)
    locks = {
        f"0{n} {next(system.jids)} SyncCustomer": f"{int((now - 60 * n) * 1e6)} {int((now + 9e6) * 1e6)} "
        for n in range(3)
    }
    server.hset(keys.limit("concurrent", "erp"), mapping=locks)
    server.zadd(
        keys.limit_waits("concurrent", "erp"),
        {next(system.jids): now + 9e6, "web-1:77:5": now + 9e6},
    )
    server.rpush(keys.limit("window", "stripe"), *(int((now + 1e5 - n) * 1e6) for n in range(12)))
    for number, name in enumerate(["SyncCustomer", "SyncCustomer", "Reports::Nightly"]):
        lock = f"{name}:{system.chance.getrandbits(256):064x}"
        server.hset(keys.locks, lock, f"{int(now + 86_400 * 30)} {next(system.jids)}")
        server.zadd(keys.locks_look, {lock: now + 60 * number})
    server.delete(keys.queue("flow"))  # other pages count what waits
    server.srem(keys.queues, "flow")


def _end_members(system: System, bid: str, states: dict[str, str]) -> None:
    keys, failed = system.keys, sum(state == "f" for state in states.values())
    system.server.hset(keys.batch_members(bid), mapping=states)
    system.server.hincrby(keys.batch(bid), "pending", -len(states))
    system.server.hincrby(keys.batch(bid), "failed", failed)


def _ledger(system: System, name: str, period: int, *, offset: int = 0) -> None:
    keys, newest = system.keys, int(system.now - offset) // period * period + offset
    pipe = system.server.pipeline(transaction=False)
    states = {3: "late", 6: "duplicate", 9: "missed", 12: "caught up", 15: "skipped", 17: "dead"}
    for back in range(1, TICKS + 1):
        at, state = newest - period * back, states.get(back, "on time")
        if state in {"missed", "caught up"}:
            pipe.zadd(keys.missed, {f"{at} {name}": at})
        if state == "missed":
            continue
        late = {"late": 212.0, "caught up": 2400.0}.get(state, 0.35)
        jid = next(system.jids)
        entry: dict[str, Any] = {
            "at": at,
            "jids": [] if state == "skipped" else [jid],
            "by": f"worker:{OURS}" if state == "caught up" else "lambda:8b1de2a4-7f03",
            "enqueued_at": at + late,
        }
        if state == "skipped":
            entry["skipped"] = True
        pipe.zadd(keys.ticks(name), {json.dumps(entry): at})
        if state == "duplicate":
            pipe.hset(keys.attempts(name), str(at), 3)
        if state != "skipped" and back > 1:
            end: dict[str, Any] = {
                "at": at,
                "jid": jid,
                "outcome": "done",
                "ended_at": at + late + 4,
                "took_s": 3.2,
            }
            if state == "dead":
                end |= {"outcome": "dead", "error": "TimeoutError", "retries": 25}
            pipe.zadd(keys.ends(name), {json.dumps(end): at})
    pipe.zadd(keys.ledgers, {name: newest + 17 * 86_400})
    pipe.execute()


def _flush_now_and_then(pipe: Any, at_once: int = 5000) -> None:
    if len(pipe) >= at_once:
        pipe.execute()
