"""`kiqbridge restore`: puts what `kiqbridge export` wrote into a server."""

import argparse
import contextlib
import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from kiqbridge.api import Operator
from kiqbridge.commands.help_text import add_example
from kiqbridge.commands.moments import count_text
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.commands.progress import progress
from kiqbridge.commands.shards import one_shard
from kiqbridge.errors import PayloadError
from kiqbridge.transfer.file import read_lines
from kiqbridge.transfer.form import Chunk, End, Header
from kiqbridge.transfer.writing import Restorer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where from."""
    parser.add_argument("file", metavar="FILE", help="what kiqbridge export wrote; - is a pipe")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check the whole file, and count what would be put in",
    )
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    add_example(parser, "kiqbridge restore jobs.jsonl.gz")


def run(options: argparse.Namespace) -> int:
    """Put it in.

    Raises:
        PayloadError: the file is damaged or not complete; what stands before that place was put in.
    """
    operator = one_shard(options)
    with _opened(options.file) as stream:
        lines = read_lines(stream)
        header = next(lines, None)
        if not isinstance(header, Header):
            raise PayloadError(f"{options.file}: it is empty, or no export of Kiqbridge")
        restorer = Restorer(operator.pool, operator.keys, header.id, dry_run=options.dry_run)
        is_complete = False
        with progress("restoring", None) as advance:
            for line in lines:
                if isinstance(line, Chunk):
                    restorer.put(line)
                    advance(restorer.known + sum(restorer.restored.values()))
                is_complete = isinstance(line, End)
    if is_complete:
        restorer.check_end()
    _report(options, operator, header, restorer)
    if not is_complete:
        raise PayloadError(
            f"{options.file}: it ends before its end, as its export was not finished. What it has was put in; "
            "finish the export by the same command, and restore it again: nothing is put in twice"
        )
    return 0


@contextlib.contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdin.buffer
        return
    with contextlib.ExitStack() as stack:
        try:
            stream = (
                stack.enter_context(gzip.open(name, "rb"))
                if name.endswith(".gz")
                else stack.enter_context(Path(name).open("rb"))
            )
        except OSError as error:
            raise PayloadError(f"{name}: {error.strerror}") from error
        yield cast("IO[bytes]", stream)


def _report(
    options: argparse.Namespace, operator: Operator, header: Header, restorer: Restorer
) -> None:
    total = sum(restorer.restored.values())
    if options.json:
        write_json(
            {
                "dry_run": options.dry_run,
                "id": header.id,
                "source": header.source,
                "count": total,
                "known": restorer.known,
                "places": [
                    {"kind": place.kind, "name": place.name, "count": count}
                    for place, count in restorer.restored.items()
                ],
            }
        )
        return
    verb = "would put in" if options.dry_run else "put in"
    known = (
        f"; {count_text(restorer.known, 'job')} of it were put in before" if restorer.known else ""
    )
    write_line(f"{verb} {count_text(total, 'job')} at {operator.pool.address}{known}")
    for place, count in restorer.restored.items():
        if count:
            write_line(f"  {place}: {count:,}")
