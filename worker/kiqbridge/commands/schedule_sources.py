"""The schedules that a verb of `kiqbridge schedule` works on: of a template, of files, of jobs, of Redis.

Without an option these are template.yaml and, if an address is configured, Redis. A schedule that is in several
sources is taken from the first one: the template, then files, then jobs, then Redis.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

from kiqbridge import seams
from kiqbridge.api import Operator, open_operator
from kiqbridge.client.known_schedules import list_schedules
from kiqbridge.client.registry import default_registry
from kiqbridge.client.require import load_all
from kiqbridge.commands.arguments import add, add_require, read_input
from kiqbridge.config.client_settings import read_access
from kiqbridge.errors import ConfigError, RedisUnavailable
from kiqbridge.schedule import TEMPLATE
from kiqbridge.schedule.check import read_answers
from kiqbridge.schedule.sourced import SourcedSchedule, sourced, sourced_schedules
from kiqbridge.schedule.template import read_schedules
from kiqbridge.schedule.yaml_nodes import compose, entries

DEFAULT_STACK: Final = "kiqbridge"
"""As schedule/template.py has it, which loads YAML."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What was read.

    Attributes:
        schedules: in the order of the sources.
        server: that was read, if Redis is one of the sources.
    """

    schedules: list[SourcedSchedule]
    server: Operator | None = None


def add_source_arguments(verb: argparse.ArgumentParser) -> None:
    """The options that say where schedules come from."""
    group = verb.add_argument_group(
        "where the schedules come from (default: template.yaml, and Redis if its address is set)"
    )
    add(group, "--template FILE", "a SAM template", type=Path)
    add(group, "--redis", "the schedules in Redis: published and dynamic ones")
    add(group, "--file FILE...", "a YAML file of dynamic schedules; may be repeated", type=Path)
    add_require(group)
    add_template_arguments(group)


def add_template_arguments(group: "argparse._ArgumentGroup | argparse.ArgumentParser") -> None:
    """The options with which a template is resolved."""
    add(group, "--parameter NAME=VALUE...", "of the template; may be repeated")
    add(group, "--answers SAMCONFIG", "parameters of `make deploy`", type=Path)
    text = f"of the template's schedules (default: {DEFAULT_STACK})"
    add(group, "--stack-name STACK", text, default=DEFAULT_STACK)


def read_sources(options: argparse.Namespace) -> Sources:
    """The schedules that the options of a verb ask for.

    Raises:
        ConfigError: a source cannot be read.
        RedisUnavailable: Redis was not reached.
    """
    if options.redis:
        return _with_redis(options)
    if options.template or options.file or options.require:
        return Sources(schedules=list(_read_files(options).values()))
    has_template = TEMPLATE.exists()
    if has_template:
        options.template = TEMPLATE
    access = read_access(os.environ)
    if not access.url_is_default or access.secret_arn or access.ssm_parameter:
        try:
            return _with_redis(options)
        except RedisUnavailable as error:
            if not has_template:
                raise
            sys.stderr.write(f"kiqbridge: the schedules of Redis are left out: {error}\n")
    elif not has_template:
        raise ConfigError(
            f"there is no {TEMPLATE} in this folder; name the source: --template FILE, --file FILE, "
            "--require MODULE or --redis"
        )
    return Sources(schedules=list(_read_files(options).values()))


def _with_redis(options: argparse.Namespace) -> Sources:
    server = open_operator(via="cli")
    stored = {
        each.name: SourcedSchedule(definition=each.definition, source="Redis", state=each.state)
        for each in list_schedules(server.pool, server.keys)
    }
    stacks = {
        name.partition("/")[0]
        for name, each in stored.items()
        if each.definition.origin == "template"
    }
    if len(stacks) == 1 and options.stack_name == DEFAULT_STACK:
        options.stack_name = stacks.pop()  # else a rule of the template would be listed twice
    found = _read_files(options)
    for name, each in stored.items():
        found[name] = replace(found[name], state=each.state) if name in found else each
    return Sources(schedules=list(found.values()), server=server)


def read_template(path: Path, options: argparse.Namespace) -> list[SourcedSchedule]:
    """The schedules of a template.

    Raises:
        ConfigError: it cannot be read; every problem has its line.
    """
    parameters = dict(item.partition("=")[::2] for item in options.parameter)
    text = read_input(path)
    with _regular_file(path, text) as file:
        if options.answers is not None:
            parameters = read_answers(options.answers, file) | parameters
        schedules = read_schedules(file, parameters, options.stack_name)
    return sourced_schedules(schedules, text, source=str(path), stack_name=options.stack_name)


def _read_files(options: argparse.Namespace) -> dict[str, SourcedSchedule]:
    """By name, of the template, the files and the jobs that the options name."""
    several = [] if options.template is None else [read_template(options.template, options)]
    several += [_read_file(path) for path in options.file]
    load_all(tuple(options.require))
    declared = [
        SourcedSchedule(definition=each.schedule, source=str(each.place or each.origin))
        for each in (default_registry if options.require else ())
        if each.schedule is not None
    ]
    found: dict[str, SourcedSchedule] = {}
    for each in chain(*several, declared):
        found.setdefault(each.name, each)
    return found


def _read_file(path: Path) -> list[SourcedSchedule]:
    text = read_input(path)
    definitions = seams.call("schedule_file")(text, str(path))
    places = {name: entry.line for name, entry in entries(compose(text), "the file").items()}
    return [sourced(each, text, places[each.name], source=str(path)) for each in definitions]


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
