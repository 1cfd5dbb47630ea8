"""Log lines in Sidekiq's manner (protocol §16): one event a line, context as keys.

The context of the running job is put on every record that is logged while it runs, by whatever logger, and
what `log_context` adds. `start`, `done` and `fail` themselves are written by `JobLines`.

The lines of each job in the log: `start`, then `done` or `fail` with elapsed seconds, and why (protocol §16).

Two lines per job are most of what a worker logs, so `JobLines` writes them past the logging module
where no other handler listens: same text, a tenth of the time.
"""

import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TextIO

from kiqbridge.client.current import CONTEXT, LOG_CONTEXT
from kiqbridge.client.registry import JobDefinition
from kiqbridge.engine.settle.notifications import job_logger as logger
from kiqbridge.engine.settle.notifications import shown_arguments
from kiqbridge.runtime import redaction, user_code
from kiqbridge.runtime.logs import log_level, tracebacks
from kiqbridge.runtime.logs.handler_guard import guard_handlers
from kiqbridge.runtime.logs.log_writer import LogWriter

TID: ContextVar[str] = ContextVar("kiqbridge_tid", default="main")
"""Id of the processor thread."""

LOGGED_ATTRIBUTES = ("bid", "tags", "traceparent", "X-Amzn-Trace-Id")
"""Attributes of a payload that its lines carry, if it has them."""

_COLOURS = {
    "DEBUG": "\033[2m",
    "INFO": "\033[32m",
    "WARN": "\033[33m",
    "ERROR": "\033[31m",
    "FATAL": "\033[31;1m",
}
_RESET = "\033[0m"
_NAMES = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_MOST_TEXTS = 1_000


def configure_logging(
    level: str,
    form: str,
    stream: TextIO | None = None,
    *,
    attributes: Sequence[str] = LOGGED_ATTRIBUTES,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Send all records to standard output; what other handlers and filters raise leaves no log call from now on.

    Args:
        level: the least important level, `debug` to `fatal`; at `debug` tracebacks show our frames, too.
        form: `auto`, `pretty`, `json` or `plain`; auto is pretty on a terminal, else json.
        stream: where to instead.
        attributes: of a payload, besides class, jid and queue, that its lines carry.
        environ: with `DYNO` in it lines other than JSON have no time, since Heroku adds it (§16).
    """
    stream = stream or sys.stdout
    if form == "auto":
        form = "pretty" if stream.isatty() else "json"
    formatter: logging.Formatter = (
        JSONFormatter(attributes=attributes)
        if form == "json"
        else LineFormatter(
            colour=form == "pretty", attributes=attributes, with_time="DYNO" not in environ
        )
    )
    handler = LogWriter(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for former in root.handlers[:]:
        former.flush()
    root.handlers[:] = [handler]
    names = {"warn": "WARNING", "fatal": "CRITICAL"}
    root.setLevel(names.get(level, level.upper()))
    guard_handlers()
    tracebacks.show_all(wanted=level == "debug")


def flush_logging() -> None:
    """Write the lines that wait for others."""
    for handler in logging.getLogger().handlers:
        with contextlib.suppress(Exception):  # an application's own
            handler.flush()


def job_context(
    payload: Mapping[str, Any], queue: str, attributes: Sequence[str] = LOGGED_ATTRIBUTES
) -> dict[str, Any]:
    """What every line about a job carries."""
    context = {"class": _shown_class(payload), "jid": payload.get("jid"), "queue": queue}
    for name in attributes:
        value = payload.get(name)
        if value:
            context[name] = _hidden(name, value)
    return context


class LineFormatter(logging.Formatter):
    """`TIME pid=1 tid=2 class=A jid=3 INFO: message`, coloured on a terminal."""

    def __init__(
        self, *, colour: bool, attributes: Sequence[str] = LOGGED_ATTRIBUTES, with_time: bool = True
    ) -> None:
        super().__init__()
        self._colour = colour
        self._attributes = tuple(attributes)
        self._time = _Clock() if with_time else None
        self._text = _Texts(_plain).of
        self._info = self._painted("INFO")

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it."""
        level = self._painted(_NAMES.get(record.levelname, record.levelname))
        context = _pairs(_context(record, self._attributes))
        prefix = "" if self._time is None else f"{self._time.text(record.created)} "
        line = f"{prefix}pid={_pid.number} tid={TID.get()}{context} {level}: {record.getMessage()}"
        if record.exc_info:
            line += "\n" + _traceback(record.exc_info)
        return line

    def job_context(self, payload: Mapping[str, Any], queue: str) -> str:
        """` class=A jid=3 queue=default`."""
        jid, name = payload.get("jid"), _shown_class(payload)
        if type(jid) is not str or not jid.isalnum():
            jid = _plain(jid)
        text = f" class={self._text(name)} jid={jid} queue={self._text(queue)}"
        for attribute in self._attributes:
            value = payload.get(attribute)
            if value:
                text += f" {attribute}={_plain(_hidden(attribute, value))}"
        return text

    def job_line(self, now: float, message: str, context: str, elapsed: float | None) -> str:
        """The line of a job, in the form of `format`, made without a record."""
        took = "" if elapsed is None else f" elapsed={elapsed}"
        prefix = "" if self._time is None else f"{self._time.text(now)} "
        return f"{prefix}pid={_pid.number} tid={TID.get()}{context}{took} {self._info}: {message}\n"

    def _painted(self, level: str) -> str:
        return f"{_COLOURS.get(level, '')}{level}{_RESET}" if self._colour else level


class JSONFormatter(logging.Formatter):
    """One object per line: ts, pid, tid, lvl, msg, and ctx if there is any."""

    def __init__(self, *, attributes: Sequence[str] = LOGGED_ATTRIBUTES) -> None:
        super().__init__()
        self._attributes = tuple(attributes)
        self._time = _Clock()
        self._text = _Texts(_json).of

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback is its last member."""
        entry: dict[str, Any] = {
            "ts": self._time.text(record.created),
            "pid": _pid.number,
            "tid": TID.get(),
            "lvl": _NAMES.get(record.levelname, record.levelname),
            "msg": record.getMessage(),
        }
        context = _context(record, self._attributes)
        if context:
            entry["ctx"] = context
        if record.exc_info:
            entry["exc"] = _traceback(record.exc_info)
        return _json(entry)

    def job_context(self, payload: Mapping[str, Any], queue: str) -> str:
        """`"class":"A","jid":"3","queue":"default"`."""
        jid, name = payload.get("jid"), _shown_class(payload)
        jid = f'"{jid}"' if type(jid) is str and jid.isalnum() else _json(jid)
        text = f'"class":{self._text(name)},"jid":{jid},"queue":{self._text(queue)}'
        for attribute in self._attributes:
            value = payload.get(attribute)
            if value:
                text += f",{_json(attribute)}:{_json(_hidden(attribute, value))}"
        return text

    def job_line(self, now: float, message: str, context: str, elapsed: float | None) -> str:
        """The line of a job, in the form of `format`, made without a record."""
        took = "" if elapsed is None else f',"elapsed":{elapsed}'
        return (
            f'{{"ts":"{self._time.text(now)}","pid":{_pid.number},"tid":"{TID.get()}",'
            f'"lvl":"INFO","msg":"{message}","ctx":{{{context}{took}}}}}\n'
        )


class _Pid:
    """The id of this process, without a system call for each line."""

    def __init__(self) -> None:
        self.number = os.getpid()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._ask)

    def _ask(self) -> None:
        self.number = os.getpid()


_pid = _Pid()


class _Texts:
    """How names are written that come again and again."""

    def __init__(self, write: Callable[[Any], str]) -> None:
        self._write = write
        self._known: dict[str, str] = {}

    def of(self, value: Any) -> str:
        """The text of a value."""
        if type(value) is not str:
            return self._write(value)
        text = self._known.get(value)
        if text is None:
            if len(self._known) >= _MOST_TEXTS:  # names come from payloads: bounded
                self._known.clear()
            text = self._known[value] = self._write(value)
        return text


class _Clock:
    """Times as ISO 8601 in UTC with milliseconds; the text of the last second is kept."""

    def __init__(self) -> None:
        self._second = (-1, "")

    def text(self, now: float) -> str:
        whole, milliseconds = divmod(int(now * 1000), 1000)
        second, text = self._second
        if second != whole:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
            self._second = (whole, text)
        return f"{text}.{milliseconds:03d}Z"


def _shown_class(payload: Mapping[str, Any]) -> Any:
    return payload.get("display_class") or payload.get("wrapped") or payload.get("class")


def _context(record: logging.LogRecord, attributes: Sequence[str]) -> dict[str, Any]:
    running = CONTEXT.get()
    context = job_context(*running, attributes) if running else {}
    added = LOG_CONTEXT.get()
    if added:
        context.update({name: _hidden(name, value) for name, value in added.items()})
    arguments = getattr(record, "arguments", None)
    if arguments is not None:
        context["args"] = arguments
    elapsed = getattr(record, "elapsed", None)
    if elapsed is not None:
        context["elapsed"] = elapsed
    return context


def _hidden(name: str, value: Any) -> Any:
    redactor = redaction.current()
    return redaction.HIDDEN if redactor.hides(name) else redactor.value(value)


def _traceback(info: Any) -> str:
    """The traceback text of a record's `exc_info`."""
    error = info[1]
    return "NoneType: None" if error is None else tracebacks.text_of(error)


def _pairs(context: Mapping[str, Any]) -> str:
    return "".join(f" {key}={_plain(value)}" for key, value in context.items())


def _plain(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    # A line break in a payload must not look like a line of its own.
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


SKIP_OPTION = "skip_default_job_logging"
"""Option of a class whose jobs log no `start`, `done` and `fail`."""

_FORMATTERS = (LineFormatter, JSONFormatter)


class JobLines:
    """`start`, and `done` or `fail`, of each job; one for all threads of a process.

    Args:
        skip: log none of them (`skip_default_job_logging`).
    """

    def __init__(self, *, skip: bool = False) -> None:
        self._skip = skip
        self._root = logging.getLogger()
        self._package = logging.getLogger("kiqbridge")
        self._writer: LogWriter | None = None
        self._formatter: Any = None  # one of _FORMATTERS

    def start(
        self, payload: Mapping[str, Any], queue: str, definition: JobDefinition | None = None
    ) -> str | None:
        """Log that a job begins; `CONTEXT` must be set. At level debug it shows the arguments.

        Args:
            payload: the job.
            queue: where it came from.
            definition: of its class, if there is one; for `skip_default_job_logging` and the names
                of the arguments.

        Returns:
            What `end` is to be given: None = log nothing.
        """
        if self._skip or not logger.isEnabledFor(logging.INFO):
            return None
        if SKIP_OPTION in payload:
            if payload[SKIP_OPTION]:
                return None
        elif definition is not None and definition.options.get(SKIP_OPTION):
            return None
        if logger.isEnabledFor(logging.DEBUG) or not self._is_direct():
            _say("start", shown_arguments(payload, definition))
            return ""
        formatter = self._formatter
        context: str = formatter.job_context(payload, queue)
        self._writer.write(formatter.job_line(time.time(), "start", context, None))  # type: ignore[union-attr] # _is_direct has set it
        return context

    def end(self, context: str | None, message: str, elapsed_s: float) -> None:
        """Log how it ended: `done` or `fail`, or another message without quotes in it."""
        if context is None:
            return
        elapsed = round(elapsed_s, 3)
        if context and self._is_direct():
            line = self._formatter.job_line(time.time(), message, context, elapsed)
            self._writer.write(line)  # type: ignore[union-attr] # as in start
        else:
            _say(message, {"elapsed": elapsed})

    def _is_direct(self) -> bool:
        """Whether our writer alone gets these lines; other handlers get records as usual."""
        handlers = self._root.handlers
        if len(handlers) != 1:
            return False
        writer = handlers[0]
        if writer is not self._writer or writer.formatter is not self._formatter:
            if type(writer) is not LogWriter or type(writer.formatter) not in _FORMATTERS:
                return False
            self._writer, self._formatter = writer, writer.formatter
        return not (
            writer.filters
            or writer.level > logging.INFO
            or LOG_CONTEXT.get()
            or logger.handlers
            or logger.filters
            or self._package.handlers
            or self._package.filters
            or not (logger.propagate and self._package.propagate)
            or log_level.are_active()
        )


def _say(message: str, extra: dict[str, Any] | None) -> None:
    """Log, whatever a user's log handler raises: such an error has nothing to do with the job."""
    try:
        logger.info(message, extra=extra)
    except BaseException as error:  # noqa: BLE001 - a job that is done must not run again because of it
        user_code.log_error(logger, error, "the line %s of a job could not be written", message)
