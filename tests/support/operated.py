"""What an operator looks at, made by the real worker and real Ruby Sidekiq: on every screen there is something.

Queues that wait, jobs that run (one with a cursor), retries, dead and scheduled jobs of both languages, schedules
with ledgers, a paused queue. The workers go on running; `settled` is when all that fails has failed.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis as redis_py

from kiqbridge import Client, Schedules
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.wire.tick_mark import JobEnd
from support.ruby import RubySidekiq
from support.waiting import wait_until
from support.workers import WorkerProcess

SCRIPT = "<script>window.hacked = true</script><img src=x onerror='window.hacked = true'>"
"""What a page that does not escape would run."""
ESCAPE = "\x1b]0;hacked\x07\x1b[31mred\u202egnp.exe\u2066 [bold]markup[/bold]"
"""What a terminal would obey, what turns the direction of text, and Rich's markup."""

DAY_S = 86_400
NIGHTLY, STOCK = "shop/nightly-report", "shop/stock"

PYTHON_JOBS = f"""
import time
from kiqbridge import IterableJob, job

class PaymentDeclined(Exception):
    pass

def later(count, error, payload):  # so that what is in the retry set stays there
    return 3600 + hash(str(error)) % 7200

@job(name="ChargeCard", queue="billing", retry=10, backtrace=True, retry_in=later)
def charge_card(order, amount, token=None):
    check(order)

def check(order):
    raise PaymentDeclined(f"order {{order}}: the bank says 'insufficient funds'")

@job(name="SendInvoice", queue="mailers", retry=0, backtrace=20)
def send_invoice(customer, month):
    raise ConnectionRefusedError("smtp.example.com:587 refused the connection")

@job(name="Hostile", queue="mailers", retry=0)
def hostile(text):
    raise ValueError({SCRIPT!r} + text)

@job(name="ResizePhoto", queue="default", retry=3)
def resize_photo(path, size):
    pass

@job(name="SyncInventory", queue="slow", retry=3)
def sync_inventory(warehouse):
    time.sleep(600)

@job(name="NightlyReport", queue="default", retry=3)
def nightly_report(shop="main"):
    pass

class ImportOrders(IterableJob):
    queue = "slow"

    def build_enumerator(self, count, *, cursor):
        for number in range(cursor or 0, count):
            yield number, number + 1

    def each_iteration(self, number, count):
        time.sleep(0.05)
"""

RUBY_JOBS = """
class RubyMailer
  include Sidekiq::Job
  sidekiq_options queue: "ruby", retry: 5, backtrace: 10
  sidekiq_retry_in { |count| 7200 + count }
  def perform(user, template) = raise(ArgumentError, "template #{template} is missing")
end
class RubyGone
  include Sidekiq::Job
  sidekiq_options queue: "ruby", retry: 0
  def perform(id) = raise(IOError, "disk is full")
end
class RubyCrawler
  include Sidekiq::Job
  sidekiq_options queue: "ruby"
  def perform(url) = sleep(600)
end
class RubyQuick
  include Sidekiq::Job
  sidekiq_options queue: "ruby"
  def perform = nil
end
"""

RETRIES, DEAD, WAITING, SCHEDULED = 8, 7, 30, 5
"""How many there are of each when all has settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated:
    """A fleet that works.

    Attributes:
        url: of its Redis.
        redis: a raw client (bytes), for asserting.
        client: of ours, for arranging.
        worker: the Python worker process.
    """

    url: str
    redis: redis_py.Redis
    client: Client
    worker: WorkerProcess


@contextmanager
def operated_fleet(url: str) -> Iterator[Operated]:
    """Start the workers on an empty server, and wait until all that fails has failed."""
    with ExitStack() as stack:
        client = Client(url)
        stack.callback(client.close)
        redis = stack.enter_context(redis_py.Redis.from_url(url, socket_timeout=60))
        _enqueue(client)
        _save_schedules(client, redis)
        worker = stack.enter_context(_python_worker(url, stack))
        ruby = RubySidekiq(RUBY_JOBS, url, queues=("ruby",), concurrency=3)
        stack.enter_context(ruby)
        worker.wait_ready()
        ruby.wait_ready()
        _wait_until_settled(redis)
        yield Operated(url=url, redis=redis, client=client, worker=worker)


def _python_worker(url: str, stack: ExitStack) -> WorkerProcess:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shop-")))
    jobs = folder / "shop_jobs.py"
    jobs.write_text(PYTHON_JOBS, encoding="utf-8")
    queues = ("billing", "mailers", "default", "slow")
    return WorkerProcess(
        "-r",
        str(jobs),
        "-c",
        "5",
        *(part for queue in queues for part in ("-q", queue)),
        redis_url=url,
        env={"KIQBRIDGE_BEAT_S": "0.2", "KIQBRIDGE_SHUTDOWN_TIMEOUT_S": "1"},
        cwd=folder,
    )


def _enqueue(client: Client) -> None:
    def push(job_class: str, queue: str, *args: object, **more: object) -> None:
        client.push({"class": job_class, "queue": queue, "args": list(args), **more})

    for order in range(4711, 4716):
        push(
            "ChargeCard", "billing", order, 1999, {"token": "secret-4242"}, retry=10, backtrace=True
        )
    for month in ("2026-08", "2026-09", "2026-10"):
        push("SendInvoice", "mailers", "ann@example.com", month, retry=0, backtrace=20)
    push("Hostile", "mailers", SCRIPT + ESCAPE, retry=0, tags=[SCRIPT, ESCAPE])
    for number in range(40):
        push("ResizePhoto", "default", f"/photos/{number}.jpg", [800, 600])
    push("SyncInventory", "slow", "Rotterdam")
    push("ImportOrders", "slow", 100_000)
    for number in range(WAITING - 1):
        push("RebuildIndex", "bulk", number, {"region": number % 4}, tags=["search"])
    push("RebuildIndex", "bulk", SCRIPT + ESCAPE)
    now = time.time()
    for days in range(1, SCHEDULED):
        push("SendReminder", "mailers", f"customer-{days}", at=now + days * DAY_S / 2)
    for user in range(RETRIES - 5):
        push("RubyMailer", "ruby", user, "welcome", retry=5, backtrace=10)
    for number in range(DEAD - 4):
        push("RubyGone", "ruby", number, retry=0)
    push("RubyCrawler", "ruby", "https://example.com/")
    push("RubyQuick", "ruby", at=now + 3600)
    client.pause_queue("bulk", reason="the index moves to another server", by="ann@example.com")


def _save_schedules(client: Client, redis: redis_py.Redis) -> None:
    def definition(name: str, expression: str, zone: str, job_class: str) -> ScheduleDefinition:
        job = {"class": job_class, "queue": "default", "args": []}
        return ScheduleDefinition(name=name, expression=expression, timezone=zone, jobs=[job])

    schedules = Schedules(client)
    schedules.save(definition(NIGHTLY, "cron(0 3 * * ? *)", "Europe/Paris", "NightlyReport"))
    schedules.save(definition(STOCK, "cron(0/10 * * * ? *)", "UTC", "NightlyReport"))
    schedules.save(
        definition("shop/newsletter", "cron(0 9 ? * MON *)", "Europe/Paris", "Newsletter")
    )
    schedules.pause("shop/newsletter", reason="the list is being cleaned", by="ann@example.com")
    now = int(time.time())
    for back in range(24, 0, -1):
        instant = now - now % 600 - back * 600
        if back == 9:
            redis.zadd("kb:missed", {f"{instant} {STOCK}": instant})
            continue
        _note_tick(client, redis, instant, late_s=95.0 if back == 15 else 0.2, is_dead=back == 4)


def _note_tick(
    client: Client, redis: redis_py.Redis, instant: int, *, late_s: float, is_dead: bool
) -> None:
    """An occurrence in the ledger as it would stand there if it had been delivered at its time, and its end."""
    client.push_tick(STOCK, instant, [{"class": "NightlyReport", "args": []}], by="lambda:r1")
    [entry] = redis.zrangebyscore(f"kb:ticks:{STOCK}", instant, instant)
    noted = json.loads(entry) | {"enqueued_at": instant + late_s}
    redis.zremrangebyscore(f"kb:ticks:{STOCK}", instant, instant)
    redis.zadd(f"kb:ticks:{STOCK}", {json.dumps(noted): instant})
    if is_dead:
        end = JobEnd(
            at=instant,
            jid=noted["jids"][0],
            outcome="dead",
            ended_at=time.time() + 60,
            took_s=0.3,
            error="OSError",
        )
        redis.zadd(f"kb:ends:{STOCK}", {end.to_text(): instant})


def _wait_until_settled(redis: redis_py.Redis) -> None:
    def seen() -> tuple[int, int, int, int]:
        busy = 0
        for identity in redis.smembers("processes"):
            # Ruby's Sidekiq up to 6.4 writes the second one only.
            keys = (identity + b":work", identity + b":workers")
            busy += max(map(redis.hlen, keys))
        return redis.zcard("retry"), redis.zcard("dead"), busy, redis.llen("queue:default")

    wait_until(lambda: seen() == (RETRIES, DEAD, 3, 0), 30, lambda: f"all settled, not {seen()}")
