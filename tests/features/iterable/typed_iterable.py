"""Iterable jobs take what `each_iteration` takes behind the item, for both checkers."""

from collections.abc import AsyncIterator, Iterator

from kiqbridge import IterableJob


class Import(IterableJob):
    """An iterable job."""

    def build_enumerator(self, path: str, *, cursor: int | None) -> Iterator[tuple[str, int]]:
        """One row."""
        yield path, cursor or 0

    def each_iteration(self, item: str, path: str) -> None:
        """Its signature behind the item is that of the job."""


class Crawl(IterableJob):
    """An asynchronous iterable job."""

    async def build_enumerator(
        self, host: str, depth: int = 1, *, cursor: str | None
    ) -> AsyncIterator[tuple[str, str]]:
        """One page."""
        yield host, cursor or str(depth)

    async def each_iteration(self, item: str, host: str, depth: int = 1) -> None:
        """On the event loop."""


def enqueue() -> None:
    """Without a loop."""
    Import.perform_async("users.csv")
    Import.perform_in(5, path="users.csv")
    Import.set(queue="low").perform_async("users.csv")
    Import.perform_bulk([("users.csv",)])
    Import.perform_bulk([Import.with_args("users.csv")])
    Crawl.perform_async("example.com", depth=3)


async def enqueue_on_loop() -> None:
    """On a loop."""
    await Import.aperform_async("users.csv")
    await Import.aperform_at(1_700_000_000, "users.csv")


def mistakes() -> None:
    """Each line that ends with the mark has one."""
    Import.set(queue="high").perform_async(5)  # E
    Import.perform_bulk([(5,)])  # E
    Import.perform_async(5)  # E
    Import.perform_async("users.csv", 5)  # E
    Import.perform_in(5)  # E
    Import.perform_async("users.csv", cursor=3)  # E


async def mistakes_on_loop() -> None:
    """As above."""
    await Import.aperform_in(5, 5)  # E
