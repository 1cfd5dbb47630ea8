"""`kiqbridge export` with several shards: a file for each, by the same steps as that of one (docs/shards.md)."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kiqbridge.api import Operator
from kiqbridge.commands.confirm import confirm
from kiqbridge.commands.moments import count_text
from kiqbridge.commands.output import write_json
from kiqbridge.errors import PayloadError, RedisUnavailable
from kiqbridge.transfer.form import Place
from kiqbridge.transfer.reading import size_of
from kiqbridge.transfer.taking import find_held

Export = Callable[[Operator, argparse.Namespace], int]
"""Exports one shard."""


def export_each(
    operator: Operator,
    options: argparse.Namespace,
    export: Export,
    places_of: Callable[[Operator, argparse.Namespace], Sequence[Place]],
) -> int:
    """Export all shards of the operator, or count, or give back; the exit code.

    Args:
        operator: of several shards.
        options: of the command line.
        export: does it for one shard, with its file.
        places_of: what is exported of a shard.

    Raises:
        PayloadError: the options cannot be meant for several; nothing was exported.
        RedisUnavailable: a shard is away; before the first one is exported all were asked.
    """
    found = operator.reachable()
    if found.missing:
        away = "; ".join(f"shard {name} is away: {why}" for name, why in found.missing)
        raise RedisUnavailable(
            f"{away}. Nothing was exported, as it would not be all; name the shards that are wanted with --shard"
        )
    documents: list[dict[str, Any]] = []
    shards = [(each, _options_of(each.shard, options, documents)) for each in operator.each()]
    if options.give_back:
        # One is asked all the same, which says that there is nothing.
        held = [each for each in shards if find_held(each[0].pool, each[0].keys) is not None]
        shards = held or shards[:1]
    elif not options.dry_run:
        _check_files(operator, options, shards)
        if options.take and not _is_agreed(options, shards, places_of):
            return 1
    code = max(export(each, own) for each, own in shards)
    if options.json:
        write_json(_together(options, documents))
    return code


def file_of(shard: str, file: str) -> str:
    """`jobs.mail.jsonl.gz` for the shard `mail` and `jobs.jsonl.gz`."""
    path = Path(file)
    ends = path.suffix
    if ends == ".gz":
        ends = Path(path.stem).suffix + ends
    return str(path.with_name(f"{path.name.removesuffix(ends)}.{shard}{ends}"))


def _options_of(
    shard: str, options: argparse.Namespace, documents: list[dict[str, Any]]
) -> argparse.Namespace:
    own = argparse.Namespace(**vars(options))
    own.of_shard, own.documents = shard, documents
    if options.file is not None:
        own.file = file_of(shard, options.file)
    # Files of several shards may be put into one server, which knows them by their ids.
    own.id = options.id and f"{options.id}.{shard}"
    own.yes = options.yes or not options.give_back  # asked once for all
    return own


def _check_files(
    operator: Operator,
    options: argparse.Namespace,
    shards: Sequence[tuple[Operator, argparse.Namespace]],
) -> None:
    if options.file == "-":
        raise PayloadError(
            f"-: a pipe takes one shard; name it with --shard ({', '.join(operator.shards)}), or name a FILE, of which "
            "each shard gets its own"
        )
    if options.file is None:
        raise PayloadError("name a FILE, of which each shard gets its own")
    there = [own.file for _, own in shards if Path(own.file).exists()]
    if there and not options.take:
        raise PayloadError(
            f"{', '.join(there)}: there already; name another file, or remove what is there. Nothing was exported"
        )


def _is_agreed(
    options: argparse.Namespace,
    shards: Sequence[tuple[Operator, argparse.Namespace]],
    places_of: Callable[[Operator, argparse.Namespace], Sequence[Place]],
) -> bool:
    counts = {
        each.shard: sum(size_of(each.pool, each.keys, place) for place in places_of(each, options))
        for each, _ in shards
    }
    if not any(counts.values()):
        return True
    where = ", ".join(f"{name} ({count:,})" for name, count in counts.items() if count)
    files = ", ".join(own.file for _, own in shards)
    total = count_text(sum(counts.values()), "job")
    return confirm(f"Take {total} out of the shards {where} into {files}?", options)


def _together(options: argparse.Namespace, documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if options.give_back:
        total = sum(each["given_back"] for each in documents)
        return {"given_back": total, "shards": documents}
    return {
        "dry_run": options.dry_run,
        "take": options.take,
        "count": sum(each["count"] for each in documents),
        "shards": documents,
    }
