"""What iterable jobs iterate over: (item, cursor) pairs that can be taken up again (protocol §13.2).

Each function gets the cursor that `build_enumerator` got: None begins, anything else goes on with the
very item that was paired with it. A cursor is what has a JSON text. Nothing is loaded as a whole, and
going on costs the same wherever it is: a file of 10 GB takes as much memory as one of 10 kB.

    numbers, sequence              what has an index
    restartable, pages             what can be asked for what comes after a key; also async_…
    lines, csv_rows                files, by byte offset
    batches                        several items at a time, of each of these; also async_batches
"""

import codecs
import contextlib
import csv
import os
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from io import BufferedIOBase
from itertools import count, islice
from typing import Any, BinaryIO, Literal, TypeVar, overload

T = TypeVar("T")
C = TypeVar("C")

_File = BinaryIO | BufferedIOBase

Source = str | os.PathLike[str] | Callable[[], _File]
"""A file's path, or a function that opens it in binary mode and can `seek`, for gzip or S3."""

BUFFER_BYTES = 1 << 20
"""Read at a time: a file on a network disk costs a round trip for each."""

_BOM = codecs.BOM_UTF8


def sequence(items: Sequence[T], *, cursor: int | None) -> Iterator[tuple[T, int]]:
    """The items of a list, tuple or range; cursor: the index.

    Between two executions it may grow at its end, but must not change before the cursor.
    """
    index = _whole(cursor, "an index")
    # Asked for each time: it may be a lazy sequence, or grow.
    while index < len(items):
        yield items[index], index
        index += 1


def numbers(
    start: int, stop: int | None = None, step: int = 1, *, cursor: int | None
) -> Iterator[tuple[int, int]]:
    """The numbers from `start` up to, without, `stop`; cursor: the number itself.

    Without `stop` it never ends by itself. `start` may differ in the next execution.

    Raises:
        ValueError: `step` is 0.
    """
    if step == 0:
        raise ValueError("step: 0 leads nowhere; write a whole number other than 0")
    first = start if cursor is None else cursor
    for number in count(first, step) if stop is None else range(first, stop, step):
        yield number, number


def restartable(
    restart: Callable[[C | None], Iterable[T]], *, key: Callable[[T], C], cursor: C | None
) -> Iterator[tuple[T, C | None]]:
    """The items of anything that can begin after a key; cursor: the key of the item before.

    Args:
        restart: gets a key and answers with the items behind it, in the same order each time; None
            stands for the beginning.
        key: of an item; no two items may have the same.
        cursor: as `build_enumerator` got it.
    """
    items = iter(restart(cursor))
    with _closing(items):
        for item in items:
            yield item, cursor
            cursor = key(item)


async def async_restartable(
    restart: Callable[[C | None], AsyncIterable[T]], *, key: Callable[[T], C], cursor: C | None
) -> AsyncIterator[tuple[T, C | None]]:
    """The items of an asynchronous source that can begin after a key. Takes the arguments of `restartable`."""
    items = aiter(restart(cursor))
    try:
        async for item in items:
            yield item, cursor
            cursor = key(item)
    finally:
        await _aclose(items)


def pages(
    fetch: Callable[[C | None], Sequence[T]], *, key: Callable[[T], C], cursor: C | None
) -> Iterator[tuple[T, C | None]]:
    """The items of a table or an API that is read page by page; cursor: the key of the item before.

    Args:
        fetch: gets a key and answers with some of the items behind it, such as `SELECT … WHERE id >
            KEY ORDER BY id LIMIT 1000`; with none at the end. None stands for the beginning.
        key: of an item; it must grow from item to item.
        cursor: as `build_enumerator` got it.
    """
    while page := fetch(cursor):
        for item in page:
            yield item, cursor
            cursor = key(item)


async def async_pages(
    fetch: Callable[[C | None], Awaitable[Sequence[T]]], *, key: Callable[[T], C], cursor: C | None
) -> AsyncIterator[tuple[T, C | None]]:
    """The items of a table or an API that an `async def fetch` reads page by page. Takes the arguments of `pages`."""
    while page := await fetch(cursor):
        for item in page:
            yield item, cursor
            cursor = key(item)


def lines(
    source: Source, *, cursor: int | None, encoding: str = "utf-8"
) -> Iterator[tuple[str, int]]:
    r"""The lines of a text file, without their line ends (\n or \r\n); cursor: the byte offset.

    A byte order mark of UTF-8 is left out. Between two executions the file may grow at its end.

    Args:
        source: path, or a function that opens the file in binary mode.
        cursor: as `build_enumerator` got it.
        encoding: any in which a byte 0A is always a line's end: not UTF-16 or UTF-32.

    Raises:
        ValueError: the encoding is none of these, or no line of the file begins at the cursor.
        UnicodeDecodeError: a line is not in that encoding.
    """
    _check_encoding(encoding)
    offset = _whole(cursor, "a byte offset")
    with _open(source) as file:
        _check_position(file, offset)
        for start, raw, _ in _raw_lines(file, offset):
            yield raw.decode(encoding).removesuffix("\n").removesuffix("\r"), start


@overload
def csv_rows(
    source: Source,
    *,
    cursor: int | None,
    header: Literal[True] = True,
    encoding: str = ...,
    **dialect: Any,
) -> Iterator[tuple[dict[str, Any], int]]: ...
@overload
def csv_rows(
    source: Source,
    *,
    cursor: int | None,
    header: Literal[False],
    encoding: str = ...,
    **dialect: Any,
) -> Iterator[tuple[list[str], int]]: ...
def csv_rows(
    source: Source,
    *,
    cursor: int | None,
    header: bool = True,
    encoding: str = "utf-8",
    **dialect: Any,
) -> Iterator[tuple[Any, int]]:
    r"""The rows of a CSV file; cursor: the byte offset at which the row begins.

    Quoted fields may hold line breaks. Rows without any field are left out, as csv.DictReader does.

    Args:
        source: path, or a function that opens the file in binary mode.
        cursor: as `build_enumerator` got it.
        header: the first row names the columns, and each row is a dict, as csv.DictReader gives it:
            missing values are None, further ones a list under None. Else each row is a list.
        encoding: as for `lines`.
        dialect: as for csv.reader, such as `delimiter=";"`.

    Raises:
        ValueError: as for `lines`.
        csv.Error, UnicodeDecodeError: the file is no such CSV. A field longer than 131,072
            characters is refused too, see csv.field_size_limit: most often a quote was not closed.
    """
    _check_encoding(encoding)
    offset = _whole(cursor, "a byte offset")
    with _open(source) as file:
        _check_position(file, offset)
        names: list[str] | None = None
        if header:
            rows = _rows(file, 0, encoding, dialect)
            _, names, behind = next(rows, (0, [], 0))
            offset = max(offset, behind)
        for start, row, _ in _rows(file, offset, encoding, dialect):
            yield row if names is None else _named(names, row), start


def batches(pairs: Iterable[tuple[T, C]], size: int) -> Iterator[tuple[list[T], C]]:
    """The items of any enumerator, up to `size` at a time; cursor: that of the first of them.

    Raises:
        ValueError: `size` is less than 1.
    """
    _check_size(size)
    source = iter(pairs)
    with _closing(source):
        while batch := list(islice(source, size)):
            yield [item for item, _ in batch], batch[0][1]


async def async_batches(
    pairs: AsyncIterable[tuple[T, C]], size: int
) -> AsyncIterator[tuple[list[T], C]]:
    """The items of an asynchronous enumerator, up to `size` at a time. Raises what `batches` raises."""
    _check_size(size)
    source = aiter(pairs)
    try:
        batch: list[tuple[T, C]] = []
        async for pair in source:
            batch.append(pair)
            if len(batch) == size:
                yield [item for item, _ in batch], batch[0][1]
                batch = []
        if batch:
            yield [item for item, _ in batch], batch[0][1]
    finally:
        await _aclose(source)


def _whole(cursor: object, what: str) -> int:
    if cursor is None:
        return 0
    if type(cursor) is not int or cursor < 0:
        raise ValueError(
            f"cursor: {cursor!r} is not {what}, a whole number from 0; if the job enumerated something "
            "else before, delete its progress (the key it-JID) to begin anew"
        )
    return cursor


def _check_encoding(encoding: str) -> None:
    name = codecs.lookup(encoding).name
    if name.startswith(("utf-16", "utf-32", "utf-7")):
        raise ValueError(
            f"encoding: {encoding!r} has line ends that are not the single byte 0A; convert the file, to "
            "UTF-8 for instance"
        )


def _check_size(size: int) -> None:
    if size < 1:
        raise ValueError(f"size: {size!r} is not a number of items from 1")


def _open(source: Source) -> _File:
    return source() if callable(source) else open(source, "rb", buffering=BUFFER_BYTES)  # noqa: PTH123 - the caller closes it; a path may be a str


def _check_position(file: _File, cursor: int) -> None:
    """Refuse to go on in a file that is not the one of the last execution."""
    if cursor:
        file.seek(cursor - 1)
        around = file.read(2)
        if len(around) < 2 or not around.startswith(b"\n"):  # noqa: PLR2004 - one before, one behind
            raise ValueError(
                f"cursor: no line begins at byte {cursor} of {getattr(file, 'name', file)}, so this is "
                "not the file that was read before; put that back, or push the job anew for this one"
            )


def _raw_lines(file: _File, offset: int) -> Iterator[tuple[int, bytes, int]]:
    """Start, bytes and end of each line from an offset on, without a byte order mark."""
    file.seek(offset)
    for raw in file:
        end = offset + len(raw)
        yield offset, raw.removeprefix(_BOM) if offset == 0 else raw, end
        offset = end


def _rows(
    file: _File, offset: int, encoding: str, dialect: dict[str, Any]
) -> Iterator[tuple[int, list[str], int]]:
    """Start of each row, its fields, and where the next one begins."""
    end = offset

    def texts() -> Iterator[str]:
        nonlocal end
        for _, raw, line_end in _raw_lines(file, offset):
            end = line_end
            yield raw.decode(encoding)

    start = offset
    for row in csv.reader(texts(), **dialect):  # takes no line more than the row needs
        if row:
            yield start, row, end
        start = end


def _named(names: list[str], row: list[str]) -> dict[Any, Any]:
    named: dict[Any, Any] = dict(zip(names, row, strict=False))
    named.update(dict.fromkeys(names[len(row) :]))
    if len(row) > len(names):
        named[None] = row[len(names) :]
    return named


@contextlib.contextmanager
def _closing(items: Any) -> Iterator[None]:
    """Close a generator at the end: the file in it must not wait for the garbage collector."""
    try:
        yield
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


async def _aclose(items: Any) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()
