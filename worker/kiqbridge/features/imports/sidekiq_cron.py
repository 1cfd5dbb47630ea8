"""The schedules that the Ruby gem sidekiq-cron keeps in the same Redis: what they are, switching them on and off.

As recorded of version 1.8 (tests/vectors/cron-1.8.0.json): the set `cron_jobs` has the key names of the
schedules, each is a hash; the gem enqueues those whose status is `enabled`. Only `status` is written here.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from kiqbridge.api import Operator, ScheduleView
from kiqbridge.api.schedules import Occurrence, next_firings
from kiqbridge.errors import ConfigError
from kiqbridge.features.imports.fugit import parse_sidekiq_cron
from kiqbridge.schedule.state import ScheduleState
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import shown, text_of

Status = Literal["enabled", "disabled"]

GEM: Final = "sidekiq-cron"
_CRON_STATUS = scripts.load("cron_status", __file__)
_PREFIX: Final = "cron_job:"
_FIELDS: Final = (
    *("cron", "klass", "status", "args", "message", "description", "active_job"),
    *("date_as_argument", "queue_name_prefix", "queue_name_delimiter", "last_enqueue_time"),
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SidekiqCronJob:
    """One schedule of the gem.

    Attributes:
        name: unique.
        cron: a crontab line, perhaps with a zone after it, or a form of fugit's.
        job_class: name of the class.
        enabled: whether the gem enqueues it.
        args: of the job.
        queue: where the gem enqueues it, its prefix included.
        active_job: whether the class is an Active Job.
        date_as_argument: whether the gem appends the time of each enqueuing to the arguments.
        last_enqueue_time: epoch seconds; None = never, or not readable.
        description: for people.
    """

    name: str
    cron: str
    job_class: str
    enabled: bool
    args: Sequence[Any] = ()
    queue: str = "default"
    active_job: bool = False
    date_as_argument: bool = False
    last_enqueue_time: float | None = None
    description: str = ""

    @property
    def status(self) -> Status:
        """As the gem writes it."""
        return "enabled" if self.enabled else "disabled"


def read_sidekiq_cron(connection: RedisLike, keys: Keys) -> list[SidekiqCronJob]:
    """The gem's schedules, by name; empty if the gem is not used. What cannot be read is logged and left out.

    Raises:
        RedisUnavailable: nothing was read.
    """
    members = sorted(text_of(member) for member in connection.call("SMEMBERS", keys.cron_jobs))
    names = [member.removeprefix(_PREFIX) for member in members if member.startswith(_PREFIX)]
    if not names:
        return []
    replies = connection.run(*(("HMGET", keys.cron_job(name), *_FIELDS) for name in names))
    found = []
    for name, values in zip(names, replies, strict=True):
        fields = {
            field: "" if value is None else text_of(value)
            for field, value in zip(_FIELDS, values, strict=True)
        }
        try:
            found.append(_cron_job(name, fields))
        except ValueError as error:
            logger.warning(
                "the schedule %r of sidekiq-cron cannot be read (%s): it is not shown",
                shown(name),
                error,
            )
    return found


def views(operator: Operator, now: float, upcoming: int) -> list[ScheduleView]:
    """The gem's schedules at `now` (epoch seconds), each with its next instants and its last one."""
    return [_view(job, now, upcoming) for job in read_sidekiq_cron(operator.pool, operator.keys)]


def set_cron_status(connection: RedisLike, keys: Keys, name: str, status: Status) -> Status | None:
    """Switch a schedule of the gem on or off; its other fields stay as they are.

    Returns:
        The status before; None if there is no such schedule, and nothing was written.

    Raises:
        RedisUnavailable: perhaps it was written; repeat it.
    """
    before = connection.script(_CRON_STATUS, [keys.cron_job(name)], [status])
    if before is None:
        return None
    return "enabled" if text_of(before) == "enabled" else "disabled"


def _view(job: SidekiqCronJob, now: float, upcoming: int) -> ScheduleView:
    timezone, note = "", "" if job.enabled else "disabled in Ruby"
    instants: list[float] = []
    try:
        when = parse_sidekiq_cron(job.cron)
    except ConfigError:
        note = note or "in a form that only Ruby reads"
    else:
        timezone = when.timezone
        instants = next_firings(when, ScheduleState(), now, upcoming) if job.enabled else []
    last = job.last_enqueue_time
    return ScheduleView(
        name=job.name,
        expression=job.cron,
        timezone=timezone,
        origin=GEM,
        state="enabled" if job.enabled else "disabled",
        note=note,
        classes=[job.job_class],
        queues=[job.queue],
        description=job.description,
        next=instants,
        occurrences=[]
        if last is None
        else [Occurrence(at=int(last), kind="on time", deliveries=1, by=GEM)],
    )


def _cron_job(name: str, fields: dict[str, str]) -> SidekiqCronJob:
    if not fields["cron"] or not fields["klass"]:
        raise ValueError("its hash has no cron or no klass")
    args = json_text.loads((fields["args"] or "[]").encode())
    message = json_text.loads((fields["message"] or "{}").encode())
    if not isinstance(args, list) or not isinstance(message, dict):
        raise ValueError("args is no list, or message no object")  # noqa: TRY004 - of the text
    active_job = fields["active_job"] == "true"
    queue = str(message.get("queue", "default"))
    if active_job and fields["queue_name_prefix"]:
        # As recorded: an Active Job of queue mail with prefix pre goes to pre_mail.
        delimiter = fields["queue_name_delimiter"] or "_"
        queue = f"{fields['queue_name_prefix']}{delimiter}{queue}"
    return SidekiqCronJob(
        name=name,
        cron=fields["cron"],
        job_class=fields["klass"],
        enabled=fields["status"] == "enabled",
        args=args,
        queue=queue,
        active_job=active_job,
        date_as_argument=fields["date_as_argument"] == "true",
        last_enqueue_time=_epoch(fields["last_enqueue_time"]),
        description=fields["description"],
    )


def _epoch(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S %z").timestamp()
    except ValueError:
        return None
