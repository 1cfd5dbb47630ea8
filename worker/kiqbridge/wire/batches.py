"""Batches have a limit in bytes as well as in number: a hundred jobs may be 20 kB, or a gigabyte."""

from collections.abc import Iterator, Sequence

BATCH_BYTES = 1_000_000
"""Bytes in one call that is made of many jobs. A larger one is not faster, and memory holds it several times."""


def count_by_bytes(sizes: Sequence[int], max_bytes: int) -> int:
    """How many of the first parts make up to `max_bytes` bytes; at least one, if there is any."""
    left = max_bytes
    for count, size in enumerate(sizes):
        left -= size
        if left < 0 and count:
            return count
    return len(sizes)


def slices_by_bytes(texts: Sequence[bytes], max_bytes: int) -> Iterator[slice]:
    """Slices of texts in their order, each of up to `max_bytes` bytes, or of one text."""
    if sum(map(len, texts)) <= max_bytes:
        if texts:
            yield slice(0, len(texts))
        return
    sizes = [len(text) for text in texts]
    start = 0
    while start < len(texts):
        count = count_by_bytes(sizes[start:], max_bytes)
        yield slice(start, start + count)
        start += count
