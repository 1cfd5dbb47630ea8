"""Log lines in Sidekiq's manner (protocol §16): one event a line, context as keys.

`start`, then `done` or `fail` with elapsed seconds for each job. The context of the running job is
put on every record that is logged while it runs, by whatever logger.
"""

import io
import json
import logging
import os
import sys
import time
from contextvars import ContextVar
from typing import Any, TextIO

from kiqbridge.current import CONTEXT

TID: ContextVar[str] = ContextVar("kiqbridge_tid", default="main")
"""Id of the processor thread."""

_COLOURS = {
    "DEBUG": "\033[2m",
    "INFO": "\033[32m",
    "WARN": "\033[33m",
    "ERROR": "\033[31m",
    "FATAL": "\033[31;1m",
}
_RESET = "\033[0m"
_NAMES = {"WARNING": "WARN", "CRITICAL": "FATAL"}


def configure_logging(level: str, form: str, stream: TextIO | None = None) -> None:
    """Send all records to standard output in the given form (`auto`, `pretty`, `json`, `plain`)."""
    stream = stream or sys.stdout
    if form == "auto":
        form = "pretty" if stream.isatty() else "json"
    formatter: logging.Formatter = (
        JSONFormatter() if form == "json" else LineFormatter(colour=form == "pretty")
    )
    if isinstance(stream, io.TextIOWrapper):  # a message that UTF-8 cannot carry is still a line
        stream.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    names = {"warn": "WARNING", "fatal": "CRITICAL"}
    root.setLevel(names.get(level, level.upper()))


def job_context(payload: dict[str, Any], queue: str) -> dict[str, Any]:
    """What every line about a job carries."""
    context = {
        "class": payload.get("display_class") or payload.get("wrapped") or payload.get("class"),
        "jid": payload.get("jid"),
        "queue": queue,
    }
    for name in ("bid", "tags"):
        if payload.get(name):
            context[name] = payload[name]
    return context


class LineFormatter(logging.Formatter):
    """`TIME pid=1 tid=2 class=A jid=3 INFO: message`, coloured on a terminal."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it."""
        level = _NAMES.get(record.levelname, record.levelname)
        context = "".join(f" {key}={_plain(value)}" for key, value in _context(record).items())
        paint, reset = (_COLOURS.get(level, ""), _RESET) if self._colour else ("", "")
        line = (
            f"{_time(record)} pid={record.process} tid={TID.get()}{context} "
            f"{paint}{level}{reset}: {record.getMessage()}"
        )
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JSONFormatter(logging.Formatter):
    """One object per line: ts, pid, tid, lvl, msg, and ctx if there is any."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback is its last member."""
        entry: dict[str, Any] = {
            "ts": _time(record),
            "pid": os.getpid(),
            "tid": TID.get(),
            "lvl": _NAMES.get(record.levelname, record.levelname),
            "msg": record.getMessage(),
        }
        context = _context(record)
        if context:
            entry["ctx"] = context
        if record.exc_info:
            entry["exc"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, separators=(",", ":"), default=str)


def _context(record: logging.LogRecord) -> dict[str, Any]:
    running = CONTEXT.get()
    context = job_context(*running) if running else {}
    elapsed = getattr(record, "elapsed", None)
    if elapsed is not None:
        context["elapsed"] = elapsed
    return context


def _plain(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _time(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"
