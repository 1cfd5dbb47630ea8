"""`kiqbridge export` and `restore`: the jobs of queues and sets into a file, and into the Redis of another server.

Or through a pipe, from the one into the other.
"""

import argparse
import contextlib
import gzip
import hashlib
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, cast

from kiqbridge.api import Operator, open_operator, record_audit
from kiqbridge.commands.acting import REFUSED, confirm, progress
from kiqbridge.commands.arguments import add, add_changing, add_example
from kiqbridge.commands.output import answer, warn, write_json, write_line
from kiqbridge.errors import PayloadError
from kiqbridge.features.transfer import reading
from kiqbridge.features.transfer.file import ExportFile, read_lines, whole_file
from kiqbridge.features.transfer.form import Chunk, End, Header, Line, Place, State
from kiqbridge.features.transfer.form import write_line as as_text
from kiqbridge.features.transfer.reading import count_left
from kiqbridge.features.transfer.saving import ExportWriter, header_of, new_id
from kiqbridge.features.transfer.state import StateSource
from kiqbridge.features.transfer.writing import Restorer
from kiqbridge.wire.amounts import count_text

PIPE: Final = "-"
_SCHEDULE: Final = Place(kind="set", name="schedule")
SET_NAMES: Final = {
    "retry": "retry",
    "retries": "retry",
    "schedule": "schedule",
    "scheduled": "schedule",
    "dead": "dead",
}
_ID_BYTES: Final = 12


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """What is exported, and whether it is taken; or where from it is restored."""
    add_changing(parser, asks=name == "export")
    if name == "restore":
        add(parser, "FILE...", "files of kiqbridge export; - is standard input", dest="files")
        lines = "kiqbridge restore jobs.jsonl.gz", "kiqbridge restore mail.jsonl rest.jsonl"
        add_example(parser, *lines)
        parser.set_defaults(command=_restore)
        return
    add(parser, "[FILE]", "file to write; - is standard output; NAME.gz is compressed")
    add(parser, "--queue NAME...", "this queue")
    add(parser, "--set SET...", "this set", choices=sorted(SET_NAMES), metavar=None)
    add(parser, "--all", "all queues and the three sets")
    text = "remove the jobs that are safely written; after a kill the same command continues"
    add(parser, "--take", text)
    text = "put back the jobs that an export with --take held when it was killed and will not be continued"
    add(parser, "--give-back", text)
    text = "name of the export; restore puts no job of it in twice"
    add(parser, "--id TEXT", text)
    parser.set_defaults(command=_export)
    add_example(
        parser,
        "kiqbridge export jobs.jsonl.gz --queue default --set retry",
        "kiqbridge export moved.jsonl --all --take --yes",
    )


def _export(options: argparse.Namespace) -> int:
    """Write the jobs of queues and sets into a file, or through a pipe into kiqbridge restore.

    With --take they are removed once they are safely written, so that they move. After a kill the same command
    continues: nothing is lost, and nothing is there twice.
    """
    operator = open_operator(via="cli")
    if options.give_back:
        return _give_back(operator, options)
    places = _places(operator, options)
    if options.dry_run:
        sizes = {place: reading.size_of(operator.pool, operator.keys, place) for place in places}
        verb = "would take" if options.take else "would export"
        return _report(options, verb, sizes, count_left(operator.pool, operator.keys, sizes))
    if options.file is None:
        raise PayloadError("name a FILE, or - for a pipe into kiqbridge restore -")
    if options.take:
        return _take(operator, options, places)
    if options.file == PIPE:
        if sys.stdout.isatty():
            raise PayloadError("-: this is a terminal; write | kiqbridge restore -, or name a file")
        # The same for the same command, so that a second run is known where it is restored.
        parts = [operator.pool.address, operator.keys.prefix, *map(str, places)]
        own = hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:24]
        name, pipe = options.id or own, sys.stdout.buffer
        try:
            _write_all(
                operator, places, lambda line: pipe.write(as_text(line)), name, is_all=options.all
            )
            pipe.flush()
        except BrokenPipeError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise PayloadError(
                "-: its reader has ended before the export has; repeat the whole pipe, which continues"
            ) from error
        return 0
    path = Path(options.file)
    if os.path.lexists(path):
        raise PayloadError(f"{path}: it exists; name another file, or remove it")
    with whole_file(path) as file:
        name = options.id or new_id()
        counts = _write_all(operator, places, file.write, name, is_all=options.all)
    return _report(options, "exported", counts, count_left(operator.pool, operator.keys, counts))


def _places(operator: Operator, options: argparse.Namespace) -> Sequence[Place]:
    if options.all:
        return reading.all_places(operator.pool, operator.keys)
    sets = (SET_NAMES[name] for name in options.set)
    places = [Place(kind="queue", name=name) for name in dict.fromkeys(options.queue)]
    places += [Place(kind="set", name=name) for name in dict.fromkeys(sets)]
    if not places:
        raise PayloadError("name what to export: --queue NAME, --set NAME or --all")
    return places


def _write_all(
    operator: Operator,
    places: Sequence[Place],
    write: Callable[[Line], object],
    name: str,
    *,
    is_all: bool,
) -> dict[Place, int]:
    counts = dict.fromkeys(places, 0)
    total = sum(reading.size_of(operator.pool, operator.keys, place) for place in places)
    writer = ExportWriter(operator, write, name)
    with progress("exporting", total) as advance:
        for place in places:
            for members, scores in reading.read_place(operator.pool, operator.keys, place):
                writer.add(place, members, scores)
                counts[place] += len(members)
                advance(writer.members)
    writer.end(is_all=is_all, with_spans=_SCHEDULE in counts)
    return counts


def _take(operator: Operator, options: argparse.Namespace, places: Sequence[Place]) -> int:
    if options.file == PIPE:
        raise PayloadError(
            "--take needs a FILE: what is in a pipe is not safely written; take into a file, and restore it"
        )
    with ExportFile(Path(options.file)) as file:
        written = file.recover()
        if written.is_complete:
            document = {"file": options.file, "complete": True, "count": written.members}
            said = f"{options.file} is complete with {count_text(written.members, 'job')}; nothing was taken now. "
            return answer(
                options, document, [said + "Name another file to take what has come since"]
            )
        sizes = {place: reading.size_of(operator.pool, operator.keys, place) for place in places}
        held = reading.find_held(operator.pool, operator.keys)
        if held is not None and (written.header is None or held.export != written.header.id):
            raise reading.held_by_another(held)
        where = ", ".join(str(place) for place, size in sizes.items() if size)
        count = count_text(sum(sizes.values()), "job")
        if where and not confirm(f"Take {count} out of {where} into {file.path}?", options):
            return REFUSED
        header = written.header or header_of(operator, options.id or new_id())
        if written.header is None:
            file.write(header)
            file.sync()
        name = f"{file.path.absolute()} on {socket.gethostname()}"
        pool, keys = operator.pool, operator.keys
        state = StateSource(pool=pool, keys=keys, takes=True)
        taker = reading.Taker(
            pool=pool, keys=keys, export=header.id, file=name, state=state, is_all=options.all
        )
        counts = dict.fromkeys(places, 0)
        try:
            with progress("taking", sum(sizes.values())) as advance:
                for place, number in taker.take(file, written, sizes):
                    counts[place] = counts.get(place, 0) + number
                    advance(sum(counts.values()))
        finally:  # also of a run that is interrupted: what it has taken is gone
            _record(operator, "export --take", counts, f"to {name}")
    left = {**_batches_left(state.left), **count_left(pool, keys, counts)}
    return _report(options, "took", counts, left)


def _give_back(operator: Operator, options: argparse.Namespace) -> int:
    held = reading.find_held(operator.pool, operator.keys)
    if held is None:
        return answer(options, {"given_back": 0}, ["No export holds anything."])
    place, count = held.chunk.place, count_text(len(held.chunk.members), "job")
    question = (
        f"Put {count} back into {place}? An export to {held.file} holds them; it must not run any more, and if its "
        "file has them already, they would be there twice."
    )
    if options.dry_run or not confirm(question, options):
        write_line(f"{count} of {place}, held by an export to {held.file}")
        return 0 if options.dry_run else REFUSED
    moved = reading.give_back(operator.pool, operator.keys, held)
    _record(operator, "export --give-back", {place: moved}, f"held for {held.file}")
    said = f"put back {count_text(moved, 'job')} into {place}"
    return answer(options, {"given_back": moved}, [said])


def _batches_left(left: Mapping[str, int]) -> dict[str, int]:
    """Lines of the report: batches that were not taken as a whole, and their pending jobs, each with its number."""
    if not left:
        return {}
    return {
        f"batches with jobs that are still there, such as {next(iter(left))}": len(left),
        "pending jobs of these batches": sum(left.values()),
    }


def _report(
    options: argparse.Namespace, verb: str, counts: Mapping[Place, int], left: Mapping[str, int]
) -> int:
    total = sum(counts.values())
    document = {
        "dry_run": options.dry_run,
        "file": options.file,
        "take": options.take,
        "count": total,
        "places": _place_rows(counts),
        "left": [{"name": what, "count": count} for what, count in left.items()],
    }
    to = f" to {options.file}" if options.file else ""
    lines = [f"{verb} {count_text(total, 'job')}{to}", *_lines_of(counts)]
    if left:
        lines += ["left there:" if options.take else "not exported:", *_lines_of(left)]
    return answer(options, document, lines)


def _place_rows(counts: Mapping[Place, int]) -> list[dict[str, Any]]:
    """How many of each queue and set, for JSON."""
    return [{"kind": each.kind, "name": each.name, "count": n} for each, n in counts.items()]


def _lines_of(counts: Mapping[Any, int]) -> list[str]:
    """The same for people, also of what was left."""
    return [f"  {what}: {count:,}" for what, count in counts.items() if count]


def _record(operator: Operator, action: str, counts: Mapping[Place, int], file: str) -> None:
    """Add one entry to the audit log for what an export or a restore moved; none if it moved nothing.

    Args:
        operator: in whose name.
        action: the command and its option.
        counts: jobs of each queue and set.
        file: to or from which.
    """
    moved = {place: count for place, count in counts.items() if count}
    names = [each.name if each.kind == "set" else f"{each.kind}:{each.name}" for each in moved]
    detail = ", ".join(f"{place}: {count:,}" for place, count in moved.items())
    record_audit(operator, action, ", ".join(names), f"{file} ({detail})", sum(moved.values()))


def _restore(options: argparse.Namespace) -> int:
    """Put the jobs of an export into the queues and sets of this Redis, behind the jobs that are there.

    Its progress is kept there for 30 days: a repetition adds only the jobs that are missing.

    Raises:
        PayloadError: the file is damaged or not complete; what stands before that place was put in.
    """
    operator, files = open_operator(via="cli"), list(dict.fromkeys(options.files))
    if len(files) > 1:
        if PIPE in files:
            raise PayloadError("-: a pipe cannot be restored together with files")
        for file in files:  # before anything is put in
            with _opened(file) as stream:
                _header_in(file, read_lines(stream))
    documents = [_restore_file(operator, options, file) for file in files]
    if options.json:
        several = {
            "dry_run": options.dry_run,
            "count": sum(each["count"] for each in documents),
            "known": sum(each["known"] for each in documents),
            "files": documents,
        }
        write_json(several if len(files) > 1 else documents[0])
    return 0


def _restore_file(operator: Operator, options: argparse.Namespace, file: str) -> dict[str, Any]:
    """What became of one file."""
    with _opened(file) as stream:
        lines = read_lines(stream)
        header = _header_in(file, lines)
        restorer = Restorer(operator.pool, operator.keys, header.id, dry_run=options.dry_run)
        is_complete = False
        try:
            with progress("restoring", None) as advance:
                for line in lines:
                    if isinstance(line, Chunk):
                        restorer.put(line)
                        advance(restorer.known + sum(restorer.restored.values()))
                    elif isinstance(line, State):
                        restorer.put_state(line)
                    is_complete = isinstance(line, End)
        finally:  # also of a file that is damaged: what stands before that place was put in
            if not options.dry_run:
                _record(operator, "restore", restorer.restored, f"from {file}")
    if is_complete:
        restorer.check_end()
    total = sum(restorer.restored.values())
    document = {
        "dry_run": options.dry_run,
        **({"file": file} if len(options.files) > 1 else {}),
        "id": header.id,
        "source": header.source,
        "count": total,
        "known": restorer.known,
        "places": _place_rows(restorer.restored),
        "without_batch": sum(restorer.without_batch.values()),
    }
    _warn_of_state(restorer)
    if not options.json:
        verb = "would put in" if options.dry_run else "put in"
        before = f"; {count_text(restorer.known, 'job')} of it were put in before"
        known = before if restorer.known else ""
        write_line(f"{verb} {count_text(total, 'job')} at {operator.pool.address}{known}")
        for text in _lines_of(restorer.restored):
            write_line(text)
    elif not is_complete:
        write_json(document)
    if not is_complete:
        raise PayloadError(
            f"{file}: it ends before its end, as its export was not finished. What it has was put in; "
            "finish the export by the same command, and restore it again: nothing is put in twice"
        )
    return document


def _warn_of_state(restorer: Restorer) -> None:
    if restorer.without_batch:
        count = sum(restorer.without_batch.values())
        warn(
            f"{count_text(count, 'job')} that {'was' if count == 1 else 'were'} put in belong to "
            f"{count_text(len(restorer.without_batch), 'batch')} that this server does not know, such as "
            f"{next(iter(restorer.without_batch))}: their ends are not counted, and no callback follows. The file has "
            "no batches if an earlier version wrote it, or they were forgotten before"
        )
    if restorer.locks_of_others:
        warn(
            f"{count_text(restorer.locks_of_others, 'lock')} of unique jobs that were put in belong to other jobs of "
            "this server already: both run"
        )


def _header_in(file: str, lines: Iterator[Line]) -> Header:
    header = next(lines, None)
    if not isinstance(header, Header):
        raise PayloadError(f"{file}: it is empty, or no export of Kiqbridge")
    return header


@contextlib.contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == PIPE:
        yield sys.stdin.buffer
        return
    open_file = gzip.open if name.endswith(".gz") else Path.open
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(open_file(Path(name), "rb"))
        except OSError as error:
            raise PayloadError(f"{name}: {error.strerror}") from error
        yield cast("IO[bytes]", stream)
