"""`kiqbridge schedule import` beside a running sidekiq-cron: reading its schedules, switching them off and on.

While both know a schedule, both fire it. So `--disable` switches the Ruby one off only when its replacement is
live: saved or published in Redis under its name, for the same class, enabled, not paused, and due again.
`--enable` undoes it, at any time.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kiqbridge.api import Operator, open_operator
from kiqbridge.client.known_schedules import KnownSchedule
from kiqbridge.client.schedules import Schedules
from kiqbridge.clocks.sidekiq_cron import SidekiqCronJob, Status, read_sidekiq_cron, set_cron_status
from kiqbridge.commands.acting import confirm
from kiqbridge.commands.arguments import add_option, add_switch
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.schedule.imports.command_line import class_name_to_identifier
from kiqbridge.schedule.imports.events import dynamic_name
from kiqbridge.schedule.imports.gems import Definition, read_definitions
from kiqbridge.schedule.imports.record import Imported, Reading


def add_ruby_arguments(verb: argparse.ArgumentParser) -> None:
    """What reads from Redis and writes there, in the place of FILE."""
    group = verb.add_argument_group("beside sidekiq-cron, which uses the same Redis")
    add_switch(group, "--from-redis", "read its schedules from Redis, not from a file")
    add_option(
        group,
        "--disable",
        "NAME",
        "switch its schedules off whose replacements are live, so that nothing fires twice",
        nargs="+",
    )
    add_switch(group, "--all", "--disable for all whose replacements are live")
    add_option(group, "--enable", "NAME", "switch its schedules on again", nargs="+")
    add_switch(group, "--yes", "do not ask")


def read_from_redis(reading: Reading) -> Imported:
    """The schedules of sidekiq-cron, as its file would have them; the line is their place by name.

    Raises:
        RedisUnavailable: nothing was read.
        ConfigError: there are none.
    """
    _, found = _theirs()
    if not found:
        raise ConfigError(
            "sidekiq-cron has no schedules in this Redis (cron_jobs); is it the right one?"
        )
    definitions = [
        Definition(
            name=each.name,
            members={
                "cron": each.cron,
                "class": each.job_class,
                "args": list(each.args),
                "queue": each.queue,
                "active_job": each.active_job,
                "date_as_argument": each.date_as_argument,
                "description": each.description,
                "status": each.status,
            },
            line=place,
            source=f"{each.name}: {each.cron} {each.job_class}",
        )
        for place, each in enumerate(found.values(), start=1)
    ]
    return read_definitions(definitions, reading)


def switch(options: argparse.Namespace) -> int:
    """`--disable`, `--all` and `--enable`; the exit code is 1 if one was left as it was, 2 if nothing was done.

    Raises:
        RedisUnavailable: perhaps some are switched; repeat it.
    """
    if options.enable is not None and (options.all or options.disable is not None):
        raise PayloadError("--enable goes with neither --disable nor --all; call it twice")
    server, known = _theirs()
    is_off = options.enable is None
    wanted = options.enable if not is_off else list(known) if options.all else options.disable
    refused = _refused(wanted, known, with_replacement=is_off)
    names = [name for name in wanted if name not in refused and known[name].enabled is is_off]
    for name, reason in refused.items():
        sys.stderr.write(f"left as it is: {name}: {reason}\n")
    status: Status = "disabled" if is_off else "enabled"
    question = f"In sidekiq-cron these will be {status}: {', '.join(names)}; go on?"
    if names and not options.dry_run and not confirm(question, options):
        return 1
    for name in names:
        changed = options.dry_run or (
            set_cron_status(server.pool, server.keys, name, status) is not None
        )
        would = "would be " if options.dry_run else ""
        if not options.json:
            write_line(f"{would}{status}: {name}" if changed else f"gone: {name}")
    if options.json:
        answer = {"dry_run": options.dry_run, status: names, "left": refused}
        write_json(answer)
    elif not names:
        write_line(f"nothing to be {status}")
    return 1 if refused and not (options.all and names) else 0


def _refused(
    wanted: Sequence[str], known: Mapping[str, SidekiqCronJob], *, with_replacement: bool
) -> dict[str, str]:
    """Names that stay as they are, and why."""
    refused = {name: "sidekiq-cron has no such schedule" for name in wanted if name not in known}
    if not with_replacement:
        return refused
    schedules = Schedules(open_operator(via="cli").client)
    ours, now = schedules.list(), schedules.now()
    for name in wanted:
        if name in known and (fault := _fault_of_replacement(known[name], ours, now)):
            refused[name] = fault
    return refused


def _fault_of_replacement(theirs: SidekiqCronJob, ours: Sequence[KnownSchedule], now: float) -> str:
    """Why nothing of ours stands for a schedule of the gem; "" = something does."""
    names = (dynamic_name(theirs.name), theirs.name)
    logical_id = f"/{class_name_to_identifier(theirs.name)}"
    found = [each for each in ours if each.name in names or each.name.endswith(logical_id)]
    if not found:
        return f"nothing here is called {names[0]} or STACK{logical_id}: import it and deploy, or --apply it, first"
    faults = []
    for each in found:
        definition, pause = each.definition, each.state.pause_at(now)
        classes = {job.get("class", job.get("active_job")) for job in definition.jobs}
        if theirs.job_class not in classes:
            faults.append(f"{each.name} enqueues {', '.join(map(str, classes))}")
        elif not definition.enabled:
            faults.append(f"{each.name} is disabled")
        elif pause is not None:
            faults.append(f"{each.name} is paused")
        elif _is_over(each, datetime.fromtimestamp(now, UTC)):
            faults.append(f"{each.name} is never due again")
        else:
            return ""
    return "; ".join(faults)


def _is_over(known: KnownSchedule, now: datetime) -> bool:
    try:
        return known.definition.when.next_after(now) is None
    except ConfigError:
        return True


def _theirs() -> tuple[Operator, dict[str, SidekiqCronJob]]:
    """The schedules of the gem by name, and where they are."""
    server = open_operator(via="cli")
    return server, {each.name: each for each in read_sidekiq_cron(server.pool, server.keys)}
