"""`kiqbridge contract`: export which jobs this application performs and enqueues, compare it with those of others.

Such as those of a Rails application; and write typed Python classes for theirs.
"""

import argparse
from pathlib import Path

from kiqbridge.client.job import remote_jobs
from kiqbridge.client.registry import default_registry
from kiqbridge.client.require import load_all
from kiqbridge.commands import arguments
from kiqbridge.commands.output import answer, write, write_line
from kiqbridge.errors import ConfigError
from kiqbridge.features.contract.compare import compare
from kiqbridge.features.contract.document import Contract, export, read_contract, write_stubs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A verb for each step."""
    verbs = arguments.add_verbs(parser)
    line = "kiqbridge contract export -r jobs"
    text = "write the contract of this application's jobs"
    exporting = arguments.add_verb(
        verbs, "export", _export, text, line, f"{line} --output contract.json"
    )
    arguments.add_require(exporting, required=True)
    arguments.add(
        exporting, "--app NAME", "name of the app in messages (default: the name of the folder)"
    )
    checking = arguments.add_verb(
        verbs,
        "check",
        _check,
        "compare contracts: enqueues that no application performs, arity, types",
        "kiqbridge contract check rails.json -r jobs",
    )
    arguments.add(checking, "FILE...", "a contract; - is standard input", dest="files")
    arguments.add_require(checking)
    arguments.add_json(checking)
    text = "write typed Python classes that enqueue the jobs of a contract"
    example = "kiqbridge contract stubs rails.json --output ruby_jobs.py"
    stubs = arguments.add_verb(verbs, "stubs", _stubs, text, example)
    arguments.add(stubs, "FILE", "the contract; - is standard input")
    for verb in (exporting, stubs):
        arguments.add(verb, "-o --output FILE", "write there, not to standard output")


def _export(options: argparse.Namespace) -> int:
    return _write_out(options.output, _own(options.require, options.app).to_text())


def _stubs(options: argparse.Namespace) -> int:
    return _write_out(options.output, write_stubs(_read(options.file)))


def _check(options: argparse.Namespace) -> int:
    """Compare contracts of applications that share a Redis, and with -r the jobs of this one. Exit code 1: they disagree."""
    contracts = [_read(file) for file in options.files]
    if options.require:
        contracts.append(_own(options.require, None))
    found = compare(contracts)
    jobs, enqueues = (
        sum(len(getattr(each, name)) for each in contracts) for name in ("jobs", "enqueues")
    )
    lines = [f"{each.job}: {each.kind}: {each.text}" for each in found]
    verdict = f"{len(found)} disagreements" if found else "they agree"
    counts = f"{len(contracts)} applications, {jobs} jobs, {enqueues} enqueues"
    answer(options, [each._asdict() for each in found], [*lines, f"{counts}: {verdict}"])
    return 1 if found else 0


def _own(require: list[str], app: str | None) -> Contract:
    load_all(tuple(require))
    return export(default_registry, remote_jobs(), app=app or Path.cwd().name)


def _read(file: str) -> Contract:
    return read_contract(arguments.read_input(file), file)


def _write_out(output: str | None, text: str) -> int:
    if output is None:
        write(text)
        return 0
    try:
        Path(output).write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(f"{output}: cannot be written: {error}") from error
    write_line(f"written to {output}")
    return 0
