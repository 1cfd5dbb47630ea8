"""What users write: neither mypy --strict nor pyright in its strict mode has anything to say about it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import ClassVar
from uuid import UUID

from kiqbridge import ArgumentMismatch, Client, Job, JobHandle, job

DAY = date(2026, 1, 1)


@dataclass
class Line:
    """A dataclass as an argument."""

    product: UUID
    price: Decimal


@job
def ping() -> None:
    """Without parentheses, without arguments."""


@job(queue="mailers", retry=5, tags=["mail"], on_error={ArgumentMismatch: "retry"})
def send(invoice_id: int, copy: bool = False) -> str:
    """With options."""
    return f"{invoice_id} {copy}"


@job(cron="0 3 * * *", timezone="Europe/Paris", timeout_s=60, attributes={"team": "billing"})
async def nightly(day: date | None = None) -> None:
    """With a schedule."""


@job
def order(customer: UUID, lines: list[Line], at: datetime) -> None:
    """With values that are converted."""


@job
def many(first: str, *rest: int) -> None:
    """With any number of arguments."""


class Report(Job):
    """A class."""

    queue: ClassVar[str] = "low"

    def perform(self, day: date, title: str = "Report") -> str:
        """Its jid and its end are to be asked for."""
        return "" if self.interrupted else f"{self.jid} {day} {title}"


class SubReport(Report):
    """A subclass of a job."""


class Fetch(Job):
    """An `async def` class."""

    async def perform(self, url: str) -> None:
        """On the event loop."""


def enqueue(customer: UUID, rows: Sequence[tuple[int, bool]], days: Iterable[date]) -> None:
    """Without a loop."""
    jid: str | None = send.perform_async(42)
    handle: JobHandle | None = Report.perform_async(DAY)
    if handle is not None and handle.status() == "done":
        print(handle.result(timeout=5.0), handle.job(), handle.cancel())
        if (found := handle.job()) is not None:
            print(found.retry() or found.delete())
    text: str = send(42, copy=True)
    print(jid, text)
    ping.perform_async()
    send.perform_async(42, copy=True)
    send.perform_in(60, 42, True)
    send.perform_in(timedelta(hours=1), 42)
    send.perform_at(1_700_000_000.5, 42)
    send.perform_at(datetime.now(UTC), 42, copy=True)
    returned: str = send.perform_inline(42)
    print(returned)
    nightly.perform_async()
    nightly.perform_async(DAY)
    order.perform_async(customer, [Line(customer, Decimal("1.50"))], datetime.now(UTC))
    many.perform_async("a", 1, 2, 3)

    send.set(queue="high", wait=timedelta(minutes=5)).perform_async(42, copy=True)
    send.set(retry=False).set(tags=["x"]).perform_in(5, 42)
    send.set(attributes={"team": "billing"}).perform_inline(42)

    jids: list[str | None] = send.perform_bulk([(1, True), (2, False)])
    print(jids)
    send.perform_bulk(rows, batch_size=100, at=[1.0, 2.0])
    send.perform_bulk([[1], [2, True]])
    send.perform_bulk(send.with_args(number, copy=True) for number in range(3))
    send.set(queue="high").perform_bulk([(1, True)], spread_interval=60)
    send.set(queue="high").perform_bulk([[1]])
    send.set(queue="high").perform_bulk([send.with_args(1)])

    Report.perform_async(DAY)
    Report.perform_async(DAY, title="Sales")
    Report.perform_in(timedelta(days=1), DAY, "Sales")
    Report.perform_at(datetime.now(UTC), day=DAY)
    Report.perform_inline(DAY)
    Report.set(queue="high").perform_async(DAY, "Sales")
    Report.perform_bulk([(DAY, "Sales")])
    Report.perform_bulk([[DAY]])
    Report.perform_bulk(Report.with_args(day) for day in days)
    SubReport.perform_async(DAY)
    Fetch.perform_async("https://example.com")


async def enqueue_on_loop(client: Client) -> list[str | None]:
    """On a loop."""
    jid: str | None = await send.aperform_async(42, copy=True)
    handle = await client.apush({"class": send, "args": [42]})
    print(jid, handle and await handle)
    await send.aperform_in(timedelta(hours=1), 42)
    await send.aperform_at(datetime.now(UTC), 42)
    await send.set(queue="high").aperform_async(42)
    await send.set(queue="high").aperform_bulk([(1, True)])
    await Report.aperform_async(DAY)
    await Report.aperform_in(5, DAY, title="Sales")
    await Report.aperform_bulk([(DAY, "Sales")])
    await client.apush({"class": send, "args": [42]})
    await client.apush_bulk({"class": send, "args": [[1], [2]]})
    return await send.aperform_bulk([send.with_args(1)], batch_size=10)
