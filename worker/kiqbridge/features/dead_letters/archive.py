"""The archive of dead jobs: each file is a whole export, which `kiqbridge restore` puts back into `dead`.

A file is named `dead-20261124T001500Z-1f0c….jsonl.gz`. When `write` returns, the disk or S3 has all of it.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kiqbridge.errors import KiqbridgeError
from kiqbridge.features.transfer.file import packed, whole_file
from kiqbridge.features.transfer.form import Chunk, End, Header, Line, Place
from kiqbridge.features.transfer.reading import Read

_S3: Final = "s3://"
_DEAD: Final = Place(kind="set", name="dead")

CONNECT_S: Final = 5
READ_S: Final = 20


class ArchiveFailed(KiqbridgeError):  # noqa: N818 - reads as what happened
    """A file of the archive was not written; nothing may be removed from Redis."""


class DeadArchive:
    """A folder, or a prefix in S3, to which dead jobs are written before they are removed.

    Args:
        place: the setting `dead_archive`: a folder, which is made, or `s3://BUCKET/PREFIX`.
        source: the address of Redis, without a password.
        namespace: prefix of its keys.
    """

    def __init__(self, place: str, *, source: str, namespace: str) -> None:
        self._place = place.rstrip("/")
        self._source, self._namespace = source, namespace
        self._s3: Any = None

    def __str__(self) -> str:
        return self._place

    def write(self, parts: Sequence[Read], now: float) -> str:
        """Write one file, and wait until it is safely there.

        Args:
            parts: members of the dead set and their scores, as they were read.
            now: epoch seconds.

        Returns:
            The name of the file.

        Raises:
            ArchiveFailed: it may not be there.
        """
        number = os.urandom(8).hex()
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        name = f"dead-{at}-{number}.jsonl.gz"
        lines: list[Line] = [
            Header(id=number, at=round(now, 3), source=self._source, namespace=self._namespace),
            *(
                Chunk(number=n, place=_DEAD, members=members, scores=scores)
                for n, (members, scores) in enumerate(parts, 1)
            ),
            End(chunks=len(parts), members=sum(len(members) for members, _ in parts)),
        ]
        try:
            if self._place.startswith(_S3):
                self._put(name, b"".join(map(packed, lines)))
            else:
                _save(Path(self._place), name, lines)
        except ImportError as error:
            raise ArchiveFailed(f"{error}; an archive in S3 needs: kiqbridge[aws]") from error
        except Exception as error:
            raise ArchiveFailed(f"{self._place}: {type(error).__name__}: {error}") from error
        return name

    def _put(self, name: str, text: bytes) -> None:
        if self._s3 is None:
            import boto3  # noqa: PLC0415 - 145 ms, for an archive in S3 alone
            from botocore.config import Config  # noqa: PLC0415 - as above

            self._s3 = boto3.client(
                "s3",
                config=Config(
                    connect_timeout=CONNECT_S,
                    read_timeout=READ_S,
                    retries={"total_max_attempts": 2},
                    max_pool_connections=1,
                ),
            )
        bucket, _, prefix = self._place.removeprefix(_S3).partition("/")
        key = f"{prefix}/{name}".lstrip("/")
        self._s3.put_object(Bucket=bucket, Key=key, Body=text)


def _save(folder: Path, name: str, lines: Sequence[Line]) -> None:
    """For its owner only; under its name only when the disk has it, so that a file of that name is whole."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with whole_file(folder / name) as file:
        for line in lines:
            file.write(line)
