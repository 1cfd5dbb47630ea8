"""`kiqbridge contract`: what applications that share a Redis expect of each other's jobs."""

import argparse
import sys
from pathlib import Path
from typing import Final

from kiqbridge.client.job import remote_jobs
from kiqbridge.client.registry import default_registry
from kiqbridge.client.require import load_all
from kiqbridge.commands.arguments import add_example, add_json, add_option
from kiqbridge.commands.output import write, write_json, write_line
from kiqbridge.contract.compare import compare
from kiqbridge.contract.document import Contract, export, read_contract
from kiqbridge.contract.stubs import write_stubs
from kiqbridge.errors import ConfigError

_STANDARD_INPUT: Final = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A verb for each step."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    exporting = verbs.add_parser("export", help="write the contract of this application's jobs")
    _add_require(exporting, required=True)
    add_option(exporting, "--app", "NAME", "its name in messages (that of the folder)")
    _add_output(exporting)
    add_example(
        exporting,
        "kiqbridge contract export -r jobs",
        "kiqbridge contract export -r jobs --output contract.json",
    )

    checking = verbs.add_parser(
        "check",
        help="compare contracts: enqueues that nobody performs, arity, types",
        description="Compare contracts of applications that share a Redis, and with -r the jobs of this one. "
        "Exit code 1: they disagree.",
    )
    add_option(checking, "files", "FILE", "a contract; - is standard input", nargs="+")
    _add_require(checking, required=False)
    add_json(checking)
    add_example(checking, "kiqbridge contract check rails.json -r jobs")

    stubs = verbs.add_parser(
        "stubs",
        help="write typed Python classes that enqueue the jobs of a contract",
        description="Write a Python module with a class for each job that another application performs.",
    )
    add_option(stubs, "file", "FILE", "the contract; - is standard input")
    _add_output(stubs)
    add_example(stubs, "kiqbridge contract stubs rails.json --output ruby_jobs.py")


def run(options: argparse.Namespace) -> int:
    """Export, check or write stubs; 1: contracts disagree."""
    if options.verb == "export":
        return _export(options)
    if options.verb == "stubs":
        _write_out(options.output, write_stubs(_read(options.file)))
        return 0
    return _check(options)


def _export(options: argparse.Namespace) -> int:
    contract = _own(options.require, options.app)
    _write_out(options.output, contract.to_text())
    return 0


def _check(options: argparse.Namespace) -> int:
    contracts = [_read(file) for file in options.files]
    if options.require:
        contracts.append(_own(options.require, None))
    found = compare(contracts)
    if options.json:
        write_json([each._asdict() for each in found])
    else:
        for each in found:
            write_line(f"{each.job}: {each.kind}: {each.text}")
        jobs, enqueues = (
            sum(len(getattr(each, name)) for each in contracts) for name in ("jobs", "enqueues")
        )
        write_line(
            f"{len(contracts)} applications, {jobs} jobs, {enqueues} enqueues: "
            + (f"{len(found)} disagreements" if found else "they agree")
        )
    return 1 if found else 0


def _own(require: list[str], app: str | None) -> Contract:
    load_all(tuple(require))
    return export(default_registry, remote_jobs(), app=app or Path.cwd().name)


def _read(file: str) -> Contract:
    try:
        text = sys.stdin.read() if file == _STANDARD_INPUT else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error
    return read_contract(text, file)


def _write_out(output: str | None, text: str) -> None:
    if output is None:
        write(text)
        return
    try:
        Path(output).write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(f"{output}: cannot be written: {error}") from error
    write_line(f"written to {output}")


def _add_require(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "-r",
        "--require",
        action="append",
        required=required,
        default=None if required else [],
        metavar="TARGET",
        help="module, .py file or directory with the jobs; repeatable",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", "-o", metavar="FILE", help="write there, not to standard output"
    )
