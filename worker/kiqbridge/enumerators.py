"""What iterable jobs iterate over; see `kiqbridge.features.iterable.enumerators` (docs/how_to/iterable.md)."""

from kiqbridge.features.iterable.enumerators import (
    async_batches,
    async_pages,
    async_restartable,
    batches,
    csv_rows,
    lines,
    numbers,
    pages,
    restartable,
    sequence,
)

__all__ = [
    "async_batches", "async_pages", "async_restartable", "batches", "csv_rows", "lines", "numbers",
    "pages", "restartable", "sequence",
]  # fmt: skip
