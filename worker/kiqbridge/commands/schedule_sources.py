"""The schedules that a verb of `kiqbridge schedule` works on: of a template, of Redis, of files.

Without an option it is template.yaml. A schedule that is in several sources is taken from the first one: the
template, then files, then Redis.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kiqbridge.api import Operator, open_operator
from kiqbridge.clocks.definitions import read_definitions, read_states
from kiqbridge.commands.shards import add_shard, operator_of
from kiqbridge.errors import ConfigError
from kiqbridge.schedule.source_text import block_of, ignored_codes, names_zone
from kiqbridge.schedule.sourced import SourcedSchedule

if TYPE_CHECKING:
    from kiqbridge.schedule.state import ScheduleState

UNREADABLE: Final = 2
DEFAULT_TEMPLATE: Final = Path("template.yaml")
DEFAULT_STACK: Final = "kiqbridge"
"""As schedule/template.py has it, which loads YAML."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What was read.

    Attributes:
        schedules: in the order of the sources.
        servers: those that were read, if Redis is one of the sources: one, or all shards that answer.
    """

    schedules: list[SourcedSchedule]
    servers: Sequence[Operator] = ()


def add_source_arguments(verb: argparse.ArgumentParser) -> None:
    """The options that say where schedules come from."""
    group = verb.add_argument_group("where the schedules come from (default: template.yaml)")
    group.add_argument("--template", type=Path, metavar="FILE", help="a SAM template")
    group.add_argument(
        "--redis",
        action="store_true",
        help="those of Redis, or of all shards: published and dynamic ones; --shard NAME implies it",
    )
    group.add_argument(
        "--file",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a YAML file of dynamic schedules; may be repeated",
    )
    add_template_arguments(group)
    add_shard(verb)


def add_template_arguments(group: "argparse._ArgumentGroup | argparse.ArgumentParser") -> None:
    """The options with which a template is resolved."""
    group.add_argument(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the template; may be repeated",
    )
    group.add_argument(
        "--answers", type=Path, metavar="SAMCONFIG", help="parameters of `make deploy`"
    )
    group.add_argument(
        "--stack-name",
        default=DEFAULT_STACK,
        metavar="STACK",
        help=f"of the template's schedules (default: {DEFAULT_STACK})",
    )


def read_sources(options: argparse.Namespace) -> Sources:
    """The schedules that the options of a verb ask for.

    Raises:
        ConfigError: a source cannot be read.
        RedisUnavailable: Redis was not reached.
    """
    found: dict[str, SourcedSchedule] = {}
    reads_redis = options.redis or bool(options.only_shards)
    for each in _read_files(options, reads_redis=reads_redis):
        found.setdefault(each.name, each)
    if not reads_redis:
        return Sources(schedules=list(found.values()))
    servers = operator_of(options).each()
    stored: dict[str, SourcedSchedule] = {}
    states: dict[str, ScheduleState] = {}
    for server in servers:
        defined = read_definitions(server.pool, server.keys)
        noted = read_states(server.pool, server.keys)
        # A pause is noted on all shards; that one counts whose leader fires the schedule.
        states |= {
            name: state for name, state in noted.items() if name in defined or name not in states
        }
        for name, definition in defined.items():
            made = SourcedSchedule(
                definition=definition, source=place_of(server), shard=server.shard
            )
            stored.setdefault(name, made)
    for name in sorted(stored):
        found.setdefault(name, stored[name])
    schedules = [
        replace(each, state=states[each.name]) if each.name in states else each
        for each in found.values()
    ]
    return Sources(schedules=schedules, servers=servers)


def place_of(server: Operator) -> str:
    """A server as the source of a schedule."""
    return f"Redis, shard {server.shard}" if server.shard else "Redis"


def all_servers() -> Sequence[Operator]:
    """The Redis of the environment, or all its shards, for what must not miss one; nothing is connected yet."""
    return open_operator(via="cli").each()


def read_template(path: Path, options: argparse.Namespace) -> list[SourcedSchedule]:
    """The schedules of a template.

    Raises:
        ConfigError: it cannot be read; every problem has its line.
    """
    from kiqbridge.schedule.check import read_answers  # noqa: PLC0415 - loads YAML
    from kiqbridge.schedule.sourced_template import sourced_schedules  # noqa: PLC0415
    from kiqbridge.schedule.template import read_schedules  # noqa: PLC0415

    parameters = dict(item.partition("=")[::2] for item in options.parameter)
    text = _text(path)
    with _regular_file(path, text) as file:
        if options.answers is not None:
            parameters = read_answers(options.answers, file) | parameters
        schedules = read_schedules(file, parameters, options.stack_name)
    return sourced_schedules(schedules, text, source=str(path), stack_name=options.stack_name)


def unreadable(error: Exception) -> int:
    """Report what cannot be read; the exit code."""
    sys.stderr.write(f"kiqbridge: {error}\n")
    return UNREADABLE


def _read_files(options: argparse.Namespace, *, reads_redis: bool) -> Iterator[SourcedSchedule]:
    template: Path | None = options.template
    if template is None and not reads_redis and not options.file:
        template = DEFAULT_TEMPLATE
        if not template.exists():
            raise ConfigError(
                f"there is no {template} in this folder; name the source: --template FILE, --file FILE or --redis"
            )
    if template is not None:
        yield from read_template(template, options)
    for path in options.file:
        yield from _read_file(path)


def _read_file(path: Path) -> Iterator[SourcedSchedule]:
    from kiqbridge.clocks.schedule_file import read_schedule_file  # noqa: PLC0415 - loads YAML
    from kiqbridge.schedule.yaml_nodes import compose, entries  # noqa: PLC0415

    text = _text(path)
    definitions = read_schedule_file(text, str(path))
    places = {name: entry.line for name, entry in entries(compose(text), "the file").items()}
    lines = text.splitlines()
    for each in definitions:
        block = block_of(lines, places[each.name])
        yield SourcedSchedule(
            definition=each,
            source=str(path),
            line=places[each.name],
            names_zone=names_zone(block),
            ignored=ignored_codes(block),
        )


@contextmanager
def _regular_file(path: Path, text: str) -> Iterator[Path]:
    """The path, or a copy of what a pipe such as that of `<(git show main:template.yaml)` gave once."""
    if path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_text(text, encoding="utf-8")
        yield copy


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
