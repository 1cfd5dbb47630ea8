"""The settings: one table from which the loader, `--help` and `docs/settings.md` come.

Precedence: defaults < file < environment < command line. Each value remembers where it came from,
so that an error can name it. Frozen once made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from kiqbridge import redaction
from kiqbridge.errors import ConfigError
from kiqbridge.payload import ProfileSetting, parse_profile
from kiqbridge.queues import fault_of_name, parse_queue
from kiqbridge.raw_job import DEFAULT_MAX_PAYLOAD_BYTES, MAX_PAYLOAD_VARIABLE

Warn = Callable[[str], None]

ForeignJobs = Literal["refuse", "run", "requeue"]
"""What to do with a job that uses a feature of Sidekiq Pro or Enterprise which we cannot honour."""

_ROUTE = "route:"

MOST_THREADS = 1000
"""Of one capsule; `infra/worker_service.yaml` takes as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsuleSettings:
    """A capsule beside the default one; `async_concurrency` None = as the default one has it."""

    name: str
    queues: tuple[tuple[str, int], ...]
    concurrency: int
    async_concurrency: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a worker runs with; times in seconds."""

    queues: tuple[tuple[str, int], ...]
    concurrency: int
    async_concurrency: int
    capsules: tuple[CapsuleSettings, ...]
    processes: int | Literal["auto"]
    max_memory_mb: int
    pool_size: int | Literal["auto"]
    pool_max_jobs: int
    timeout_s: float
    require: tuple[str, ...]
    environment: str
    tag: str
    labels: tuple[str, ...]
    log_level: str
    log_format: str
    logged_job_attributes: tuple[str, ...]
    skip_default_job_logging: bool
    redact: tuple[str, ...]
    redis_url: str = field(repr=False)
    namespace: str
    profile: ProfileSetting
    fetch: str
    look_ahead: int
    recover_after_s: float
    orphan_limit: int
    settle_replicas: int
    start_period_s: float
    stuck_after_s: float
    end_stuck_after_s: float
    beat_s: float
    metrics: str
    run_dir: str
    ecs_protect_after_s: float
    foreign_jobs: ForeignJobs
    unknown_class: str
    max_iteration_runtime_s: float | None
    max_retries: int
    dead_max_jobs: int
    dead_timeout_s: int
    max_payload_bytes: int
    sources: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table.

    Attributes:
        parse: gets the raw value and the source, for its message.
        env: variables that hold it, the strongest first.
        provider: a variable that names another one, which then holds it instead of `env`.
        switches: flags without a value, which stand for `switch_value`.
        file_key: its name in the file, if that is another one.
        default_text: the default in words, where it depends on what is loaded.
    """

    name: str
    parse: Callable[[Any, str], Any]
    default: Any
    help: str
    env: tuple[str, ...] = ()
    provider: str | None = None
    flags: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    switch_value: str | None = None
    file_key: str | None = None
    default_text: str | None = None
    metavar: str | None = None


def _whole_number(name: str, least: int, most: int | None = None) -> Callable[[Any, str], int]:
    allowed = f"from {least}" if most is None else f"from {least} to {most:,}"

    def parse(value: Any, source: str) -> int:
        try:
            number = int(str(value))
        except ValueError:
            number = least - 1
        if isinstance(value, bool) or number < least or (most is not None and number > most):
            raise ConfigError(f"{name}: {value!r} is not a whole number {allowed} (from {source})")
        return number

    return parse


def _concurrency(value: Any, source: str) -> int:
    number = _whole_number("concurrency", 1)(value, source)
    if number > MOST_THREADS:
        raise ConfigError(
            f"concurrency: {value!r} is more than {MOST_THREADS:,} (from {source}); each is a thread of one "
            "process, which uses one processor: run more processes (--processes) or workers, or declare "
            "jobs that wait as async def"
        )
    return number


def _seconds(name: str, least: float = 0.0) -> Callable[[Any, str], float]:
    allowed = f"from {least:g}" if least else "above 0"

    def parse(value: Any, source: str) -> float:
        try:
            number = float(str(value))
        except ValueError:
            number = 0.0
        if isinstance(value, bool) or not (number > 0 and least <= number < float("inf")):
            raise ConfigError(
                f"{name}: {value!r} is not a number of seconds {allowed} (from {source})"
            )
        return number

    return parse


def _seconds_or_off(name: str) -> Callable[[Any, str], float]:
    above_0 = _seconds(name)

    def parse(value: Any, source: str) -> float:
        if str(value) in ("0", "0.0"):
            return 0.0
        try:
            return above_0(value, source)
        except ConfigError as error:
            raise ConfigError(f"{error}; 0 = off") from None

    return parse


def _seconds_or_none(name: str) -> Callable[[Any, str], float | None]:
    above_0 = _seconds(name)
    return lambda value, source: None if value == "" else above_0(value, source)


def _text(name: str) -> Callable[[Any, str], str]:
    def parse(value: Any, source: str) -> str:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            # Not the value: it may hold a password.
            raise ConfigError(f"{name}: a {type(value).__name__} is not a text (from {source})")
        return str(value)

    return parse


def _texts(name: str) -> Callable[[Any, str], tuple[str, ...]]:
    def parse(value: Any, source: str) -> tuple[str, ...]:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(_text(name)(item, source) for item in items)

    return parse


def _words(name: str) -> Callable[[Any, str], tuple[str, ...]]:
    """A list of texts, or one text with commas between them."""

    def parse(value: Any, source: str) -> tuple[str, ...]:
        if isinstance(value, str):
            value = value.split(",")
        return tuple(text.strip() for text in _texts(name)(value, source) if text.strip())

    return parse


def _switch(name: str) -> Callable[[Any, str], bool]:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

    def parse(value: Any, source: str) -> bool:
        chosen = known.get(str(value).lower())
        if chosen is None:
            raise ConfigError(f"{name}: {value!r} is neither true nor false (from {source})")
        return chosen

    return parse


def _choice(name: str, *allowed: str) -> Callable[[Any, str], str]:
    def parse(value: Any, source: str) -> str:
        if str(value).lower() not in allowed:
            raise ConfigError(
                f"{name}: {value!r} is not one of {', '.join(allowed)} (from {source})"
            )
        return str(value).lower()

    return parse


def _queues(value: Any, source: str) -> tuple[tuple[str, int], ...]:
    """A list of `name`, `name,weight` and [name, weight], or a mapping of names to weights.

    In the environment blanks stand between them.
    """
    if source == QUEUES_VARIABLE:
        value = str(value).split()
    if isinstance(value, Mapping):
        value = [list(pair) for pair in value.items()]
    if not isinstance(value, list | tuple) or not value:
        raise ConfigError(f"queues: {value!r} is not a list of queue names (from {source})")
    return tuple(_queue(item, source) for item in value)


def _queue(item: Any, source: str) -> tuple[str, int]:
    parts = item if isinstance(item, list | tuple) else [item]
    if (
        len(parts) not in (1, 2)  # [name] or [name, weight]
        or any(isinstance(part, bool) or not isinstance(part, str | int) for part in parts)
    ):
        raise ConfigError(
            f"queues: {item!r} is not a queue (from {source}); write name, or name,weight, or "
            "[name, weight]"
        )
    return parse_queue(",".join(str(part) for part in parts), source=source)


def _processes(name: str) -> Callable[[Any, str], int | Literal["auto"]]:
    def parse(value: Any, source: str) -> int | Literal["auto"]:
        if str(value).lower() == "auto":
            return "auto"
        try:
            return _whole_number(name, 1)(value, source)
        except ConfigError as error:
            raise ConfigError(
                f"{error}; write how many processes, or auto for one per CPU"
            ) from None

    return parse


def _metrics(value: Any, source: str) -> str:
    # A bare off is YAML's false.
    return _choice("metrics", "both", "7", "8", "off")("off" if value is False else value, source)


def _profile(value: Any, source: str) -> ProfileSetting:
    return parse_profile(str(value), source=source)


def _unknown_class(value: Any, source: str) -> str:
    text = str(value)
    if text == "retry" or (
        text.startswith(_ROUTE) and fault_of_name(text.removeprefix(_ROUTE)) is None
    ):
        return text
    raise ConfigError(
        f"unknown_class: {value!r} is neither retry nor {_ROUTE}QUEUE (from {source}); write for instance "
        f"{_ROUTE}ruby to pass jobs that are not declared here on to queue ruby"
    )


def routed_queue(unknown_class: str) -> str | None:
    """The queue to which the setting `unknown_class` routes, None when such jobs are retried."""
    return unknown_class.removeprefix(_ROUTE) if unknown_class.startswith(_ROUTE) else None


def _capsules(value: Any, source: str) -> tuple[CapsuleSettings, ...]:
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"capsules: {value!r} is not a mapping of names to concurrency and queues (from {source})"
        )
    return tuple(_capsule(str(name), section, source) for name, section in value.items())


def _capsule(name: str, section: Any, source: str) -> CapsuleSettings:
    where = f"capsule {name} in {source}"
    if name == "default":
        raise ConfigError(
            f"{where}: default is described by queues and concurrency at the top level; choose another "
            "name"
        )
    if not isinstance(section, Mapping) or not section.get("queues"):
        raise ConfigError(
            f"{where}: {section!r} names no queues; write concurrency and queues below it"
        )
    unknown = [str(key) for key in section if key not in _CAPSULE_KEYS]
    if unknown:
        raise ConfigError(
            f"{where}: {', '.join(unknown)} is no setting of a capsule; these are "
            f"{', '.join(_CAPSULE_KEYS)}"
        )
    asynchronous = section.get("async_concurrency")
    return CapsuleSettings(
        name=name,
        queues=_queues(section["queues"], where),
        concurrency=_concurrency(section.get("concurrency", 1), where),
        async_concurrency=None
        if asynchronous is None
        else _whole_number("concurrency", 1)(asynchronous, where),
    )


_CAPSULE_KEYS = ("concurrency", "queues", "async_concurrency")

QUEUES_VARIABLE = "KIQBRIDGE_QUEUES"

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="queues",
        parse=_queues,
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
        parse=_concurrency,
        default=10,
        env=("KIQBRIDGE_CONCURRENCY",),
        flags=("-c", "--concurrency"),
        metavar="INT",
        help="how many plain jobs run at once, one thread each; at most 1,000",
    ),
    Setting(
        name="async_concurrency",
        parse=_whole_number("async_concurrency", 1),
        default=100,
        env=("KIQBRIDGE_ASYNC_CONCURRENCY",),
        flags=("--async-concurrency",),
        metavar="INT",
        help="how many `async def` jobs run at once, all on one event loop",
    ),
    Setting(
        name="capsules",
        parse=_capsules,
        default={},
        help="further capsules in the same process: for each name its queues, concurrency and "
        "async_concurrency",
    ),
    Setting(
        name="processes",
        parse=_processes("processes"),
        default=1,
        env=("KIQBRIDGE_PROCESSES",),
        flags=("--processes",),
        metavar="INT|auto",
        help="how many worker processes run under one supervisor, each with its own threads; auto = one "
        "for each CPU that it may use; 1 = no supervisor",
    ),
    Setting(
        name="max_memory_mb",
        parse=_whole_number("max_memory_mb", 0),
        default=0,
        env=("KIQBRIDGE_MAX_MEMORY_MB",),
        flags=("--max-memory-mb",),
        metavar="INT",
        help="resident memory in MB above which the supervisor replaces a process; 0 = no ceiling",
    ),
    Setting(
        name="pool_size",
        parse=_processes("pool_size"),
        default="auto",
        env=("KIQBRIDGE_POOL_SIZE",),
        help='most child processes for jobs declared with pool="process", started when needed; auto = one for '
        "each CPU that it may use",
    ),
    Setting(
        name="pool_max_jobs",
        parse=_whole_number("pool_max_jobs", 0),
        default=0,
        env=("KIQBRIDGE_POOL_MAX_JOBS",),
        help="jobs after which such a child is replaced, against leaks; 0 = never",
    ),
    Setting(
        name="timeout_s",
        parse=_seconds("timeout"),
        default=25,
        env=("KIQBRIDGE_TIMEOUT_S",),
        flags=("-t", "--timeout"),
        file_key="timeout",
        metavar="SECONDS",
        help="how long running jobs may go on after TERM, in seconds",
    ),
    Setting(
        name="require",
        parse=_texts("require"),
        default=[],
        flags=("-r", "--require"),
        metavar="PATH|MODULE",
        help="code that declares jobs: a dotted module or package, a .py file, or a directory; "
        "repeatable",
    ),
    Setting(
        name="environment",
        parse=_text("environment"),
        default="development",
        env=("APP_ENV", "RAILS_ENV", "RACK_ENV"),
        flags=("-e", "--environment"),
        metavar="ENV",
        help="section of the file that is merged over its top level",
    ),
    Setting(
        name="tag",
        parse=_text("tag"),
        default="",
        flags=("-g", "--tag"),
        metavar="TAG",
        help="name shown for this process; none = that of the working directory",
    ),
    Setting(
        name="labels", parse=_texts("labels"), default=[], help="labels shown for this process"
    ),
    Setting(
        name="log_level",
        parse=_choice(
            "log_level", "debug", "info", "warning", "warn", "error", "critical", "fatal"
        ),
        default="info",
        env=("KIQBRIDGE_LOG_LEVEL",),
        flags=("--log-level",),
        switches=("-v", "--verbose"),
        switch_value="debug",
        metavar="LEVEL",
        help="least important level that is logged: debug, info, warning or error; -v is debug",
    ),
    Setting(
        name="log_format",
        parse=_choice("log_format", "auto", "pretty", "json", "plain"),
        default="auto",
        env=("KIQBRIDGE_LOG_FORMAT",),
        help="pretty, json or plain; auto is pretty on a terminal, else json",
    ),
    Setting(
        name="logged_job_attributes",
        parse=_words("logged_job_attributes"),
        default=["bid", "tags"],
        env=("KIQBRIDGE_LOGGED_JOB_ATTRIBUTES",),
        help="attributes of a job that each of its log lines carries, besides class, jid and queue; in "
        "the environment with commas between them",
    ),
    Setting(
        name="skip_default_job_logging",
        parse=_switch("skip_default_job_logging"),
        default=False,
        env=("KIQBRIDGE_SKIP_DEFAULT_JOB_LOGGING",),
        help="true = no `start`, `done` and `fail` for each job",
    ),
    Setting(
        name="redact",
        parse=_words("redact"),
        default=list(redaction.DEFAULT_KEYS),
        env=(redaction.VARIABLE,),
        help="names of arguments and attributes whose values no log line or message shows; replaces "
        "the default; in the environment with commas between them",
    ),
    Setting(
        name="redis_url",
        parse=_text("redis_url"),
        default="redis://localhost:6379/0",
        env=("REDIS_URL",),
        provider="REDIS_PROVIDER",
        help="address of Redis, or of its sentinels (redis+sentinel://HOST,HOST/SERVICE); REDIS_PROVIDER names "
        "another variable that holds it",
    ),
    Setting(
        name="namespace",
        parse=_text("namespace"),
        default="",
        env=("KIQBRIDGE_NAMESPACE",),
        help="prefix of all keys, as redis-namespace has it",
    ),
    Setting(
        name="profile",
        parse=_profile,
        default="7",
        env=("KIQBRIDGE_WIRE_PROFILE",),
        help="7 = times as float seconds, 8 = integer milliseconds, auto = 8 while only Sidekiq 8 or "
        "later is seen",
    ),
    Setting(
        name="fetch",
        parse=_choice("fetch", "reliable", "basic"),
        default="reliable",
        env=("KIQBRIDGE_FETCH",),
        help="reliable: a killed worker loses no job; basic: Sidekiq's own BRPOP, which loses what runs",
    ),
    Setting(
        name="look_ahead",
        parse=_whole_number("look_ahead", 1, 1000),
        default=100,
        env=("KIQBRIDGE_LOOK_AHEAD",),
        help="most short jobs that a thread claims at once; 1 = one at a time",
    ),
    Setting(
        name="recover_after_s",
        parse=_seconds("recover_after_s"),
        default=30,
        env=("KIQBRIDGE_RECOVER_AFTER_S",),
        help="bound within which the jobs of a killed worker are given back, in seconds",
    ),
    Setting(
        name="orphan_limit",
        parse=_whole_number("orphan_limit", 1),
        default=3,
        env=("KIQBRIDGE_ORPHAN_LIMIT",),
        help="how often a job may be found in the hands of a dead process until it is suspected of killing "
        "them and runs alone",
    ),
    Setting(
        name="settle_replicas",
        parse=_whole_number("settle_replicas", 0),
        default=0,
        env=("KIQBRIDGE_SETTLE_REPLICAS",),
        help="how many replicas must confirm that a job is to be tried again, dead, put off or given back, "
        "before its worker goes on; 0 = none",
    ),
    Setting(
        name="start_period_s",
        parse=_seconds_or_off("start_period_s"),
        default=60,
        env=("KIQBRIDGE_START_PERIOD_S",),
        help="seconds after the start for which `kiqbridge health --live` succeeds though Redis has never been "
        "reached; 0 = for orchestrators that have a start period of their own",
    ),
    Setting(
        name="stuck_after_s",
        parse=_seconds("stuck_after_s", least=5),
        default=30.0,
        env=("KIQBRIDGE_STUCK_AFTER_S",),
        help="seconds after which a thread of the worker that does not get on, outside of jobs, is logged "
        "with all stacks and makes its health red; from 5",
    ),
    Setting(
        name="end_stuck_after_s",
        parse=_seconds("end_stuck_after_s", least=5),
        default=120.0,
        env=("KIQBRIDGE_END_STUCK_AFTER_S",),
        help="seconds after which a worker with such a thread gives back what it holds and ends with "
        "status 70, to be started anew; from 5",
    ),
    Setting(
        name="beat_s",
        parse=_seconds("beat_s"),
        default=10,
        env=("KIQBRIDGE_BEAT_S",),
        help="seconds between heartbeats; buttons of the Web UI act at the next one",
    ),
    Setting(
        name="metrics",
        parse=_metrics,
        default="both",
        env=("KIQBRIDGE_METRICS",),
        help="whose Metrics page shows our jobs: 7 or 8 = that of Sidekiq 7 or 8 and later, both, or off",
    ),
    Setting(
        name="run_dir",
        parse=_text("run_dir"),
        default="",
        env=("KIQBRIDGE_RUN_DIR",),
        help="folder of the file that `kiqbridge health` reads; none = a folder of the user's own "
        "among the system's temporary files",
    ),
    Setting(
        name="foreign_jobs",
        parse=_choice("foreign_jobs", "refuse", "run", "requeue"),
        default="refuse",
        env=("KIQBRIDGE_FOREIGN_JOBS",),
        help="jobs of a batch of Sidekiq Pro (bid) or encrypted ones of Enterprise (encrypt): refuse = to "
        "the dead set, run = run and warn, requeue = put off by a minute until a Ruby worker takes them",
    ),
    Setting(
        name="unknown_class",
        parse=_unknown_class,
        default="retry",
        env=("KIQBRIDGE_UNKNOWN_CLASS",),
        help="jobs whose class is not declared here: retry = fail and be retried, as in Ruby; route:QUEUE "
        "= pass them on to another queue, untouched",
    ),
    Setting(
        name="ecs_protect_after_s",
        parse=_seconds_or_off("ecs_protect_after_s"),
        default=0,
        env=("KIQBRIDGE_ECS_PROTECT_AFTER_S",),
        help="seconds after which a running job has ECS protect its task from scale-in and deployments, "
        "until it ends; 0 = never",
    ),
    Setting(
        name="max_iteration_runtime_s",
        parse=_seconds_or_none("max_iteration_runtime"),
        default="",
        env=("KIQBRIDGE_MAX_ITERATION_RUNTIME_S",),
        file_key="max_iteration_runtime",
        help="seconds after which an iterable job makes room for others and goes on later; none = "
        "when the worker stops",
    ),
    Setting(
        name="max_retries",
        parse=_whole_number("max_retries", 0),
        default=25,
        help="retries of a job with retry: true",
    ),
    Setting(
        name="dead_max_jobs",
        parse=_whole_number("dead_max_jobs", 1),
        default=10_000,
        help="size of the dead set",
    ),
    Setting(
        name="dead_timeout_s",
        parse=_whole_number("dead_timeout_in_seconds", 1),
        default=15_552_000,
        file_key="dead_timeout_in_seconds",
        help="seconds that a dead job is kept",
    ),
    Setting(
        name="max_payload_bytes",
        parse=_whole_number("max_payload_bytes", 0),
        default=DEFAULT_MAX_PAYLOAD_BYTES,
        env=(MAX_PAYLOAD_VARIABLE,),
        help="bytes of a job's text above which clients refuse to push it, and workers put it into the dead "
        "set without reading it; 0 = no limit",
    ),
)

CLIENT_SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="wait_replicas",
        parse=_whole_number("wait_replicas", 0),
        default=0,
        env=("KIQBRIDGE_WAIT_REPLICAS",),
        help="how many replicas must confirm a push; 0 = none",
    ),
)
"""What clients read besides, also those in the worker and the enqueue function."""

ENQUEUE_SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="allowed_classes",
        parse=_text("allowed_classes"),
        default="",
        env=("KIQBRIDGE_ALLOWED_CLASSES",),
        help="job classes that may be enqueued, as comma-separated globs; empty allows nothing",
    ),
    Setting(
        name="allowed_queues",
        parse=_text("allowed_queues"),
        default="",
        env=("KIQBRIDGE_ALLOWED_QUEUES",),
        help="queues that may be pushed to, as comma-separated globs; empty allows nothing",
    ),
    Setting(
        name="tick_ahead_s",
        parse=_text("tick_ahead_s"),
        default="60",
        env=("KIQBRIDGE_TICK_AHEAD_S",),
        help="seconds that a tick may lie ahead of the clock of Redis; others are refused",
    ),
    Setting(
        name="service",
        parse=_text("service"),
        default="kiqbridge-enqueue",
        env=("POWERTOOLS_SERVICE_NAME",),
        help="name of the function in its log lines and metrics",
    ),
    Setting(
        name="function_log_level",
        parse=_text("function_log_level"),
        default="INFO",
        env=("POWERTOOLS_LOG_LEVEL",),
        help="least important level that the function logs",
    ),
    Setting(
        name="metrics_namespace",
        parse=_text("metrics_namespace"),
        default="Kiqbridge",
        env=("POWERTOOLS_METRICS_NAMESPACE",),
        help="CloudWatch namespace of the function's metrics",
    ),
)
"""What the enqueue function alone reads, from its environment."""

_FOREIGN_FILE_KEYS = frozenset({"verbose", "strict", "scheduler", "logfile", "pidfile"})


def merge(
    *,
    file: Mapping[str, Any] | None = None,
    file_name: str = "file",
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    warn: Warn = lambda _message: None,
) -> Config:
    """Make the configuration out of its layers.

    Args:
        file: the parsed file, as `settings_file` gives it.
        file_name: how to name the file in messages.
        environ: environment variables.
        flags: setting name → value, only those that were given.
        warn: gets a sentence for each key that is not known.

    Raises:
        ConfigError: names setting, value and source.
    """
    content = file or {}
    # Which section of the file counts is looked up first, at the file's top level too.
    [setting] = [setting for setting in SETTINGS if setting.name == "environment"]
    environment = setting.parse(*_pick(setting, content, file_name, environ, flags))
    known_file = file_layer(content, environment, file_name, warn)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for setting in SETTINGS:
        raw, source = _pick(setting, known_file, file_name, environ, flags)
        values[setting.name] = setting.parse(raw, source)
        sources[setting.name] = source
    return Config(**values, sources=MappingProxyType(sources))


def file_layer(
    content: Mapping[str, Any], environment: str, file_name: str, warn: Warn
) -> Mapping[str, Any]:
    """The file's settings by their own names, its environment section merged over the top level.

    Raises:
        ConfigError: the environment's section is no mapping.
    """
    plain = dict(content)
    section = plain.pop(environment, None)
    if section is not None and not isinstance(section, Mapping):
        raise ConfigError(
            f"{environment}: {section!r} is not a section of settings for that environment (from "
            f"{file_name}); write key: value lines below it"
        )
    if section:
        plain |= {str(key): value for key, value in section.items() if key != "environment"}
    if plain.get("verbose"):
        plain.setdefault("log_level", "debug")
    names = {setting.file_key or setting.name: setting.name for setting in SETTINGS}
    for key, value in plain.items():
        if key not in names and key not in _FOREIGN_FILE_KEYS and not isinstance(value, Mapping):
            import difflib  # noqa: PLC0415 - only to help with an error

            near = difflib.get_close_matches(key, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            warn(f"{file_name}: {key!r} is not a setting of the worker{hint}")
    return {names[key]: value for key, value in plain.items() if key in names}


def _pick(
    setting: Setting,
    file: Mapping[str, Any],
    file_name: str,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
) -> tuple[Any, str]:
    if flags.get(setting.name) is not None:
        return flags[setting.name], setting.flags[0] if setting.flags else "command line"
    provider = environ.get(setting.provider or "")
    for variable in (provider,) if provider else setting.env:
        if environ.get(variable):
            return environ[variable], variable
    if file.get(setting.name) is not None:
        return file[setting.name], file_name
    return setting.default, "default"


def shown_default(setting: Setting) -> str:
    """As people write it."""
    if setting.default_text is not None:
        return setting.default_text
    if isinstance(setting.default, list | dict):
        return ", ".join(setting.default) or "none"
    if isinstance(setting.default, bool):
        return str(setting.default).lower()
    return str(setting.default) or "none"
