"""Mistakes that both checkers find: each line that ends with the mark has one, and no other line has."""

from datetime import date, timedelta
from uuid import UUID

from kiqbridge import Client, Job, job

DAY = date(2026, 1, 1)


@job(queue="mailers")
def send(invoice_id: int, copy: bool = False) -> str:
    """A function."""
    return f"{invoice_id} {copy}"


@job
def other(name: str) -> None:
    """Another function."""


@job
def order(customer: UUID, day: date) -> None:
    """With values that are converted."""


class Report(Job):
    """A class."""

    def perform(self, day: date, title: str = "Report") -> None:
        """Nothing."""


class Unfinished(Job):
    """No `perform`."""


@job(max_retries=3)  # E
def misspelt() -> None:
    """An option of another library."""


@job(timeout="5m")  # E
def misspelt_timeout() -> None:
    """An option of another library."""


@job(retry="often")  # E
def wrong_option() -> None:
    """A wrong type."""


@job(tags="mail")  # E
def wrong_tags() -> None:
    """A text in place of a list."""


@job(pool="fiber")  # E
def wrong_pool() -> None:
    """No such pool."""


@job(on_max_run="again")  # E
def wrong_end() -> None:
    """No such end."""


@job(cron=5)  # E
def wrong_schedule() -> None:
    """No crontab line."""


@job(check_arguments="no")  # E
def wrong_switch() -> None:
    """No switch."""


class WrongQueue(Job):
    """A wrong attribute."""

    queue = 5  # E

    def perform(self) -> None:
        """Nothing."""


def functions(day: date) -> None:
    """Calls of functions."""
    send.perform_async("42")  # E
    send.perform_async()  # E
    send.perform_async(42, True, 3)  # E
    send.perform_async(42, copies=True)  # E
    send.perform_async(42, copy="yes")  # E
    send("42")  # E
    send.perform_in("60", 42)  # E
    send.perform_in(timedelta(1), "42")  # E
    send.perform_in(60)  # E
    send.perform_at("tomorrow", 42)  # E
    send.perform_at(timedelta(hours=1), 42)  # E
    send.perform_inline(None)  # E
    send.perfom_async(42)  # E
    order.perform_async("5d0a54ab", day)  # E
    order.perform_async(day, day)  # E
    number: int = send.perform_async(42)  # E
    print(number)
    print(send(42) + 1)  # E


def options() -> None:
    """Calls of `set`."""
    send.set(que="high").perform_async(42)  # E
    send.set(max_retries=3).perform_async(42)  # E
    send.set(queue=5).perform_async(42)  # E
    send.set(wait="5m").perform_async(42)  # E
    send.set(tags="mail").perform_async(42)  # E
    send.set(queue="high").perform_async("42")  # E
    send.set(queue="high").perform_in(5)  # E
    Report.set(quue="high").perform_async(DAY)  # E
    Report.set(queue="high").perform_async(5)  # E


def bulk() -> None:
    """Calls of `perform_bulk`."""
    send.perform_bulk([("1", True)])  # E
    send.perform_bulk([(1, True, 2)])  # E
    send.perform_bulk([1, 2])  # E
    send.perform_bulk([other.with_args("Ada")])  # E
    send.perform_bulk([send.with_args("1")])  # E
    send.perform_bulk([(1, True)], batchsize=10)  # E
    send.perform_bulk([(1, True)], at="now")  # E
    send.set(queue="high").perform_bulk([("1", True)])  # E
    Report.perform_bulk([(5, "Sales")])  # E
    Report.perform_bulk([Report.with_args(5)])  # E


def classes() -> None:
    """Calls of classes."""
    Report.perform_async("2026-01-01")  # E
    Report.perform_async()  # E
    Report.perform_async(DAY, titel="Sales")  # E
    Report.perform_in("5", DAY)  # E
    Report.perform_in(5, 5)  # E
    Report.perform_at(5, DAY, 6)  # E
    Report.perform_inline(5)  # E
    Unfinished.perform_async()  # E


async def on_loop(client: Client) -> None:
    """Calls in `async` code."""
    await send.perform_async(42)  # E
    await send.aperform_async("42")  # E
    await send.aperform_in("5", 42)  # E
    await send.aperform_bulk([("1", True)])  # E
    await send.set(queue="high").aperform_async("42")  # E
    await Report.aperform_async(5)  # E
    (await send.aperform_async(42)).upper()  # E
    send.aperform_async(42).upper()  # E
    await client.apush("send")  # E
