"""The settings: one table from which the loader, `--help` and `docs/settings.md` come.

Precedence: defaults < file < environment < command line. Each value remembers where it came from,
so that an error can name it. Frozen once made.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kiqbridge.errors import ConfigError
from kiqbridge.payload import ProfileSetting, parse_profile
from kiqbridge.queues import parse_queue

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a worker runs with; times in seconds."""

    queues: tuple[tuple[str, int], ...]
    concurrency: int
    timeout_s: float
    require: tuple[str, ...]
    environment: str
    tag: str
    labels: tuple[str, ...]
    log_level: str
    log_format: str
    redis_url: str = field(repr=False)
    namespace: str
    profile: ProfileSetting
    fetch: str
    look_ahead: int
    recover_after_s: float
    beat_s: float
    run_dir: str
    max_retries: int
    dead_max_jobs: int
    dead_timeout_s: int
    sources: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table.

    Attributes:
        parse: gets the raw value and the source, for its message.
        env: variables that hold it, the strongest first.
        provider: a variable that names another one, which then holds it instead of `env`.
        flag_value: what the flags stand for, if they take no value.
        file_key: its name in the file, if that is another one.
    """

    name: str
    parse: Callable[[Any, str], Any]
    default: Any
    help: str
    env: tuple[str, ...] = ()
    provider: str | None = None
    flags: tuple[str, ...] = ()
    flag_value: Any = None
    file_key: str | None = None
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


def _seconds(name: str) -> Callable[[Any, str], float]:
    def parse(value: Any, source: str) -> float:
        try:
            number = float(str(value))
        except ValueError:
            number = 0.0
        if isinstance(value, bool) or not 0 < number < float("inf"):
            raise ConfigError(
                f"{name}: {value!r} is not a number of seconds above 0 (from {source})"
            )
        return number

    return parse


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


def _profile(value: Any, source: str) -> ProfileSetting:
    return parse_profile(str(value), source=source)


QUEUES_VARIABLE = "KIQBRIDGE_QUEUES"

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="queues",
        parse=_queues,
        default=["default"],
        env=(QUEUES_VARIABLE,),
        flags=("-q", "--queue"),
        metavar="NAME[,WEIGHT]",
        help="queue to serve, with an optional weight; repeatable, replaces the file's queues; in "
        "the environment blanks stand between them",
    ),
    Setting(
        name="concurrency",
        parse=_whole_number("concurrency", 1),
        default=10,
        env=("KIQBRIDGE_CONCURRENCY",),
        flags=("-c", "--concurrency"),
        metavar="INT",
        help="how many jobs run at once",
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
        flags=("-v", "--verbose"),
        flag_value="debug",
        help="debug, info, warning or error; -v is debug",
    ),
    Setting(
        name="log_format",
        parse=_choice("log_format", "auto", "pretty", "json", "plain"),
        default="auto",
        env=("KIQBRIDGE_LOG_FORMAT",),
        help="pretty, json or plain; auto is pretty on a terminal, else json",
    ),
    Setting(
        name="redis_url",
        parse=_text("redis_url"),
        default="redis://localhost:6379/0",
        env=("REDIS_URL",),
        provider="REDIS_PROVIDER",
        help="address of Redis; REDIS_PROVIDER names another variable that holds it",
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
        parse=_choice("fetch", "reliable"),
        default="reliable",
        env=("KIQBRIDGE_FETCH",),
        help="reliable: a killed worker loses no job",
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
        name="beat_s",
        parse=_seconds("beat_s"),
        default=10,
        env=("KIQBRIDGE_BEAT_S",),
        help="seconds between heartbeats; buttons of the Web UI act at the next one",
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
        ConfigError: the file holds something that is not built yet and must not be ignored.
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
    if plain.get("capsules"):
        raise ConfigError(
            f"capsules: this version runs one capsule per process (from {file_name}); start one "
            "worker per capsule with its own -q and -c"
        )
    if plain.get("verbose"):
        plain.setdefault("log_level", "debug")
    names = {setting.file_key or setting.name: setting.name for setting in SETTINGS}
    for key, value in plain.items():
        if key not in names and key not in _FOREIGN_FILE_KEYS and not isinstance(value, Mapping):
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
    if isinstance(setting.default, list):
        return ", ".join(setting.default) or "none"
    return str(setting.default) or "none"
