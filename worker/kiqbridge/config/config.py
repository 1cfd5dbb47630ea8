"""What a worker runs with: a row of the table of settings for each value, and where each value came from.

The loader, `--help` and docs/reference/settings.md come from the rows, in their order. Those that clients and functions read,
too, are in `client_settings`; what they and the web page alone read is in `function_settings` and `web_settings`.
"""

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Final, Literal, Protocol

from kiqbridge.config import parsers
from kiqbridge.config import worker_parsers as worker
from kiqbridge.config.client_settings import OWN, ForClients, RedisAccess
from kiqbridge.config.setting import Setting
from kiqbridge.config.worker_parsers import QUEUES_VARIABLE, ROUTE, CapsuleSettings
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.dead_bounds import DEFAULT_BOUNDS, DeadBounds
from kiqbridge.wire.payload import ProfileSetting

ForeignJobs = Literal["refuse", "run", "requeue"]
"""What to do with a job that uses a feature of Sidekiq Pro or Enterprise which we cannot honour."""


def _row(setting: Setting | None = None, *, secret: bool = False, **row: Any) -> Any:
    """A field that is a row of the table: a given one, or a new one."""
    return field(metadata={"row": setting or Setting(**row)}, repr=not secret)


class Fleets(Protocol):
    """All fleets of an application."""

    def has(self, queue: str) -> bool:
        """Whether the queue belongs to the own fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a worker runs with; times in seconds."""

    queues: tuple[tuple[str, int], ...] = _row(
        parse=worker.queues,
        default=["default"],
        default_text="those of the declared jobs",
        env=(QUEUES_VARIABLE,),
        option="-q --queue NAME[,WEIGHT]",
        help="queue to serve, with an optional weight; repeatable, replaces the file's queues; in the environment "
        "blanks stand between them",
    )
    concurrency: int = _row(
        parse=worker.concurrency,
        default=10,
        option="-c --concurrency INT",
        help="how many plain jobs run at once, one thread each; at most 1,000",
    )
    async_concurrency: int = _row(
        parse=parsers.whole_number(1),
        default=100,
        option="--async-concurrency INT",
        help="how many `async def` jobs run at once, all on one event loop",
    )
    capsules: tuple[CapsuleSettings, ...] = _row(
        env=(),
        parse=worker.capsules,
        default={},
        help="further capsules: for each name its queues, concurrency and async_concurrency",
    )
    processes: int | Literal["auto"] = _row(
        parse=worker.processes,
        default=1,
        option="--processes INT|auto",
        help="worker processes under one supervisor; auto = one for each CPU; 1 = no supervisor",
    )
    max_memory_mb: int = _row(
        parse=parsers.whole_number(0),
        default=0,
        option="--max-memory-mb INT",
        help="resident memory in MB above which the supervisor replaces a process; 0 = no ceiling",
    )
    pool_size: int | Literal["auto"] = _row(
        parse=worker.processes,
        default="auto",
        help='most child processes for jobs declared with pool="process"; auto = one for each CPU',
    )
    pool_max_jobs: int = _row(
        parse=parsers.whole_number(0),
        default=0,
        help="jobs after which such a child is replaced; 0 = never",
    )
    timeout_s: float = _row(
        parse=parsers.seconds(),
        default=25,
        option="-t --timeout SECONDS",
        file_key="timeout",
        help="how long running jobs may go on after TERM, in seconds",
    )
    require: tuple[str, ...] = _row(
        env=(),
        parse=parsers.texts,
        default=[],
        option="-r --require PATH|MODULE",
        help="code that declares jobs: a dotted module or package, a .py file, or a directory; "
        "repeatable",
    )
    allow_no_jobs: bool = _row(
        parse=parsers.switch,
        default=False,
        option="--allow-no-jobs true|false",
        help="whether a worker starts whose code declares no job",
    )
    environment: str = _row(
        default="development",
        env=("APP_ENV", "RAILS_ENV", "RACK_ENV"),
        option="-e --environment ENV",
        help="section of the file that is merged over its top level",
    )
    tag: str = _row(
        env=(),
        option="-g --tag TAG",
        help="name shown for this process; none = the name of the working directory",
    )
    app: str = _row(
        help="application that declared schedules belong to; none = the package or file that declares them"
    )
    labels: tuple[str, ...] = _row(
        parse=parsers.texts, default=[], env=(), help="labels shown for this process"
    )
    log_level: str = _row(
        parse=parsers.choice("debug", "info", "warning", "warn", "error", "critical", "fatal"),
        default="info",
        option="--log-level LEVEL",
        switches=("-v", "--verbose"),
        switch_value="debug",
        help="least important level that is logged: debug, info, warning or error; -v is debug",
    )
    log_format: str = _row(
        parse=parsers.choice("auto", "pretty", "json", "plain"),
        default="auto",
        help="pretty, json or plain; auto is pretty on a terminal, else json",
    )
    logged_job_attributes: tuple[str, ...] = _row(
        parse=parsers.words,
        default=["bid", "tags", "traceparent", "X-Amzn-Trace-Id"],
        help="attributes of a job that each of its log lines has, besides class, jid and queue",
    )
    skip_default_job_logging: bool = _row(
        parse=parsers.switch,
        default=False,
        help="true = no `start`, `done` and `fail` for each job",
    )
    redact: tuple[str, ...] = _row(ForClients.redact)
    redis_url: str = _row(ForClients.redis_url, secret=True)
    redis_secret_arn: str = _row(ForClients.redis_secret_arn)
    redis_ssm_parameter: str = _row(ForClients.redis_ssm_parameter)
    redis_iam_user: str = _row(ForClients.redis_iam_user)
    redis_iam_cache: str = _row(ForClients.redis_iam_cache)
    namespace: str = _row(ForClients.namespace)
    fleets: Fleets | None = _row(ForClients.fleets)
    fleet: str = _row(ForClients.fleet)
    profile: ProfileSetting = _row(ForClients.profile)
    fetch: str = _row(
        parse=parsers.choice("reliable", "basic"),
        default="reliable",
        help="reliable: a killed worker loses no job; basic: Sidekiq's own BRPOP, which loses what runs",
    )
    look_ahead: int = _row(
        parse=parsers.whole_number(1, 1000),
        default=100,
        help="most short jobs that a thread claims at once; 1 = one at a time",
    )
    recover_after_s: float = _row(
        parse=parsers.seconds(),
        default=30,
        help="seconds within which the jobs of a killed worker are given back",
    )
    orphan_limit: int = _row(
        parse=parsers.whole_number(1),
        default=3,
        help="how often a job may be found in a dead or stuck process until it is suspected and runs alone",
    )
    settle_replicas: int = _row(
        parse=parsers.whole_number(0),
        default=0,
        help="replicas that must confirm a retry, a death or a return before the worker continues; 0 = none",
    )
    start_period_s: float = _row(
        parse=parsers.seconds(zero_is_off=True),
        default=60,
        help="seconds after the start in which `kiqbridge health --live` succeeds although Redis was not reached",
    )
    stuck_after_s: float = _row(
        parse=parsers.seconds(least=5),
        default=30.0,
        help="seconds after which a thread that is stuck outside of jobs is logged with all stacks and makes the "
        "worker unhealthy; from 5",
    )
    end_stuck_after_s: float = _row(
        parse=parsers.seconds(least=5),
        default=120.0,
        help="seconds after which a worker with such a thread ends with status 70, to be started anew; from 5",
    )
    loop_blocked_s: float = _row(
        parse=parsers.seconds(zero_is_off=True),
        default=1.0,
        help="seconds after which a job that blocks the event loop of `async def` jobs is logged with its stack; "
        "0 = never",
    )
    beat_s: float = _row(
        parse=parsers.seconds(),
        default=10,
        help="seconds between heartbeats; buttons of the Web UI act at the next one",
    )
    metrics: str = _row(
        parse=worker.metrics,
        default="both",
        help="Metrics pages that show our jobs: 7 or 8 = that of Sidekiq 7, or of 8 and later; both; off",
    )
    prometheus_port: int = _row(
        feature="telemetry",
        parse=parsers.whole_number(0, 65_535),
        default=0,
        help="port of /metrics of each worker process; several processes take the first free one of as many ports;"
        " 0 = none",
    )
    prometheus_host: str = _row(
        feature="telemetry",
        default="127.0.0.1",
        help="address of that port; it has no authentication",
    )
    statsd: str = _row(
        feature="telemetry",
        parse=worker.statsd,
        help="HOST:PORT of StatsD over UDP, sent to every 10 seconds",
    )
    opentelemetry: bool = _row(
        feature="telemetry",
        parse=parsers.switch,
        default=False,
        help="whether OpenTelemetry metrics are sent over OTLP/HTTP, as the variables OTEL_… say",
    )
    run_dir: str = _row(
        help="folder of the file that `kiqbridge health` reads; none = a folder of the user among the temporary files"
    )
    foreign_jobs: ForeignJobs = _row(
        parse=parsers.choice("refuse", "run", "requeue"),
        default="refuse",
        help="jobs of a batch of Sidekiq Pro (bid) or encrypted ones of Enterprise (encrypt): refuse = to the dead"
        " set, run = run and warn, requeue = put off by a minute until a Ruby worker takes them",
    )
    unknown_class: str = _row(
        parse=worker.unknown_class,
        default="retry",
        help="jobs whose class is not declared here: retry = fail and be retried; route:QUEUE = to another queue, "
        "unchanged",
    )
    shell_commands: tuple[str, ...] = _row(
        parse=worker.shell_commands,
        default=(),
        feature="shell_command",
        help="commands that the job ShellCommand may run, one a line or with commas: word by word, with * and ?; "
        "with = in front, or if a shell is needed, letter by letter; none = the job is not declared",
    )
    shell_environment: tuple[str, ...] = _row(
        parse=parsers.words,
        default=(),
        help="worker's variables that such commands get besides PATH, HOME, LANG and the like",
    )
    shell_time_limit_s: float = _row(
        parse=parsers.seconds(), default=3600, help="seconds after which such a command is ended"
    )
    ecs_protect_after_s: float = _row(
        parse=parsers.seconds(zero_is_off=True),
        default=0,
        feature="ecs",
        help="seconds after which a running job has ECS protect its task from scale-in, until it ends; 0 = never",
    )
    task_heartbeat_s: float = _row(
        parse=parsers.seconds(zero_is_off=True),
        default=30,
        help="seconds between heartbeats to Step Functions while a job runs that a state machine waits for; "
        "`task_heartbeat_s` of a job goes first; 0 = none",
    )
    schedule_horizon_s: float = _row(
        parse=parsers.seconds(),
        default=300,
        help="seconds for which occurrences of dynamic schedules are placed ahead",
    )
    missed_tick_webhook: str = _row(worker.OfMissedTicks.missed_tick_webhook, secret=True)
    missed_tick_sns_topic_arn: str = _row(worker.OfMissedTicks.missed_tick_sns_topic_arn)
    alerts: Any = _row(
        feature="alerts",
        parse=parsers.of_feature("alerts", "setting:parse_alerts"),
        secret=True,
        default=None,
        default_text="none",
        help="rules of the doctor and receivers of their alerts (docs/reference/doctor.md); in the environment as JSON",
    )
    max_iteration_runtime_s: float | None = _row(
        parse=parsers.seconds_or_none,
        file_key="max_iteration_runtime",
        help="seconds after which an iterable job makes room for others; none = when the worker stops",
    )
    max_retries: int = _row(
        env=(), parse=parsers.whole_number(0), default=25, help="retries of a job with retry: true"
    )
    dead_max_jobs: int = _row(
        env=(),
        parse=parsers.whole_number(1),
        default=DEFAULT_BOUNDS.max_jobs,
        help="size of the dead set, which holds one job fewer, as Sidekiq's; the largest of the living workers counts",
    )
    dead_timeout_s: int = _row(
        env=(),
        parse=parsers.whole_number(1),
        default=DEFAULT_BOUNDS.timeout_s,
        file_key="dead_timeout_in_seconds",
        help="seconds that a dead job is kept",
    )
    dead_overflow: str = _row(
        parse=parsers.choice("drop", "keep"),
        default="drop",
        help="when more than dead_max_jobs are dead: drop = the oldest are removed; keep = the set grows, and "
        "workers warn; Ruby processes drop in any case",
    )
    dead_archive: str = _row(
        parse=worker.dead_archive,
        help="folder, or s3://BUCKET/PREFIX, to which dead jobs are written before they are removed, for kiqbridge"
        " restore",
    )
    keep_done: int = _row(worker.KEEP_DONE)
    max_payload_bytes: int = _row(ForClients.max_payload_bytes)
    sources: Mapping[str, str] = field(repr=False)
    aws: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of the environment that are AWS's: region, endpoints, keys."""

    @property
    def dead_bounds(self) -> DeadBounds:
        """Those of the dead set."""
        return DeadBounds(self.dead_max_jobs, self.dead_timeout_s, self.dead_overflow == "keep")

    @property
    def reports_numbers(self) -> bool:
        """Whether a system outside of Redis gets the numbers of the process."""
        return bool(self.prometheus_port or self.statsd or self.opentelemetry)

    @property
    def redis(self) -> RedisAccess:
        """Where Redis is, and what a connection logs in with.

        Raises:
            ConfigError: settings exclude each other.
        """
        return RedisAccess(
            url_is_default=self.sources.get("redis_url") == "default",
            aws=self.aws,
            namespace=self.namespace,
            **{name: getattr(self, f"redis_{name}") for name in OWN},
        )


SETTINGS: Final = tuple(
    row.named(each.name) for each in fields(Config) if (row := each.metadata.get("row")) is not None
)
"""The rows of the worker."""


def routed_queue(unknown_class: str) -> str | None:
    """The queue to which the setting `unknown_class` routes, None when such jobs are retried."""
    return unknown_class.removeprefix(ROUTE) if unknown_class.startswith(ROUTE) else None
