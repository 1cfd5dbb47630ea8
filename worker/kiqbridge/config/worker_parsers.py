"""Parsers of what only a worker has: queues, capsules, processes; see `parsers`. And rows that a function reads, too."""

from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from kiqbridge.config.parsers import choice, text, texts, whole_number
from kiqbridge.config.setting import Reader, Setting
from kiqbridge.errors import ConfigError
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.queues import fault_of_name, parse_queue

QUEUES_VARIABLE: Final = "KIQBRIDGE_QUEUES"

_LAST_PORT: Final = 65_535

MAX_THREADS: Final = 1000
"""Of one capsule; `infra/worker_service.yaml` takes as many."""

ROUTE = "route:"
"""Begins a value of the setting `unknown_class` that names a queue."""

_CAPSULE_KEYS = ("concurrency", "queues", "async_concurrency")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsuleSettings:
    """A capsule beside the default one.

    Attributes:
        async_concurrency: None = as the default one has it.
    """

    name: str
    queues: tuple[tuple[str, int], ...]
    concurrency: int
    async_concurrency: int | None


def queues(value: Any, source: str, _name: str = "") -> tuple[tuple[str, int], ...]:
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
            f"queues: {item!r} is not a queue (from {source}); write name, or name,weight, or [name, weight]"
        )
    return parse_queue(",".join(str(part) for part in parts), source=source)


def processes(value: Any, source: str, name: str) -> int | Literal["auto"]:
    """A number of processes from 1, or `auto`."""
    hint = "write how many processes, or auto for one per CPU"
    return (
        "auto" if str(value).lower() == "auto" else whole_number(1, hint=hint)(value, source, name)
    )


def metrics(value: Any, source: str, name: str) -> str:
    """Whose charts: `both`, `7`, `8` or `off`."""
    # A bare off is YAML's false.
    return choice("both", "7", "8", "off")("off" if value is False else value, source, name)


def statsd(value: Any, source: str, _name: str) -> str:
    """HOST:PORT, or an empty text."""
    text = str(value).strip()
    host, separator, port = text.rpartition(":")
    if text and not (separator and host and port.isdecimal() and 0 < int(port) <= _LAST_PORT):
        raise ConfigError(
            f"statsd: {text!r} is not HOST:PORT, such as 127.0.0.1:8125 (from {source})"
        )
    return text


def unknown_class(value: Any, source: str, _name: str) -> str:
    """`retry`, or `route:QUEUE`; see `config.routed_queue`."""
    text = str(value)
    if text == "retry" or (
        text.startswith(ROUTE) and fault_of_name(text.removeprefix(ROUTE)) is None
    ):
        return text
    raise ConfigError(
        f"unknown_class: {value!r} is neither retry nor {ROUTE}QUEUE (from {source}); write for instance "
        f"{ROUTE}ruby to pass jobs that are not declared here on to queue ruby"
    )


def capsules(value: Any, source: str, _name: str) -> tuple[CapsuleSettings, ...]:
    """A mapping of names to queues, concurrency and async_concurrency."""
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"capsules: {value!r} is not a mapping of names to concurrency and queues (from {source})"
        )
    return tuple(_capsule(str(name), section, source) for name, section in value.items())


def _capsule(name: str, section: Any, source: str) -> CapsuleSettings:
    where = f"capsule {name} in {source}"
    if name == "default":
        raise ConfigError(
            f"{where}: default is described by queues and concurrency at the top level; choose another name"
        )
    if not isinstance(section, Mapping) or not section.get("queues"):
        raise ConfigError(
            f"{where}: {section!r} names no queues; write concurrency and queues below it"
        )
    unknown = [str(key) for key in section if key not in _CAPSULE_KEYS]
    if unknown:
        raise ConfigError(
            f"{where}: {', '.join(unknown)} is no setting of a capsule; these are {', '.join(_CAPSULE_KEYS)}"
        )
    asynchronous = section.get("async_concurrency")
    return CapsuleSettings(
        name=name,
        queues=queues(section["queues"], where),
        concurrency=concurrency(section.get("concurrency", 1), where),
        async_concurrency=None
        if asynchronous is None
        else whole_number(1)(asynchronous, where, "concurrency"),
    )


def concurrency(value: Any, source: str, name: str = "concurrency") -> int:
    """How many threads, from 1 to `MAX_THREADS`."""
    number = whole_number(1)(value, source, name)
    if number > MAX_THREADS:
        raise ConfigError(
            f"concurrency: {value!r} is more than {MAX_THREADS:,} (from {source}); each is a thread of one "
            "process, which uses one processor: run more processes (--processes) or workers, or declare "
            "jobs that wait as async def"
        )
    return number


def missed_tick_webhook(value: Any, source: str, _name: str) -> str:
    """An https address, or an http one of this machine; empty = none. No message holds it: it may be a secret."""
    url = str(value).strip()
    if url and not is_safe_address(url):
        raise ConfigError(
            f"missed_tick_webhook: is no https address without a user (from {source}); {SAFE_ADDRESS}"
        )
    return url


class OfMissedTicks:
    """Who is notified of ticks that did not come."""

    READ_BY: Final[tuple[Reader, ...]] = ("worker", "function")

    missed_tick_webhook = Setting(
        feature="missed_ticks",
        parse=missed_tick_webhook,
        help="https address that gets a POST with JSON when a tick did not come",
    )
    missed_tick_sns_topic_arn = Setting(
        feature="missed_ticks", help="SNS topic to which the same is published"
    )


SAFE_ADDRESS: Final = (
    "http is allowed for localhost alone, since what is sent names jobs; user:password@ is not sent: use an address "
    "whose path or query holds the secret"
)
"""What a message says of an address that is not safe."""


def is_safe_address(url: str) -> bool:
    """Whether it is an https address, or an http one of this machine; without user and password."""
    try:
        parts = urlsplit(url)
        is_here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    except ValueError:
        return False
    return (
        bool(parts.hostname)
        and "@" not in parts.netloc
        and (parts.scheme == "https" or (parts.scheme == "http" and is_here))
    )


def dead_archive(value: Any, source: str, name: str) -> str:
    """A folder, or a bucket of S3 with or without a prefix; empty = none."""
    place = text(value, source, name).strip()
    scheme, mark, rest = place.partition("://")
    if mark and (scheme != "s3" or not rest.partition("/")[0]):
        raise ConfigError(
            f"dead_archive: {place!r} is neither a folder nor s3://BUCKET/PREFIX (from {source})"
        )
    return place


def shell_commands(value: Any, source: str, name: str) -> tuple[str, ...]:
    """Commands and patterns of commands: a list, or one text with line breaks or, if it has none, commas."""
    if isinstance(value, str):
        value = value.splitlines() if "\n" in value.strip() else value.split(",")
    entries = tuple(each.strip() for each in texts(value, source, name) if each.strip())
    for entry in entries:
        if not entry.split()[0].strip("*?="):
            raise ConfigError(
                f"shell_commands: {entry!r} names no program (from {source}): any client that can enqueue could run "
                "any command; write the program, such as /usr/local/bin/backup.sh *"
            )
    return entries


KEEP_DONE: Final = Setting(
    parse=whole_number(0, 10_000),
    default=100,
    feature="done",
    help="ended jobs on record for each class, and a hundred times as many in all; 0 = none",
)
"""The row of the setting `keep_done`."""
