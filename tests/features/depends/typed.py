"""What the worker fills has the type that its provider returns or yields, for both checkers."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import assert_type
from uuid import UUID

from kiqbridge import Depends, job


@dataclass
class Line:
    """What a provider yields."""

    product: UUID
    price: Decimal


def connect() -> Iterator[Line]:
    """A provider with clean-up."""
    yield Line(UUID(int=1), Decimal(1))


async def connect_later() -> AsyncIterator[bytes]:
    """One for jobs on the loop."""
    yield b""


async def count() -> int:
    """One that is awaited."""
    return 1


@job
def fill(
    number: int, line: Line = Depends(connect), when: timedelta = Depends(timedelta)
) -> Decimal:
    """With what the worker fills."""
    return line.price * number * when.days


@job
async def fill_later(
    *, text: bytes = Depends(connect_later), number: int = Depends(count)
) -> bytes:
    """The same on the loop."""
    assert_type(Depends(connect), Line)
    return text * number


def use() -> None:
    """What is filled is not passed."""
    fill.perform_async(1)
    fill_later.perform_in(5)
