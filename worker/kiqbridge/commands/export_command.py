"""`kiqbridge export`: queues and sets into a file, or through a pipe into `kiqbridge restore`."""

import argparse
import hashlib
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kiqbridge.api import Operator, open_operator
from kiqbridge.commands.acting import confirm, progress, record_transfer
from kiqbridge.commands.arguments import add_changing, add_example, add_list, add_option, add_switch
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.errors import PayloadError
from kiqbridge.transfer.file import ExportFile, Written
from kiqbridge.transfer.form import Chunk, End, Header, Line, Place
from kiqbridge.transfer.form import write_line as text_of_line
from kiqbridge.transfer.reading import (
    FIRST_COUNT,
    Held,
    Taker,
    all_places,
    find_held,
    give_back,
    held_by_another,
    next_count,
    read_place,
    size_of,
)
from kiqbridge.wire.amounts import count_text

PIPE: Final = "-"
SET_NAMES: Final = {
    "retry": "retry",
    "retries": "retry",
    "schedule": "schedule",
    "scheduled": "schedule",
    "dead": "dead",
}
_ID_BYTES: Final = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is exported, and whether it is taken."""
    add_option(parser, "file", "FILE", "where to; - is a pipe; NAME.gz is compressed", nargs="?")
    add_list(parser, "--queue", "NAME", "this queue")
    parser.add_argument(
        "--set", action="append", default=[], choices=sorted(SET_NAMES), help="this set"
    )
    add_switch(parser, "--all", "all queues and the three sets")
    add_switch(
        parser, "--take", "remove what is safely written; after a kill the same command continues"
    )
    add_switch(
        parser,
        "--give-back",
        "put back what an export with --take held when it was killed for good",
    )
    add_option(
        parser, "--id", "TEXT", "name of the export, under which restore puts nothing in twice"
    )
    add_changing(parser, asks=True)
    add_example(
        parser,
        "kiqbridge export jobs.jsonl.gz --queue default --set retry",
        "kiqbridge export moved.jsonl --all --take --yes",
    )


def run(options: argparse.Namespace) -> int:
    """Export, count, or give back."""
    operator = open_operator(via="cli")
    if options.give_back:
        return _give_back(operator, options)
    places = _places(operator, options)
    if options.dry_run:
        sizes = {place: size_of(operator.pool, operator.keys, place) for place in places}
        return _report(options, "would take" if options.take else "would export", sizes)
    if options.file is None:
        raise PayloadError("name a FILE, or - for a pipe into kiqbridge restore -")
    if options.take:
        return _take(operator, options, places)
    return _copy(operator, options, places)


def _places(operator: Operator, options: argparse.Namespace) -> Sequence[Place]:
    if options.all:
        return all_places(operator.pool, operator.keys)
    places = [
        *(Place(kind="queue", name=name) for name in dict.fromkeys(options.queue)),
        *(
            Place(kind="set", name=name)
            for name in dict.fromkeys(map(SET_NAMES.get, options.set))
            if name
        ),
    ]
    if not places:
        raise PayloadError("say what is to be exported: --queue NAME, --set NAME or --all")
    return places


def _copy(operator: Operator, options: argparse.Namespace, places: Sequence[Place]) -> int:
    if options.file == PIPE:
        return _pipe(operator, options, places)
    path = Path(options.file)
    if path.exists():
        raise PayloadError(f"{path}: it exists; name another file, or remove it")
    unfinished = path.with_name(f"{path.stem}.part{path.suffix}")
    with ExportFile(unfinished) as file:
        file.clear()
        header = _header(operator, options.id or os.urandom(_ID_BYTES).hex())
        counts = _write_all(operator, places, header, file.write)
        file.sync()
        unfinished.rename(path)
        file.sync()
    return _report(options, "exported", counts)


def _pipe(operator: Operator, options: argparse.Namespace, places: Sequence[Place]) -> int:
    if sys.stdout.isatty():
        raise PayloadError("-: this is a terminal; write | kiqbridge restore -, or name a file")
    # The same for the same command, so that a second run is known where it is restored.
    parts = [operator.pool.address, operator.keys.prefix, *map(str, places)]
    name = (
        options.id or hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:24]
    )

    def write(line: Line) -> None:
        sys.stdout.buffer.write(text_of_line(line))

    try:
        _write_all(operator, places, _header(operator, name), write)
        sys.stdout.buffer.flush()
    except BrokenPipeError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise PayloadError(
            "-: its reader has ended before the export has; repeat the whole pipe, which continues"
        ) from error
    return 0


def _write_all(
    operator: Operator, places: Sequence[Place], header: Header, write: Callable[[Line], None]
) -> dict[Place, int]:
    counts = dict.fromkeys(places, 0)
    total = sum(size_of(operator.pool, operator.keys, place) for place in places)
    write(header)
    with progress("exporting", total) as advance:
        number = 0
        for number, chunk in enumerate(_chunks(operator, places), 1):
            write(
                Chunk(number=number, place=chunk.place, members=chunk.members, scores=chunk.scores)
            )
            counts[chunk.place] += len(chunk.members)
            advance(sum(counts.values()))
    write(End(chunks=number, members=sum(counts.values())))
    return counts


def _chunks(operator: Operator, places: Sequence[Place]) -> Iterator[Chunk]:
    for place in places:
        for members, scores in read_place(operator.pool, operator.keys, place):
            yield Chunk(number=0, place=place, members=members, scores=scores)


def _header(operator: Operator, name: str) -> Header:
    return Header(
        id=name,
        at=round(time.time(), 3),
        source=operator.pool.address,
        namespace=operator.keys.prefix,
    )


def _take(operator: Operator, options: argparse.Namespace, places: Sequence[Place]) -> int:
    if options.file == PIPE:
        raise PayloadError(
            "--take needs a FILE: what is in a pipe is not safely written; take into a file, and restore it"
        )
    with ExportFile(Path(options.file)) as file:
        written = file.recover()
        if written.is_complete:
            return _report_complete(options, written)
        sizes = {place: size_of(operator.pool, operator.keys, place) for place in places}
        held = find_held(operator.pool, operator.keys)
        if held is not None and (written.header is None or held.export != written.header.id):
            raise held_by_another(held)
        where = ", ".join(str(place) for place, size in sizes.items() if size)
        count = count_text(sum(sizes.values()), "job")
        if where and not confirm(f"Take {count} out of {where} into {file.path}?", options):
            return 1
        if written.header is None:
            written = Written(header=_header(operator, options.id or os.urandom(_ID_BYTES).hex()))
            file.write(_header_of(written))
            file.sync()
        counts = _take_all(operator, file, written, sizes)
    return _report(options, "took", counts)


def _take_all(
    operator: Operator, file: ExportFile, written: Written, sizes: Mapping[Place, int]
) -> dict[Place, int]:
    """Take as many as there were when it began, so that it ends however fast jobs are pushed."""
    export = _header_of(written).id
    name = f"{file.path.absolute()} on {socket.gethostname()}"
    taker = Taker(pool=operator.pool, keys=operator.keys, export=export, file=name)
    number, members = written.chunks, written.members
    counts = dict.fromkeys(sizes, 0)
    taken = Counter[Place]()
    earlier = find_held(operator.pool, operator.keys)
    if earlier is not None:  # of a run which was killed
        if earlier.chunk.number > number:
            number, members = _keep(file, earlier, members)
        taker.release(earlier)
        taken[earlier.chunk.place] = len(earlier.chunk.members)
    try:
        with progress("taking", sum(sizes.values())) as advance:
            for place, size in sizes.items():
                count = FIRST_COUNT
                while counts[place] < size:
                    held = taker.hold(place, number + 1, min(count, size - counts[place]))
                    if held is None:
                        break
                    number, members = _keep(file, held, members)
                    taker.release(held)
                    counts[place] += len(held.chunk.members)
                    count = next_count(held.chunk.members)
                    advance(sum(counts.values()))
    finally:  # also of a run that is interrupted: what it has taken is gone
        taken.update(counts)
        record_transfer(operator, "export --take", taken, f"to {name}")
    file.write(End(chunks=number, members=members))
    file.sync()
    return counts


def _keep(file: ExportFile, held: Held, members: int) -> tuple[int, int]:
    file.write(held.chunk)
    file.sync()
    return held.chunk.number, members + len(held.chunk.members)


def _header_of(written: Written) -> Header:
    if written.header is None:
        raise PayloadError("the file has no header")
    return written.header


def _give_back(operator: Operator, options: argparse.Namespace) -> int:
    held = find_held(operator.pool, operator.keys)
    if held is None:
        if options.json:
            write_json({"given_back": 0})
        else:
            write_line("No export holds anything.")
        return 0
    count = len(held.chunk.members)
    question = (
        f"Put {count_text(count, 'job')} back into {held.chunk.place}? An export to {held.file} holds them; "
        "it must not run any more, and if its file has them already, they would be there twice."
    )
    if options.dry_run or not confirm(question, options):
        write_line(
            f"{count_text(count, 'job')} of {held.chunk.place}, held by an export to {held.file}"
        )
        return 0 if options.dry_run else 1
    moved = give_back(operator.pool, operator.keys, held)
    record_transfer(
        operator, "export --give-back", {held.chunk.place: moved}, f"held for {held.file}"
    )
    if options.json:
        write_json({"given_back": moved})
    else:
        write_line(f"put back {count_text(moved, 'job')} into {held.chunk.place}")
    return 0


def _report(options: argparse.Namespace, verb: str, counts: Mapping[Place, int]) -> int:
    total = sum(counts.values())
    if options.json:
        places = [
            {"kind": each.kind, "name": each.name, "count": count} for each, count in counts.items()
        ]
        write_json(
            {
                "dry_run": options.dry_run,
                "file": options.file,
                "take": options.take,
                "count": total,
                "places": places,
            },
        )
        return 0
    to = f" to {options.file}" if options.file else ""
    write_line(f"{verb} {count_text(total, 'job')}{to}")
    for place, count in counts.items():
        if count:
            write_line(f"  {place}: {count:,}")
    return 0


def _report_complete(options: argparse.Namespace, written: Written) -> int:
    if options.json:
        write_json({"file": options.file, "complete": True, "count": written.members})
    else:
        write_line(
            f"{options.file} is complete with {count_text(written.members, 'job')}; nothing was taken now. "
            "Name another file to take what has come since"
        )
    return 0
