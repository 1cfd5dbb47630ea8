"""Reading whenever's config/schedule.rb, as text: the forms that its README shows, and no Ruby is run.

    every 1.day, at: ["4:30 am", "6:00 pm"] do
      runner "Foo::BarJob.perform_async(1)"
      rake "reports:weekly"
      command "/usr/bin/backup"
    end

`every` takes a period, a symbol or a cron line. Anything else is refused with its line: then import what
`bundle exec whenever` prints, which is a crontab.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.crontab import MACROS, parse_crontab
from kiqbridge.schedule.imports.command_line import Recognized, job_of_code, job_of_command
from kiqbridge.schedule.imports.record import (
    Imported,
    ImportedSchedule,
    ImportKindError,
    Reading,
    Unsayable,
)
from kiqbridge.schedule.imports.ruby_literals import parse_arguments, parse_options

_HINT: Final = "import what `bundle exec whenever` prints instead"
_EVERY: Final = re.compile(
    r"every[\s(]\s*(?P<args>.*?)\)?\s*(?:do(?:\s*\|\w*\|)?|\{)\s*(?P<rest>.*)"
)
_JOB: Final = re.compile(r"""(?P<type>[a-z_]\w*)[\s(]\s*(?P<args>["'%].*?)\)?\s*(?:\}|;?\s*end)?""")
_SETTING: Final = re.compile(r"(set|env)[\s(]\s*:?['\"]?(\w+)['\"]?\s*,\s*(.*?)\)?")
_JOB_TYPE: Final = re.compile(r"job_type[\s(]\s*:(\w+)\s*,\s*(.*?)\)?")
_OPENS: Final = re.compile(
    r"^(if|unless|case|while|def|begin|class|module)\b|\bdo\b(\s*\|.*\|)?\s*$|\{\s*(\|.*\|)?\s*$"
)
_PERIOD: Final = re.compile(r"(\d+)\.(minute|hour|day|week|month|year)s?")
_TIME: Final = re.compile(r"(\d{1,2})(?::(\d{2}))?\s*(am|pm)?", re.IGNORECASE)
_DAILY: Final = {
    "1.day": "* * *",
    ":day": "* * *",
    ":weekday": "* * 1-5",
    ":weekend": "* * 0,6",
    "1.month": "1 * *",
    ":month": "1 * *",
    "1.year": "1 1 *",
    ":year": "1 1 *",
    **{
        f":{name}": f"* * {number}"
        for number, name in enumerate(
            ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
        )
    },
}
_HOURLY: Final = {"1.hour": "0 * * * *", ":hour": "0 * * * *", "1.minute": "* * * * *"}
_WHOLE: Final = {"minute": (60, "*/{} * * * *"), "hour": (24, "0 */{} * * *")}
_NO_EFFECT: Final = frozenset({"roles", "mailto", "output", "environment", "path"})


def read_whenever(text: str, reading: Reading) -> Imported:
    """Read the file.

    Raises:
        ImportKindError: it has no `every`.
    """
    if not re.search(r"^\s*every[\s(]", text, re.MULTILINE):
        raise ImportKindError("there is no block in it such as every 1.day do … end")
    imported = Imported(kind="whenever")
    state = _State(zone=reading.timezone, imported=imported, reading=reading)
    for number, line in _lines(text):
        state.read(number, line)
    if state.block is not None:
        imported.refuse(state.block.line, state.block.source, "its end is missing")
    if imported.schedules and state.zone == reading.timezone:
        imported.notes.append(
            f"read in {reading.timezone}; cron uses the zone of its host (`timedatectl`), give that with "
            "--timezone"
        )
    return imported


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments; what ends with a comma goes on in the next one."""
    held, begin = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        bare = _without_comment(line).strip()
        if not bare:
            continue
        begin = begin or number
        held = f"{held} {bare}".strip()
        if bare.endswith((",", "\\")):
            held = held.removesuffix("\\").strip()
            continue
        yield begin, held
        held, begin = "", 0
    if held:
        yield begin, held


def _without_comment(line: str) -> str:
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote and line[place - 1] != "\\" else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#":
            return line[:place]
    return line


@dataclass(slots=True)
class _Block:
    line: int
    source: str
    expressions: list[str]
    fault: str = ""


@dataclass(slots=True, kw_only=True)
class _State:
    """Where the reading is."""

    zone: str
    imported: Imported
    reading: Reading
    block: _Block | None = None
    depth: int = 0
    is_24_hours: bool = False
    types: dict[str, str] = field(default_factory=dict)
    path: str = ""

    def read(self, number: int, line: str) -> None:
        """One line."""
        if self.depth:
            self.depth += bool(_OPENS.search(line)) - (line in ("end", "}"))
        elif self.block is not None:
            self._in_block(number, line)
        elif (match := _EVERY.fullmatch(line)) is not None:
            self._open(number, line, match)
        elif (match := _JOB_TYPE.fullmatch(line)) is not None:
            self._job_type(number, line, match)
        elif (match := _SETTING.fullmatch(line)) is not None:
            self._setting(match)
        elif not re.match(r"require(_relative)?\b", line):
            self._skip(number, line)

    def _skip(self, number: int, line: str) -> None:
        self.imported.refuse(number, line, f"only every, set, env and job_type are read; {_HINT}")
        self.depth = int(bool(_OPENS.search(line)))

    def _open(self, number: int, line: str, match: re.Match[str]) -> None:
        try:
            expressions, fault = _expressions(match["args"], is_24_hours=self.is_24_hours), ""
        except Unsayable as reason:
            expressions, fault = [], str(reason)
        self.block = _Block(number, line, expressions, fault)
        rest = match["rest"].strip()
        if rest:
            self._in_block(number, rest)
            if re.search(r"(\}|\bend)$", rest):
                self.block = None

    def _in_block(self, number: int, line: str) -> None:
        block = self.block
        if block is None or line in ("end", "}"):
            self.block = None
            return
        if block.fault:
            self.imported.refuse(number, f"{block.source} … {line}", block.fault)
        else:
            try:
                self._add(number, line, block)
            except Unsayable as reason:
                self.imported.refuse(number, line, reason)
        self.depth = int(bool(_OPENS.search(line)))

    def _add(self, number: int, line: str, block: _Block) -> None:
        match = _JOB.fullmatch(line)
        if match is None:
            raise Unsayable(f"is no runner, rake, command or script; {_HINT}")
        args, options = parse_arguments(_new_style(match["args"]))
        if len(args) != 1 or not isinstance(args[0], str):
            raise Unsayable(f"{match['type']} takes one text; {_HINT}")
        found = self._job(match["type"], args[0])
        notes = [*found.notes]
        notes += [f"{name} is not carried over" for name in sorted(set(options) - _NO_EFFECT)]
        for expression in block.expressions:
            self.imported.schedules.append(
                ImportedSchedule(
                    name=found.name,
                    line=number,
                    source=f"{block.source} {line}" if block.line != number else line,
                    expression=expression,
                    timezone=self.zone,
                    job=found.job,
                    dialect="cron",
                    notes=tuple(notes),
                )
            )

    def _job(self, kind: str, text: str) -> Recognized:
        if kind in self.types:
            template = self.types[kind]
            rest = template.replace(":task", text).replace(":path", self.path or ":path")
            rest = re.sub(r"\s*:output\b", "", rest)
            if (unknown := re.search(r"(?<![\w:]):[a-z_]+", rest.replace(text, ""))) is not None:
                raise Unsayable(f"{unknown[0]} in its job_type is not known here; {_HINT}")
            return job_of_command(rest, self.reading)
        if kind == "runner":
            try:
                return job_of_code(text, self.reading)
            except Unsayable as reason:
                found = job_of_command(
                    _in_path(self.path, f"bin/rails runner {_quoted(text)}"), self.reading
                )
                return Recognized(
                    job=found.job, name=found.name, notes=[f"not recognized as a job: {reason}"]
                )
        commands = {
            "command": text,
            "rake": _in_path(self.path, f"bundle exec rake {text}"),
            "script": _in_path(self.path, f"bundle exec script/{text}"),
        }
        if kind not in commands:
            raise Unsayable(f"{kind} is no job type of whenever's own, nor of this file; {_HINT}")
        return job_of_command(commands[kind], self.reading)

    def _job_type(self, number: int, line: str, match: re.Match[str]) -> None:
        try:
            args, _ = parse_arguments(match[2])
        except Unsayable as reason:
            self.imported.refuse(number, line, reason)
            return
        if len(args) == 1 and isinstance(args[0], str):
            self.types[match[1]] = args[0]

    def _setting(self, match: re.Match[str]) -> None:
        what, name, value = match.groups()
        bare = value.strip("\"' ")
        if what == "env" and name == "CRON_TZ":
            self.zone = bare
        elif what == "env":
            self.imported.notes.append(
                f"{name}: set it in the worker's environment if it is needed"
            )
        elif name == "path":
            self.path = bare
        elif name == "chronic_options":
            self.is_24_hours = bool(re.search(r"hours24(:|\s*=>)\s*true", value))


def _expressions(args: str, *, is_24_hours: bool) -> list[str]:
    """Five fields for each time of an `every`."""
    match = re.match(r"""(['"])(?P<cron>[^'"]*)\1|(?P<word>:?[\w.]+)""", args)
    if match is None:
        raise Unsayable(f"every {args} is not read; {_HINT}")
    rest = args[match.end() :].strip().removeprefix(",").strip()
    options = parse_options(_new_style(rest)) if rest else {}
    at = options.pop("at", None)
    if set(options) - _NO_EFFECT:
        raise Unsayable(f"{', '.join(sorted(options))} of every is not read; {_HINT}")
    if match["cron"] is not None:
        if at is not None:
            raise Unsayable("at does not go with a cron line")
        return [_checked(match["cron"])]
    return _of_word(match["word"], at, is_24_hours=is_24_hours)


def _of_word(word: str, at: Any, *, is_24_hours: bool) -> list[str]:
    if word == ":reboot":
        raise Unsayable(
            "reboot is no time: nothing restarts here; enqueue the job when the worker starts"
        )
    if word in _DAILY:
        times = at if isinstance(at, list) else [at if at is not None else "midnight"]
        return _of_times([_time(each, is_24_hours=is_24_hours) for each in times], _DAILY[word])
    if at is not None:
        raise Unsayable(f"at with every {word} is not read; {_HINT}")
    if word == ":week":
        return ["0 0 * * 0"]
    if word in _HOURLY:
        return [_HOURLY[word]]
    match = _PERIOD.fullmatch(word)
    whole, form = _WHOLE.get(match[2] if match else "", (0, ""))
    if match is None or not whole or int(match[1]) < 1 or whole % int(match[1]):
        raise Unsayable(
            f"every {word} is not read, since it does not divide its hour or day; {_HINT}"
        )
    if int(match[1]) == whole:
        return ["0 * * * *" if match[2] == "minute" else "0 0 * * *"]
    return [form.format(match[1])]


def _of_times(times: list[tuple[int, int]], days: str) -> list[str]:
    """One line for the hours of each minute."""
    hours: dict[int, list[int]] = {}
    for hour, minute in times:
        hours.setdefault(minute, []).append(hour)
    return [
        f"{minute} {','.join(map(str, sorted(set(found))))} {days}"
        for minute, found in hours.items()
    ]


def _time(value: Any, *, is_24_hours: bool) -> tuple[int, int]:
    if value in ("midnight", "noon"):
        return (12 if value == "noon" else 0), 0
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise Unsayable(f"at: {value!r} is not read; {_HINT}")
    hour, minute, half = int(match[1]), int(match[2] or 0), (match[3] or "").lower()
    highest = 12 if half else 23
    if hour > highest or minute > 59 or (half and not hour):  # noqa: PLR2004 - minutes of an hour
        raise Unsayable(f"at: {value!r} is no time of day")
    if half:
        return hour % 12 + 12 * (half == "pm"), minute
    if not is_24_hours and 0 < hour <= 12:  # noqa: PLR2004 - hours that may be before or after noon
        raise Unsayable(f"at: {value!r} may be before or after noon; write am or pm")
    return hour, minute


def _checked(line: str) -> str:
    fields = MACROS.get(line.strip(), line)
    try:
        parse_crontab(fields)
    except ExpressionError as error:
        raise Unsayable(str(error)) from None
    return " ".join(fields.split())


def _new_style(text: str) -> str:
    """`:at => '4:30 am'` as `at: '4:30 am'`; without roles, which say on which hosts it is installed."""
    text = re.sub(r"(^|,)\s*:(\w+)\s*=>\s*", r"\1 \2: ", text)
    return re.sub(r"(^|,)\s*roles:\s*(\[[^\]]*\]|:\w+)", "", text)


def _in_path(path: str, command: str) -> str:
    return f"cd {path} && {command}" if path else command


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
