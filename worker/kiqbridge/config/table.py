"""The table of settings, from which the loader, `--help` and docs/settings.md come.

`SETTINGS` has the worker's rows in the order of the document; those that clients read, too, are in
`client_settings`. `ALL_SETTINGS` has every row.
"""

from typing import Final

from kiqbridge.config.client_settings import (
    CLIENT_SETTINGS,
    FLEET,
    FLEETS,
    MAX_PAYLOAD_BYTES,
    NAMESPACE,
    PROFILE,
    REDACT,
    REDIS_SETTINGS,
)
from kiqbridge.config.function_settings import FUNCTION_SETTINGS
from kiqbridge.config.parsers import (
    choice,
    seconds,
    seconds_or_none,
    seconds_or_off,
    switch,
    texts,
    whole_number,
    words,
)
from kiqbridge.config.setting import Setting
from kiqbridge.config.web_settings import WEB_SETTINGS
from kiqbridge.config.worker_parsers import (
    QUEUES_VARIABLE,
    archive_place,
    capsules,
    concurrency,
    host_port,
    metrics,
    processes,
    queues,
    shell_commands,
    unknown_class,
    webhook,
)
from kiqbridge.wire.dead_bounds import DEFAULT_BOUNDS

MISSED_TICK_WEBHOOK: Final = Setting(
    name="missed_tick_webhook",
    parse=webhook("missed_tick_webhook"),
    help="https address that gets a POST with JSON when a tick of a schedule did not come; none = no one",
    read_by=("worker", "function"),
)

MISSED_TICK_SNS_TOPIC_ARN: Final = Setting(
    name="missed_tick_sns_topic_arn",
    help="SNS topic to which the same is published; none = no one",
    read_by=("worker", "function"),
)

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="queues",
        parse=queues,
        default=["default"],
        default_text="those of the declared jobs",
        env=(QUEUES_VARIABLE,),
        flags=("-q", "--queue"),
        metavar="NAME[,WEIGHT]",
        help="queue to serve, with an optional weight; repeatable, replaces the file's queues; in "
        "the environment blanks stand between them; the default leaves out queues of capsules, and gives each of "
        "several weight 1",
    ),
    Setting(
        name="concurrency",
        parse=concurrency,
        default=10,
        flags=("-c", "--concurrency"),
        metavar="INT",
        help="how many plain jobs run at once, one thread each; at most 1,000",
    ),
    Setting(
        name="async_concurrency",
        parse=whole_number("async_concurrency", 1),
        default=100,
        flags=("--async-concurrency",),
        metavar="INT",
        help="how many `async def` jobs run at once, all on one event loop",
    ),
    Setting(
        name="capsules",
        env=(),
        parse=capsules,
        default={},
        help="further capsules in the same process: for each name its queues, concurrency and "
        "async_concurrency",
    ),
    Setting(
        name="processes",
        parse=processes("processes"),
        default=1,
        flags=("--processes",),
        metavar="INT|auto",
        help="how many worker processes run under one supervisor, each with its own threads; auto = one "
        "for each CPU that it may use; 1 = no supervisor",
    ),
    Setting(
        name="max_memory_mb",
        parse=whole_number("max_memory_mb", 0),
        default=0,
        flags=("--max-memory-mb",),
        metavar="INT",
        help="resident memory in MB above which the supervisor replaces a process; 0 = no ceiling",
    ),
    Setting(
        name="pool_size",
        parse=processes("pool_size"),
        default="auto",
        help='most child processes for jobs declared with pool="process", started when needed; auto = one for '
        "each CPU that it may use",
    ),
    Setting(
        name="pool_max_jobs",
        parse=whole_number("pool_max_jobs", 0),
        default=0,
        help="jobs after which such a child is replaced, against leaks; 0 = never",
    ),
    Setting(
        name="timeout_s",
        parse=seconds("timeout"),
        default=25,
        flags=("-t", "--timeout"),
        file_key="timeout",
        metavar="SECONDS",
        help="how long running jobs may go on after TERM, in seconds",
    ),
    Setting(
        name="require",
        env=(),
        parse=texts("require"),
        default=[],
        flags=("-r", "--require"),
        metavar="PATH|MODULE",
        help="code that declares jobs: a dotted module or package, a .py file, or a directory; "
        "repeatable",
    ),
    Setting(
        name="environment",
        default="development",
        env=("APP_ENV", "RAILS_ENV", "RACK_ENV"),
        flags=("-e", "--environment"),
        metavar="ENV",
        help="section of the file that is merged over its top level",
    ),
    Setting(
        name="tag",
        env=(),
        flags=("-g", "--tag"),
        metavar="TAG",
        help="name shown for this process; none = that of the working directory",
    ),
    Setting(
        name="app",
        help="application whose workers keep its declared schedules; none = the package or file that declares them. Two "
        "applications of one namespace whose packages have the same name need it",
    ),
    Setting(
        name="labels",
        parse=texts("labels"),
        default=[],
        env=(),
        help="labels shown for this process",
    ),
    Setting(
        name="log_level",
        parse=choice("log_level", "debug", "info", "warning", "warn", "error", "critical", "fatal"),
        default="info",
        flags=("--log-level",),
        switches=("-v", "--verbose"),
        switch_value="debug",
        metavar="LEVEL",
        help="least important level that is logged: debug, info, warning or error; -v is debug",
    ),
    Setting(
        name="log_format",
        parse=choice("log_format", "auto", "pretty", "json", "plain"),
        default="auto",
        help="pretty, json or plain; auto is pretty on a terminal, else json",
    ),
    Setting(
        name="logged_job_attributes",
        parse=words("logged_job_attributes"),
        default=["bid", "tags", "traceparent", "X-Amzn-Trace-Id"],
        help="attributes of a job that each of its log lines carries, besides class, jid and queue; in "
        "the environment with commas between them",
    ),
    Setting(
        name="skip_default_job_logging",
        parse=switch("skip_default_job_logging"),
        default=False,
        help="true = no `start`, `done` and `fail` for each job",
    ),
    REDACT,
    *REDIS_SETTINGS,
    NAMESPACE,
    FLEETS,
    FLEET,
    PROFILE,
    Setting(
        name="fetch",
        parse=choice("fetch", "reliable", "basic"),
        default="reliable",
        help="reliable: a killed worker loses no job; basic: Sidekiq's own BRPOP, which loses what runs",
    ),
    Setting(
        name="look_ahead",
        parse=whole_number("look_ahead", 1, 1000),
        default=100,
        help="most short jobs that a thread claims at once; 1 = one at a time",
    ),
    Setting(
        name="recover_after_s",
        parse=seconds("recover_after_s"),
        default=30,
        help="bound within which the jobs of a killed worker are given back, in seconds",
    ),
    Setting(
        name="orphan_limit",
        parse=whole_number("orphan_limit", 1),
        default=3,
        help="how often a job may be found in the hands of a dead process until it is suspected of killing "
        "them and runs alone",
    ),
    Setting(
        name="settle_replicas",
        parse=whole_number("settle_replicas", 0),
        default=0,
        help="how many replicas must confirm that a job is to be tried again, dead, put off or given back, "
        "before its worker goes on; 0 = none",
    ),
    Setting(
        name="start_period_s",
        parse=seconds_or_off("start_period_s"),
        default=60,
        help="seconds after the start for which `kiqbridge health --live` succeeds though Redis has never been "
        "reached; 0 = for orchestrators that have a start period of their own",
    ),
    Setting(
        name="stuck_after_s",
        parse=seconds("stuck_after_s", least=5),
        default=30.0,
        help="seconds after which a thread of the worker that does not get on, outside of jobs, is logged "
        "with all stacks and makes its health red; from 5",
    ),
    Setting(
        name="end_stuck_after_s",
        parse=seconds("end_stuck_after_s", least=5),
        default=120.0,
        help="seconds after which a worker with such a thread gives back what it holds and ends with "
        "status 70, to be started anew; from 5",
    ),
    Setting(
        name="loop_blocked_s",
        parse=seconds_or_off("loop_blocked_s"),
        default=1.0,
        help="seconds after which a job that blocks the event loop of `async def` jobs is logged with its stack; "
        "0 = never",
    ),
    Setting(
        name="beat_s",
        parse=seconds("beat_s"),
        default=10,
        help="seconds between heartbeats; buttons of the Web UI act at the next one",
    ),
    Setting(
        name="metrics",
        parse=metrics,
        default="both",
        help="whose Metrics page shows our jobs: 7 or 8 = that of Sidekiq 7 or 8 and later, both, or off",
    ),
    Setting(
        name="prometheus_port",
        parse=whole_number("prometheus_port", 0, 65_535),
        default=0,
        help="port on which each worker process serves its own numbers at /metrics; several processes take the "
        "first free one of as many ports from it on; 0 = none",
    ),
    Setting(
        name="prometheus_host",
        default="127.0.0.1",
        help="address on which it does; there is no authentication, so open it to Prometheus alone",
    ),
    Setting(
        name="statsd",
        parse=host_port("statsd"),
        help="HOST:PORT to which numbers are sent in StatsD's form over UDP, every 10 seconds; none = nowhere",
    ),
    Setting(
        name="opentelemetry",
        parse=switch("opentelemetry"),
        default=False,
        help="whether numbers are sent as OpenTelemetry metrics over OTLP/HTTP; where to is in the standard "
        "variables OTEL_…",
    ),
    Setting(
        name="run_dir",
        help="folder of the file that `kiqbridge health` reads; none = a folder of the user's own "
        "among the system's temporary files",
    ),
    Setting(
        name="foreign_jobs",
        parse=choice("foreign_jobs", "refuse", "run", "requeue"),
        default="refuse",
        help="jobs of a batch of Sidekiq Pro (bid) or encrypted ones of Enterprise (encrypt): refuse = to "
        "the dead set, run = run and warn, requeue = put off by a minute until a Ruby worker takes them",
    ),
    Setting(
        name="unknown_class",
        parse=unknown_class,
        default="retry",
        help="jobs whose class is not declared here: retry = fail and be retried, as in Ruby; route:QUEUE "
        "= pass them on to another queue, untouched",
    ),
    Setting(
        name="shell_commands",
        parse=shell_commands,
        default=(),
        help="commands that the job ShellCommand may run, one a line, or with commas between them if they have "
        "none: word by word, with * and ?; with = in front, or if a shell is needed, letter by letter; none = the job "
        "is not declared",
    ),
    Setting(
        name="shell_environment",
        parse=words("shell_environment"),
        default=(),
        help="names of the worker's variables that such commands get besides PATH, HOME, LANG and the like",
    ),
    Setting(
        name="shell_time_limit_s",
        parse=seconds("shell_time_limit_s"),
        default=3600,
        help="seconds after which such a command is ended",
    ),
    Setting(
        name="ecs_protect_after_s",
        parse=seconds_or_off("ecs_protect_after_s"),
        default=0,
        help="seconds after which a running job has ECS protect its task from scale-in and deployments, "
        "until it ends; 0 = never",
    ),
    Setting(
        name="task_heartbeat_s",
        parse=seconds_or_off("task_heartbeat_s"),
        default=30,
        help="seconds between two heartbeats to Step Functions while a job runs that a state machine waits "
        "for; `task_heartbeat_s` in a job counts first; 0 = none",
    ),
    Setting(
        name="schedule_horizon_s",
        parse=seconds("schedule_horizon_s"),
        default=300,
        help="seconds for which occurrences of dynamic schedules are placed ahead: a fleet that is away for a "
        "shorter time fires each one in time when it is back",
    ),
    MISSED_TICK_WEBHOOK,
    MISSED_TICK_SNS_TOPIC_ARN,
    Setting(
        name="max_iteration_runtime_s",
        parse=seconds_or_none("max_iteration_runtime"),
        file_key="max_iteration_runtime",
        help="seconds after which an iterable job makes room for others and goes on later; none = "
        "when the worker stops",
    ),
    Setting(
        name="max_retries",
        env=(),
        parse=whole_number("max_retries", 0),
        default=25,
        help="retries of a job with retry: true",
    ),
    Setting(
        name="dead_max_jobs",
        env=(),
        parse=whole_number("dead_max_jobs", 1),
        default=DEFAULT_BOUNDS.max_jobs,
        help="size of the dead set, which holds one job fewer, as Sidekiq's does; the widest of the living workers "
        "holds",
    ),
    Setting(
        name="dead_timeout_s",
        env=(),
        parse=whole_number("dead_timeout_in_seconds", 1),
        default=DEFAULT_BOUNDS.timeout_s,
        file_key="dead_timeout_in_seconds",
        help="seconds that a dead job is kept, unless younger ones fill the set",
    ),
    Setting(
        name="dead_overflow",
        parse=choice("dead_overflow", "drop", "keep"),
        default="drop",
        help="what happens when more than dead_max_jobs are dead: drop = the oldest are removed, as Sidekiq does; "
        "keep = the set grows, and workers warn; Ruby processes drop in any case",
    ),
    Setting(
        name="dead_archive",
        parse=archive_place("dead_archive"),
        help="folder, or s3://BUCKET/PREFIX, to which dead jobs are written before they are removed, in files for "
        "kiqbridge restore; none = they are gone",
    ),
    MAX_PAYLOAD_BYTES,
)

CLIENT_ONLY_SETTINGS: Final = tuple(each for each in CLIENT_SETTINGS if each not in SETTINGS)

ALL_SETTINGS: Final[tuple[Setting, ...]] = (
    *SETTINGS,
    *CLIENT_ONLY_SETTINGS,
    *FUNCTION_SETTINGS,
    *WEB_SETTINGS,
)
