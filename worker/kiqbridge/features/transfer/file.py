"""The file of an export on the disk: written so that a kill at any moment leaves whole lines in front.

A file whose name ends in `.gz` is compressed, each line for itself: so it can be continued after any line.
"""

import contextlib
import errno
import fcntl
import gzip
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from kiqbridge.errors import PayloadError
from kiqbridge.features.transfer.form import Chunk, End, Header, Line, read_line, write_line

_BLOCK: Final = 1 << 16
_GZIP: Final = 31
"""zlib's number for a gzip header."""


class ExportFile:
    """A file that is written line by line; only one process at a time has it open.

    Args:
        path: where; it is made, for its owner only, or continued if it is a file of this user.

    Raises:
        PayloadError: it cannot be written, is a link or another user's, or another process has it open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_packed = path.suffix == ".gz"
        self._file = _open(path)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise PayloadError(
                f"{path}: another process writes it at this moment; wait for its end"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def recover(self) -> "Written":
        """What it has already; a last line that was cut off by a kill is removed.

        Raises:
            PayloadError: something before the last line is damaged, or it is no export; nothing is changed.
        """
        found = Written()
        with os.fdopen(os.dup(self._file), "rb") as reader:
            texts = (_packed_lines if self._is_packed else _plain_lines)(reader)
            for _, written in _read(texts):
                found = written
        os.ftruncate(self._file, found.length)
        os.lseek(self._file, found.length, os.SEEK_SET)
        return found

    def write(self, line: Line) -> None:
        """Append a line.

        Raises:
            PayloadError: the disk does not take it.
        """
        view = memoryview(packed(line) if self._is_packed else write_line(line))
        with self._refusing():
            while view:
                view = view[os.write(self._file, view) :]

    def sync(self) -> None:
        """Wait until the disk has all of it, its name included. Raises as `write`."""
        with self._refusing():
            os.fsync(self._file)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise PayloadError(
                f"{self.path}: {error.strerror}; what the file does not have is still in Redis. Make room, and repeat the "
                "command"
            ) from error


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[ExportFile]:
    """A file that has its name only when the disk has all of it; nothing stays of one that fails.

    Raises:
        PayloadError: as `ExportFile`.
    """
    # The name is not to be guessed, since the folder may be one that all users write to.
    unfinished = path.with_name(f"part-{os.urandom(8).hex()}-{path.name}")
    try:
        with ExportFile(unfinished) as file:
            yield file
            file.sync()
            unfinished.rename(path)
            file.sync()
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a file has.

    Attributes:
        header: None if it has not even one.
        chunks, members: how many.
        is_complete: its end is there.
        length: bytes of its whole lines.
    """

    header: Header | None = None
    chunks: int = 0
    members: int = 0
    is_complete: bool = False
    length: int = 0


def _open(path: Path) -> int:
    """A new file, or one of this user's: another user may have put a link or a file of theirs in its place."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            number = os.open(path, flags)
    except OSError as error:
        what = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise PayloadError(f"{path}: {what}; name a file that can be written") from error
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1:
        return number
    os.close(number)
    raise PayloadError(
        f"{path}: it belongs to another user, has a second name or is no plain file, so others could read or "
        "change the jobs; name another file, or continue as the user who began it"
    )


def packed(line: Line) -> bytes:
    """A line, compressed for itself."""
    return gzip.compress(write_line(line), 6, mtime=0)


def read_lines(stream: IO[bytes]) -> Iterator[Line]:
    """The lines of an export, unpacked already, up to its end.

    Raises:
        PayloadError: a line is damaged, missing or out of place; the lines before it were given.
    """
    number = 0
    texts = ((text, 0) for text in iter(stream.readline, b""))
    try:
        for number, (line, _) in enumerate(_read(texts), 1):  # noqa: B007 - the message has the last one
            yield line
            if isinstance(line, End):
                return
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise PayloadError(
            f"line {number + 1}: the compressed file is cut off or damaged"
        ) from error


def _read(texts: Iterable[tuple[bytes, int]]) -> Iterator[tuple[Line, Written]]:
    """Each line, and what there is up to it: the first is the header, the numbers of the chunks follow each other."""
    written = Written()
    for number, (text, length) in enumerate(texts, 1):
        line = read_line(text, number)
        header, chunks, members = written.header, written.chunks, written.members
        if isinstance(line, Header) is not (number == 1):
            raise PayloadError(f"line {number}: an export has one header, its first line")
        if isinstance(line, Header):
            header = line
        elif isinstance(line, Chunk):
            chunks, members = chunks + 1, members + len(line.members)
            if line.number != chunks:
                raise PayloadError(f"line {number}: chunk {chunks} is missing")
        elif isinstance(line, End) and (line.chunks, line.members) != (chunks, members):
            raise PayloadError(
                f"line {number}: {line.chunks - chunks} chunks are missing before it"
            )
        written = Written(
            header=header,
            chunks=chunks,
            members=members,
            is_complete=isinstance(line, End),
            length=length,
        )
        yield line, written


def _plain_lines(reader: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    length = 0
    while (text := reader.readline()).endswith(b"\n"):
        length += len(text)
        yield text, length


def _packed_lines(reader: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Each line is a gzip file of its own; a last one that is cut off is not given."""
    length, rest = 0, b""
    while True:
        unpacker, text, used = zlib.decompressobj(_GZIP), bytearray(), 0
        while not unpacker.eof:
            block = rest or reader.read(_BLOCK)
            if not block:
                return
            try:
                text += unpacker.decompress(block)
            except zlib.error as error:
                raise PayloadError(f"byte {length}: the compressed file is damaged") from error
            rest = unpacker.unused_data
            used += len(block) - len(rest)
        length += used
        yield bytes(text), length
