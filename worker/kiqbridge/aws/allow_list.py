"""Which classes and queues may be enqueued from AWS: none that is not listed.

A caller that may invoke the function chooses class, queue and arguments. A `tick` grants nothing: it is taken from
senders that may tick the schedule only. A job's class is matched where it runs: Active Job's adapter is only a wrapper,
and a job that fails may move to another queue.

The lists of the environment are for all sources; with them alone, ticks are taken from direct invocations. Rules
per source (`allow` in mappings.yml) restrict them further: as soon as there is one, a source that no rule names may
enqueue nothing, and one rule must allow class, queue and schedule.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Self

from kiqbridge.aws.record import DIRECT, Sender
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.errors import NotAllowed
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import active_job
from kiqbridge.wire.payload import DEFAULT_OPTIONS

[CLASSES] = ForFunctions.allowed_classes.env
[QUEUES] = ForFunctions.allowed_queues.env
[TRUSTED_ALIAS] = ForFunctions.trusted_alias.env

Globs = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """What records of one source may enqueue; all are globs.

    Attributes:
        place: file, line and key, for messages.
        sources: names of sources (`Record.source`).
        origins: senders (`Record.origin`).
        aliases: by which the function was invoked (`Sender.alias`); by default, without any.
        classes: job classes.
        queues: queues.
        ticks: schedules whose ticks may stand beside the jobs.
    """

    place: str
    sources: Globs
    origins: Globs = ("*",)
    aliases: Globs = ("",)
    classes: Globs = ()
    queues: Globs = ()
    ticks: Globs = ()

    def takes(self, sender: Sender) -> bool:
        """Whether the rule is about records of this sender."""
        return (
            _is_any(sender.source, self.sources)
            and _is_any(sender.origin, self.origins)
            and _is_any(sender.alias, self.aliases)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowList:
    """Globs such as `Billing::*`; an empty tuple allows nothing.

    `rules` restrict that for each source; None = they do not. Invocations by `trusted_alias` count as those without
    an alias; "" = by no alias.
    """

    classes: Globs = ()
    queues: Globs = ()
    rules: tuple[SourceRule, ...] | None = None
    trusted_alias: str = ""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read both lists, comma-separated; a missing one is empty."""
        return cls(
            classes=read(ForFunctions.allowed_classes, environ),
            queues=read(ForFunctions.allowed_queues, environ),
            trusted_alias=read(ForFunctions.trusted_alias, environ),
        )

    def seen_alias(self, alias: str) -> str:
        """The alias that counts of an invocation by this one; "" = none."""
        return "" if alias == self.trusted_alias else alias

    def check(
        self, item: Mapping[str, Any], sender: Sender = DIRECT, schedule: str | None = None
    ) -> None:
        """Refuse a validated item whose class, queue or tick is not listed, for all or for its source.

        Args:
            item: a job as `Client.push` takes it.
            sender: who brought it.
            schedule: that of the tick beside it; None = there is none.

        Raises:
            NotAllowed: names the value, and where to allow it.
        """
        if not (
            len(item) == 2  # noqa: PLR2004 - class and args, as nearly all jobs
            and "args" in item
            and item.get("class") not in active_job.WRAPPERS
            and _is_any(item.get("class"), self.classes)
            and _matches(DEFAULT_OPTIONS["queue"], self.queues)
        ):
            _require(_classes_of(item), self.classes, CLASSES)
            _require(_queues_of(item), self.queues, QUEUES)
        if self.rules is not None:
            self._check_rules(item, sender, schedule)
        elif schedule is not None and sender.source != DIRECT.source:
            raise NotAllowed(
                f"tick.schedule: {shorten(schedule)} of {_shown(sender)}: a tick is taken from direct "
                "invocations only, as which schedules arrive; to allow it write allow into the file of "
                "mappings, with ticks for this source"
            )

    def _check_rules(self, item: Mapping[str, Any], sender: Sender, schedule: str | None) -> None:
        """One rule must allow all classes and queues of the item, and its tick."""
        rules = [rule for rule in self.rules or () if rule.takes(sender)]
        refusals = [_refusal(item, schedule, rule) for rule in rules]
        if "" in refusals:
            return
        if refusals:
            raise NotAllowed(f"{refusals[-1]} for {_shown(sender)}; to allow it add it there")
        raise NotAllowed(
            f"{_shown(sender)} may enqueue nothing: allow in the file of mappings lists other sources only; to "
            "allow it add an entry with its source, classes and queues"
            + (
                f", and alias, or, if it stands for the function itself, set {TRUSTED_ALIAS}={sender.alias}"
                if sender.alias
                else ""
            )
        )


def _shown(sender: Sender) -> str:
    origin = f" and origin {shorten(sender.origin)}" if sender.origin else ""
    alias = f", invoked as {shorten(sender.alias)}," if sender.alias else ""
    return f"source {sender.source!r}{origin}{alias}"


def _refusal(item: Mapping[str, Any], schedule: str | None, rule: SourceRule) -> str:
    """Why a rule does not allow an item; "" = it does."""
    for kind, found, globs in (
        ("classes", _classes_of(item), rule.classes),
        ("queues", _queues_of(item), rule.queues),
        ("ticks", () if schedule is None else (("tick.schedule", schedule),), rule.ticks),
    ):
        for field, name in found:
            if not _is_any(name, globs):
                return f"{field}: {shorten(name)} is not among the {kind} of {rule.place}"
    return ""


def _classes_of(item: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    if active_job.is_active_job(item):
        yield active_job.KEY, item[active_job.KEY]
        return
    wrapped = item.get("wrapped")
    if wrapped is not None:
        yield "wrapped", wrapped
    if item["class"] not in active_job.WRAPPERS:
        yield "class", item["class"]
        return
    inner = item["args"][0] if item["args"] else None
    yield "args[0].job_class", inner.get("job_class") if isinstance(inner, Mapping) else None


def _queues_of(item: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    yield "queue", item.get("queue", DEFAULT_OPTIONS["queue"])
    if item.get("retry_queue") is not None:
        yield "retry_queue", item["retry_queue"]
    if active_job.is_active_job(item):
        return
    if item["class"] in active_job.WRAPPERS and item["args"][0].get("queue_name") is not None:
        yield "args[0].queue_name", item["args"][0]["queue_name"]


def _require(found: Iterable[tuple[str, object]], globs: Globs, variable: str) -> None:
    for field, name in found:
        if _is_any(name, globs):
            continue
        kind = "classes" if variable == CLASSES else "queues"
        why = (
            f"not among the {kind} in {variable}"
            if globs
            else f"refused: {variable} is unset or empty"
        )
        raise NotAllowed(
            f"{field}: {shorten(name)} is {why}; to allow it add its name, or a glob such as "
            f"Billing::*, to that comma-separated list (parameter Allowed{kind.title()} of template.yaml)"
        )


def _is_any(name: object, globs: Globs) -> bool:
    return isinstance(name, str) and _matches(name, globs)


@functools.lru_cache(maxsize=1_000)
def _matches(name: str, globs: Globs) -> bool:
    """Remembered: nearly all jobs have the class and the queue of an earlier one."""
    return any(fnmatchcase(name, glob) for glob in globs)
