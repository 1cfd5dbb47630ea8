"""`kiqbridge quiet` and `kiqbridge stop`: signals to processes of Python and Ruby, by way of Redis."""

import argparse
import fnmatch
import sys
from collections.abc import Sequence

from kiqbridge.api import Operator, Process, ProcessSet, open_operator
from kiqbridge.commands.acting import confirm
from kiqbridge.commands.arguments import add_changing, add_example, add_option, add_switch
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.errors import PayloadError
from kiqbridge.wire.names import printable


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which processes are meant."""
    add_option(
        parser, "identities", "IDENTITY", "as `kiqbridge ps` shows it, or its beginning", nargs="*"
    )
    add_switch(parser, "--all", "all processes, Ruby's as well")
    add_option(parser, "--host", "GLOB", "those on these machines")
    add_changing(parser, asks=True)
    parser.set_defaults(verb=verb)
    add_example(parser, f"kiqbridge {verb} --host 'batch-*' --dry-run")


def run(options: argparse.Namespace) -> int:
    """Quiet or stop them."""
    operator = open_operator(via="cli")
    chosen = _chosen(options, operator)
    verb: str = options.verb
    if options.dry_run:
        return _report(options, f"would {verb}", chosen)
    if not chosen:
        return _report(options, "", chosen)
    which = "1 process" if len(chosen) == 1 else f"{len(chosen):,} processes"
    if verb == "stop" and not confirm(f"Stop {which}?", options):
        return 1
    for process in chosen:
        if verb == "quiet":
            process.quiet()
        else:
            process.stop()
    return _report(
        options, "asked to become quiet:" if verb == "quiet" else "asked to stop:", chosen
    )


def _chosen(options: argparse.Namespace, operator: Operator) -> list[Process]:
    if not (options.identities or options.all or options.host):
        raise PayloadError("name an IDENTITY (kiqbridge ps lists them), --host GLOB or --all")
    processes = list(ProcessSet(operator))
    for identity in options.identities:
        if not any(each.identity.startswith(identity) for each in processes):
            raise PayloadError(
                f"{printable(identity)}: no process of this name is alive; kiqbridge ps lists them"
            )
    return [
        each
        for each in processes
        if options.all
        or (options.host and fnmatch.fnmatchcase(each.hostname, options.host))
        or any(each.identity.startswith(identity) for identity in options.identities)
    ]


def _report(options: argparse.Namespace, verb: str, chosen: Sequence[Process]) -> int:
    if options.json:
        write_json(
            {
                "dry_run": options.dry_run,
                "action": options.verb,
                "processes": [each.identity for each in chosen],
            }
        )
        return 0
    if not chosen:
        sys.stderr.write("No living process matches.\n")
    for process in chosen:
        write_line(f"{verb} {process.identity}")
    return 0
