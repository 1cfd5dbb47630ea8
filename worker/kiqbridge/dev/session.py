"""`kiqbridge dev`, what `make up` runs: server, cron rules and worker on this machine.

1. The schedules of the template are read, the job classes loaded: all faults are reported at once.
2. A server: the embedded one, or that of REDIS_URL.
3. The functions of the rules and the worker, each in a child of its own; then the page.
4. The last due tick of the most frequent Python rule, and what `--fire` names, at once.
5. Each tick at its time, until Ctrl-C: the worker gives running jobs back, the server ends last. When the template
   is edited, its rules are read again; one with a fault is reported, and the rules of before stay.
"""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from kiqbridge.client.registry import default_registry
from kiqbridge.client.require import load_all
from kiqbridge.config.client_settings import REDIS_SETTINGS, ForClients
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.dev.console import Console
from kiqbridge.dev.embedded_server import EmbeddedServer, LocalData, external_url, why_external
from kiqbridge.dev.end_inbox import EndInbox
from kiqbridge.dev.firing import (
    Agenda,
    SimulatedClock,
    ZoneCalendar,
    anchored,
    check_rules,
    concerned,
    describe,
    most_frequent,
)
from kiqbridge.dev.invoke_api import InvokeApi, example
from kiqbridge.dev.ledger_watch import LedgerWatch
from kiqbridge.dev.local_function import LocalFunctions
from kiqbridge.dev.overview import JobPlaces, Overview, served_queues
from kiqbridge.dev.source_watch import SourceWatch, folders_of
from kiqbridge.dev.tick_delivery import TickDelivery
from kiqbridge.dev.worker_child import WebChild, WorkerChild
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.schedule.template import TemplateSchedule, read_schedules
from kiqbridge.store.redis_address import without_password
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.amounts import count_text
from kiqbridge.wire.keys import Keys

_HERE: Final = {"SampleSchedules": "ENABLED"}
"""Parameters of the template on this machine, where its sample is to be seen; in AWS it is off by default."""


def run_dev(options: argparse.Namespace) -> int:
    """Run until Ctrl-C; 0 after an orderly end, 1 when a part cannot go on, 2 for a wrong name.

    Raises:
        ConfigError: template, jobs, settings or the embedded server are wrong.
        RedisUnavailable: the server of REDIS_URL is not there.
    """
    schedules = read_schedules(options.template, _HERE) if options.template else []
    if options.fire and not options.template:
        raise PayloadError(
            "--fire: there is no template.yaml here, so there are no rules; --template names one"
        )
    check_rules(options.fire, [schedule.name for schedule in schedules if schedule.jobs])
    if not options.require:
        raise ConfigError(
            "dev: there are no jobs here: no folder jobs, and no worker/jobs; name the code that declares them with "
            "-r, such as -r shop/jobs.py, or begin an app: kiqbridge init"
        )
    load_all(tuple(options.require))
    external = external_url(os.environ)
    data = LocalData(fresh=options.fresh)
    inbox = EndInbox()
    inbox.trap()

    def end_unread() -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        inbox.end()

    console = Console(sys.stdout, on_closed=end_unread)
    with contextlib.nullcontext() if external else EmbeddedServer(data) as server:
        url = server.url if server else external or ""
        return Dev(
            options, schedules, inbox=inbox, server=server, url=url, data=data, console=console
        ).run()


class Dev:
    """One run: composes the parts and keeps them going.

    Args:
        options: what the command line says; a template of None = no rules, jobs alone.
        schedules: those of the template.
        inbox: what ends the run, and asks for the tables.
        server: the embedded one, or None.
        url: address of the server.
        data: the folder of this run.
        console: what is shown.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        schedules: Sequence[TemplateSchedule],
        *,
        inbox: EndInbox,
        server: EmbeddedServer | None,
        url: str,
        data: LocalData,
        console: Console,
    ) -> None:
        self._options = options
        self._inbox = inbox
        self._server = server
        self._url = url
        self._data = data
        self._console = console
        self._boot = time.time()
        at = options.at.timestamp() if options.at else None
        self._clock = clock = SimulatedClock(start=self._boot, speed=options.speed, shows=at)
        if clock.is_simulated:
            console.show_clock(clock.read)
        self._template_state = _state_of(options.template)
        self._rules: list[TemplateSchedule] = []
        self._take_rules(schedules, clock.read(self._boot))
        environ = self._environ()
        self._places = places = JobPlaces(
            served=served_queues(self._rules, default_registry),
            registry=default_registry,
            pool=RedisPool(url),
            keys=Keys(read(ForClients.namespace, environ)),
        )
        self._worker = self._worker_child(environ)
        self._page = WebChild(environ=environ, console=console)
        self._functions = LocalFunctions(
            template=options.template,
            log=lambda name: None if options.verbose else data.function_log(name),
        )
        self._functions.take(self._rules, environ, self._of_functions(environ))
        self._invoke_api = (
            InvokeApi(
                ports=options.invoke_ports,
                functions=self._functions,
                console=console,
                wake=inbox.wake,
            )
            if options.template and options.invoke
            else None
        )
        self._watch = LedgerWatch(console=console, pool=places.pool, keys=places.keys, clock=clock)
        self._overview = Overview(
            console=console, places=places, rules=self._rules, clock=clock, watch=self._watch
        )
        self._delivery = TickDelivery(
            functions=self._functions.made,
            console=console,
            places=places,
            expect=self._worker.lines.expect,
            run_name=f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(self._boot))}-{os.getpid()}",
            clock=clock,
            watch=self._watch,
        )

    def _take_rules(self, schedules: Sequence[TemplateSchedule], now: datetime) -> None:
        self._others = [schedule for schedule in schedules if not schedule.jobs]
        self._rules[:] = [anchored(schedule, now) for schedule in schedules if schedule.jobs]
        self._agenda = Agenda(self._rules, now)
        self._calendar = ZoneCalendar((rule.timezone for rule in self._rules), now)

    def run(self) -> int:
        """Run until a signal; 0 after an orderly end, 1 when a part cannot go on."""
        try:
            with self._console.together():
                self._functions.start()
                self._worker.start()
                self._show_start(has_keys=self._inbox.listen())
                if self._invoke_api:
                    self._invoke_api.start()
            self._deliver_at_once()
            return self._keep_going()
        finally:
            if self._inbox.ending:
                self._console.line("stop", "", "no more ticks; running jobs end or are given back")
            self._page.ask_to_end()
            if self._invoke_api:
                self._invoke_api.stop()
            self._worker.stop()
            self._functions.stop()
            self._page.stop()
            self._watch.look(time.monotonic(), is_last=True)
            self._overview.show_sums()
            lines = self._worker.lines
            self._console.heading(
                f"kiqbridge dev: {count_text(self._delivery.ticks, 'tick')}, "
                f"{count_text(lines.counts['done'], 'job')} performed, "
                f"{lines.counts['fail']} failed, {lines.unfinished} given back. Bye."
            )

    def _keep_going(self) -> int:
        inbox, worker, overview = self._inbox, self._worker, self._overview
        while not inbox.ending:
            now = self._clock.read(time.time())
            if self._follow(now):
                overview.show_rules(now)
            for change in self._calendar.due(now):
                self._console.line("clock", change.timezone, describe(change, self._rules))
            for firing in self._agenda.due(now):
                if not inbox.ending:
                    self._delivery.fire(firing)
            if self._invoke_api:
                self._invoke_api.serve()
            if not worker.tend():
                return 1
            if self._options.web and worker.lines.is_ready and not self._page.has_started:
                self._page.start()
            if self._server is not None and self._server.exit_code is not None:
                log = self._data.server_log
                self._console.line("error", "", f"the embedded Valkey has ended; see {log}")
                return 1
            overview.look(
                time.monotonic(), now, is_asked=inbox.take_request(), is_ready=worker.lines.is_ready
            )
            inbox.wait(min(self._pause_s(overview.look_again_s), worker.pause_s))
        return 0

    def _follow(self, now: datetime) -> bool:
        """Take over an edited template, with its functions; whether it was."""
        path = self._options.template
        state = _state_of(path)
        if path is None or not self._options.reload or state in ((), self._template_state):
            return False
        self._template_state = state
        try:
            schedules = read_schedules(path, _HERE)
        except ConfigError as error:
            self._console.line("error", "", f"{path} was edited, and is not followed: {error}")
            return False
        self._take_rules(schedules, now)
        environ = self._environ()
        self._functions.take(self._rules, environ, self._of_functions(environ))
        self._functions.start()
        self._console.line(
            "rules", "", f"{path} was edited: {count_text(len(self._rules), 'rule')}"
        )
        return True

    def _pause_s(self, longest_s: float) -> float:
        now = self._clock.read(time.time())
        coming = (self._agenda.next_instant(), self._calendar.next_instant())
        spans = [self._clock.real_seconds(instant - now) for instant in coming if instant]
        return min([longest_s, *spans])

    def _deliver_at_once(self) -> None:
        now = self._clock.read(time.time())
        by_name = {rule.name.lower(): rule for rule in self._rules}
        for name in self._options.fire:
            self._delivery.fire_by_hand(by_name[name.lower()], now)
        if self._options.at is not None:
            return  # what is due from there on is to be seen, and nothing else
        own = [rule for rule in self._rules if self._places.are_here(rule)]
        frequent = most_frequent(own, now)
        if frequent is not None:
            self._delivery.catch_up(frequent, frequent.expression.latest_at_or_before(now), now)

    def _environ(self) -> dict[str, str]:
        """What all children get; the address and the key prefix are those of this run."""
        environ = {key: value for key, value in os.environ.items() if key != "REDIS_PROVIDER"}
        environ |= self._address
        if "KIQBRIDGE_NAMESPACE" not in environ:
            # The worker looks where the functions write.
            of_rules = [
                rule.function.environment.get("KIQBRIDGE_NAMESPACE", "") for rule in self._rules
            ]
            environ["KIQBRIDGE_NAMESPACE"] = next(filter(None, of_rules), "")
        return environ

    @property
    def _address(self) -> dict[str, str]:
        """The address alone; an empty variable counts as not set, also where a rule's template sets one."""
        nothing = {
            name: ""
            for each in (*REDIS_SETTINGS, ForClients.fleets, ForClients.fleet)
            for name in each.env
        }
        return {**nothing, ForClients.redis_url.env[0]: self._url}

    def _of_functions(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What goes before the variables of the template."""
        return {
            **self._address,
            "KIQBRIDGE_NAMESPACE": environ["KIQBRIDGE_NAMESPACE"],
            **self._clock_of_ticks(),
        }

    def _clock_of_ticks(self) -> dict[str, str]:
        """The function's settings for ticks that come from another clock than that of Redis."""
        if not self._clock.is_simulated:
            return {}
        return {
            ForFunctions.tick_offset_s.env[0]: repr(self._clock.offset_s),
            **({ForFunctions.tick_ahead_s.env[0]: "inf"} if self._clock.speed != 1 else {}),
        }

    def _worker_child(self, environ: Mapping[str, str]) -> WorkerChild:
        options = self._options
        arguments = ["-t", f"{options.timeout_s:g}"]
        for flag, values in (("-r", options.require), ("-q", self._places.served.values())):
            arguments += [part for value in values for part in (flag, value)]
        if options.concurrency is not None:
            arguments += ["-c", options.concurrency]
        return WorkerChild(
            arguments=[*arguments, "-v"] if options.verbose else arguments,
            environ={**environ, "KIQBRIDGE_LOG_LEVEL": "info"},  # less would hide the jobs
            console=self._console,
            timeout_s=options.timeout_s,
            on_end=self._inbox.wake,
            watch=SourceWatch(folders_of(options.require)) if options.reload else None,
        )

    def _show_start(self, *, has_keys: bool) -> None:
        console = self._console
        kept = (
            f"embedded Valkey, data kept in {self._data.server_data}/ (--fresh deletes it)"
            if self._server
            else "the server of REDIS_URL"
        )
        what = self._options.template or "jobs alone, without a template,"
        console.heading(f"kiqbridge dev: {what} on {kept}")
        console.text(f"  REDIS_URL={without_password(self._url)}")
        if not self._server:
            console.text(f"  {why_external(os.environ)}")
        if self._invoke_api:
            url, rule = self._invoke_api.url, next(iter(self._rules), None)
            console.text(f"  Lambda's API, by which other services invoke the functions: {url}")
            called = example(
                url, rule.function.name if rule else "NAME", rule.jobs[0] if rule else None
            )
            console.text(f"    {called}")
        if self._clock.is_simulated:
            console.text(f"  simulated: {self._described_clock()}")
        if has_keys:
            console.text("  Enter shows next firings and the ledger; Ctrl-C ends")
        self._overview.show_unserved()
        console.text("")
        now = self._clock.read(self._boot)
        if self._rules:
            self._overview.show_rules(now)
        for other in self._others:
            console.text(
                f"  {other.name} is not fired: {other.function.name} enqueues no jobs", dim=True
            )
        for change in self._calendar.near(now):
            if concerned(change, self._rules):
                console.text(f"  {change.timezone}: {describe(change, self._rules)}")
        console.text("")
        names = [job.name for job in default_registry]
        for rule in self._rules:
            names += [rule.name, *(str(job.get("class", "")) for job in rule.jobs)]
        console.align(names)

    def _described_clock(self) -> str:
        speed, at = self._clock.speed, self._options.at
        pace = "" if speed == 1 else f" runs {speed:g} times as fast"
        start = "now" if at is None else f"at {at:%a %Y-%m-%d %H:%M:%S} UTC"
        joined = f"{pace}, starting {start}" if pace else f" starts {start}"
        return f"the rules' clock{joined}; all times here are its own; durations are real, and jobs see the real clock"


def _state_of(template: Path | None) -> tuple[int, ...]:
    """Time of change and size; empty: there is none, or an editor is replacing it."""
    try:
        found = template.stat() if template is not None else None
    except OSError:
        found = None
    return () if found is None else (found.st_mtime_ns, found.st_size)
