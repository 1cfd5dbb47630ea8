"""`kiqbridge lock`: list the locks of unique jobs with the jobs that own them, and free one."""

import argparse
from collections.abc import Iterator
from typing import Any, Final

from kiqbridge.api import Operator, open_operator
from kiqbridge.commands.acting import REFUSED, confirm
from kiqbridge.commands.arguments import add, add_changing, add_listing, add_verb, add_verbs
from kiqbridge.commands.output import answer, answer_table, listed
from kiqbridge.features.unique.overview import HeldLock, find_lock, free_lock, list_locks
from kiqbridge.wire.amounts import instant_text

MOST: Final = 100
_AT_ONCE: Final = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs list and free."""
    verbs = add_verbs(parser)
    text = "which job owns each; kiqbridge job JID says where that is"
    listing = add_verb(verbs, "list", _list, text, "kiqbridge lock list --class Bill")
    add(listing, "--class NAME", "only locks of this class")
    add_listing(listing, MOST, "for scripts that go through all of them")
    text = "free one, so that another job with the same arguments may be pushed"
    example = f"kiqbridge lock free Bill:{'3f' * 32} --yes"
    free = add_verb(verbs, "free", _free, text, example)
    add(free, "NAME", "as `lock list` shows it")
    add_changing(free, asks=True)


def _list(options: argparse.Namespace) -> int:
    operator, job_class = open_operator(via="cli"), options.class_ or ""
    found = listed(options, _rows(operator, job_class), HeldLock._asdict, MOST)
    return answer_table(
        options,
        {"locks": [each._asdict() for each in found]},
        ("!lock", "owner", "ends at the latest"),
        [(each.name, each.jid, instant_text(each.until)) for each in found],
        none="There are no locks.",
    )


def _rows(operator: Operator, job_class: str) -> Iterator[HeldLock]:
    number = 0
    while True:
        number += 1
        page = list_locks(operator, number, _AT_ONCE, job_class)
        yield from page.rows
        if number >= page.count:
            return


def _free(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    lock = find_lock(operator, options.name)
    is_freed = False
    if lock is not None and not options.dry_run:
        question = f"Free lock {lock.name} of job {lock.jid}? Another one with the same arguments may run beside it."
        if not confirm(question, options):
            return REFUSED
        is_freed = free_lock(operator, lock)
    jid = None if lock is None else lock.jid
    document: dict[str, Any] = {
        "dry_run": options.dry_run,
        "name": options.name,
        "jid": jid,
        "freed": is_freed,
    }
    said = "would free" if options.dry_run else "freed"
    line = (
        f"lock {options.name} is free" if lock is None else f"{said} lock {lock.name} of job {jid}"
    )
    return answer(options, document, [line])
