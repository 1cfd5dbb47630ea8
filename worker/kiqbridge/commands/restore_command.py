"""`kiqbridge restore`: puts what `kiqbridge export` wrote into a server."""

import argparse
import contextlib
import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, cast

from kiqbridge.api import Operator, open_operator
from kiqbridge.commands.acting import progress, record_transfer
from kiqbridge.commands.arguments import add_changing, add_example, add_option
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.errors import PayloadError
from kiqbridge.transfer.file import read_lines
from kiqbridge.transfer.form import Chunk, End, Header, Line
from kiqbridge.transfer.writing import Restorer
from kiqbridge.wire.amounts import count_text

PIPE: Final = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where from."""
    add_option(parser, "files", "FILE", "what kiqbridge export wrote; - is a pipe", nargs="+")
    add_changing(parser)
    add_example(
        parser,
        "kiqbridge restore jobs.jsonl.gz",
        "kiqbridge restore mail.jsonl rest.jsonl",
    )


def run(options: argparse.Namespace) -> int:
    """Put it in.

    Raises:
        PayloadError: the file is damaged or not complete; what stands before that place was put in.
    """
    operator, files = open_operator(via="cli"), list(dict.fromkeys(options.files))
    if len(files) > 1:
        if PIPE in files:
            raise PayloadError("-: a pipe cannot be restored together with files")
        for file in files:  # before anything is put in
            with _opened(file) as stream:
                _header(file, read_lines(stream))
    documents = [_restore(operator, options, file) for file in files]
    if options.json:
        several = {
            "dry_run": options.dry_run,
            "count": sum(each["count"] for each in documents),
            "known": sum(each["known"] for each in documents),
            "files": documents,
        }
        write_json(several if len(files) > 1 else documents[0])
    return 0


def _restore(operator: Operator, options: argparse.Namespace, file: str) -> dict[str, Any]:
    """What became of one file."""
    with _opened(file) as stream:
        lines = read_lines(stream)
        header = _header(file, lines)
        restorer = Restorer(operator.pool, operator.keys, header.id, dry_run=options.dry_run)
        is_complete = False
        try:
            with progress("restoring", None) as advance:
                for line in lines:
                    if isinstance(line, Chunk):
                        restorer.put(line)
                        advance(restorer.known + sum(restorer.restored.values()))
                    is_complete = isinstance(line, End)
        finally:  # also of a file that is damaged: what stands before that place was put in
            if not options.dry_run:
                record_transfer(operator, "restore", restorer.restored, f"from {file}")
    if is_complete:
        restorer.check_end()
    document = _document(options, file, header, restorer)
    if not options.json:
        _write(options, operator, restorer)
    elif not is_complete:
        write_json(document)
    if not is_complete:
        raise PayloadError(
            f"{file}: it ends before its end, as its export was not finished. What it has was put in; "
            "finish the export by the same command, and restore it again: nothing is put in twice"
        )
    return document


def _header(file: str, lines: Iterator[Line]) -> Header:
    header = next(lines, None)
    if not isinstance(header, Header):
        raise PayloadError(f"{file}: it is empty, or no export of Kiqbridge")
    return header


@contextlib.contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == PIPE:
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


def _document(
    options: argparse.Namespace,
    file: str,
    header: Header,
    restorer: Restorer,
) -> dict[str, Any]:
    several = {"file": file} if len(options.files) > 1 else {}
    return {
        "dry_run": options.dry_run,
        **several,
        "id": header.id,
        "source": header.source,
        "count": sum(restorer.restored.values()),
        "known": restorer.known,
        "places": [
            {"kind": place.kind, "name": place.name, "count": count}
            for place, count in restorer.restored.items()
        ],
    }


def _write(options: argparse.Namespace, operator: Operator, restorer: Restorer) -> None:
    total = count_text(sum(restorer.restored.values()), "job")
    verb = "would put in" if options.dry_run else "put in"
    known = (
        f"; {count_text(restorer.known, 'job')} of it were put in before" if restorer.known else ""
    )
    write_line(f"{verb} {total} at {operator.pool.address}{known}")
    for place, count in restorer.restored.items():
        if count:
            write_line(f"  {place}: {count:,}")
