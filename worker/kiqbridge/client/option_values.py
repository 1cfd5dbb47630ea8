"""What the options of a declaration may be, an option a row: a value that means nothing is refused where it is written.

Options of another kind are checked where they are read: names and queues, `attributes`, `result_ttl`, those of schedules
and of flow control.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, get_args

from kiqbridge.client import registry
from kiqbridge.errors import ConfigError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.payload import INTERVAL_LIMIT, is_number


class _Row(NamedTuple):
    """Whether a value fits; the text of the error if it does not; whether None stands for the default."""

    fits: Callable[[Any], bool]
    wanted: str
    is_optional: bool = True


def check_values(options: Mapping[str, Any]) -> None:
    """Check what a declaration says; names that are not in the table pass.

    Raises:
        ConfigError: names the option, shows its value, and says what it may be.
    """
    for name, value in options.items():
        row = _ROWS.get(name)
        if row is None or (value is None and row.is_optional) or row.fits(value):
            continue
        raise ConfigError(f"{name} {shorten(value)} is not {row.wanted}")


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _is_time(value: object) -> bool:
    return is_number(value) and 0 < value <= INTERVAL_LIMIT


def _are_texts(value: object) -> bool:
    return isinstance(value, Iterable) and all(isinstance(each, str) for each in value)


def _is_level(value: object) -> bool:
    from kiqbridge.runtime.logs.log_level import parse_level  # noqa: PLC0415 - few jobs have one

    return parse_level(value) is not None


def _takes(*names: str) -> Callable[[object], bool]:
    """Whether a value is a plain function that can be called with so many arguments."""

    def fits(value: object) -> bool:
        if not callable(value) or inspect.iscoroutinefunction(value):
            return False
        try:
            inspect.signature(value).bind(*names)
        except TypeError:
            return False
        except ValueError:  # some functions in C have no signature
            return True
        return True

    return fits


_BOOL: Final = "true or false; write True or False"
_SECONDS: Final = f"a number of seconds above 0, up to {INTERVAL_LIMIT:,}; write one such as 30"

_ROWS: Final[Mapping[str, _Row]] = {
    "retry": _Row(
        _is_count,
        "a number of retries; write True (25), a whole number, 0 (dead at the first failure) or False (dropped)",
        is_optional=False,
    ),
    "backtrace": _Row(
        _is_count, "a number of lines; write True (all), a whole number, or False (none)"
    ),
    "dead": _Row(_is_bool, _BOOL),
    "tags": _Row(
        lambda value: isinstance(value, list) and _are_texts(value),
        "a list of texts; write one such as ['billing']",
    ),
    "retry_for": _Row(
        lambda value: is_number(value) and 0 <= value <= INTERVAL_LIMIT,
        f"a number of seconds up to {INTERVAL_LIMIT:,}; write one such as 86400",
    ),
    "log_level": _Row(_is_level, "a level; write debug, info, warn, error, fatal, or 0 to 4"),
    "skip_default_job_logging": _Row(_is_bool, _BOOL),
    "display_class": _Row(_is_text, "the name of a class; write a text such as 'Report'"),
    "profile": _Row(_is_text, "a token; write a text"),
    "profiler_options": _Row(
        lambda value: isinstance(value, Mapping), "a dict; write one of names and values"
    ),
    "expires_in": _Row(
        _is_time, "a number of seconds above 0, or a timedelta; write one such as 3600"
    ),
    "timeout_s": _Row(_is_time, _SECONDS),
    "max_run_s": _Row(_is_time, _SECONDS),
    "on_max_run": _Row(
        lambda value: value in get_args(registry.OnMaxRun), "requeue or dead", is_optional=False
    ),
    "retry_in": _Row(
        _takes("count", "error", "payload"),
        "a function of (count, error, payload), such as `lambda count, error, payload: 60`; in a class it is a static "
        "method",
    ),
    "retry_jitter": _Row(_is_bool, _BOOL, is_optional=False),
    "retries_exhausted": _Row(
        _takes("payload", "error"),
        "a function of (payload, error), such as `lambda payload, error: None`; in a class it is a static method",
    ),
    "on_error": _Row(
        lambda value: isinstance(value, Mapping),
        "a dict of exception classes; write one such as {ValueError: 'kill'}",
    ),
    "check_arguments": _Row(_is_bool, _BOOL, is_optional=False),
}
