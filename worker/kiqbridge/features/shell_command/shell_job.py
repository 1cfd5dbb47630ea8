"""`ShellCommand`: the job that runs a command of an imported crontab; declared only if commands are allowed.

    {"class": "ShellCommand", "args": ["/usr/local/bin/backup.sh --full"], "retry": 0}

Who can enqueue could run any command with it, so nothing of a payload is trusted but the choice among what the
worker's setting `shell_commands` lists:

1. An entry with `=` in front, or one that only a shell could run (`|`, `&&`, `$(…)`), allows the command that is
   the same letter by letter. Only such a command may be run by a shell, and only if it needs one.
2. Any other entry is a pattern of plain words (runtime/shell_words.py), compared word by word: `*` and `?` stand
   for letters but `/`; `*` as the last word for any further words. No shell is started.
3. Folder and environment are the worker's: PATH, HOME, LANG and the like, and what `shell_environment` names.

What is not allowed is dead at once, with the reason. A command that ends with another status than 0, or is ended
by a signal or the time limit, is a failure of the job.
"""

import asyncio
import errno
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final

from kiqbridge.client.job import job
from kiqbridge.config.config import Config
from kiqbridge.engine.perform.execution import NotBegun
from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime.shell_words import plain_words, shell_words

NAME: Final = "ShellCommand"

MAX_OUTPUT: Final = 16_384
"""Bytes of the end of the output that are logged."""

_KEPT_VARIABLES: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TZ", "USER")
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_TERM_S: Final = 1.5
"""Seconds from TERM to KILL; an interrupted job has 3 to clean up."""
_NO_ROOM: Final = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
"""Errors of a start that say nothing of the command: no room for a process, no memory, no descriptors."""
_LINGER_S: Final = 0.5
"""Seconds for which output is read on when the command has ended but a child of it holds the pipe."""

logger = logging.getLogger(__name__)


class CommandNotAllowed(KiqbridgeError):  # noqa: N818 - reads as what happened, beside NotAllowed
    """The worker's setting `shell_commands` does not list this command; the job is dead."""


class CommandFailed(KiqbridgeError):  # noqa: N818 - reads as what happened
    """A command ended with another status than 0, or was ended."""


def declare(config: Config) -> None:
    """Declare it as the settings of this worker say, in its environment.

    Raises:
        ConfigError: the name is taken.
    """
    declare_shell_command(
        config.shell_commands,
        environment=command_environment(os.environ, config.shell_environment),
        time_limit_s=config.shell_time_limit_s,
    )


def declare_shell_command(
    allowed: Sequence[str], *, environment: Mapping[str, str], time_limit_s: float
) -> None:
    """Declare the job; call it only if `allowed` has entries.

    Args:
        allowed: the setting `shell_commands`.
        environment: of each command, complete (`command_environment`).
        time_limit_s: seconds after which a command is ended.

    Raises:
        ConfigError: the name is taken.
    """
    allow_list = AllowList(allowed)

    @job(name=NAME, retry=0, on_error={CommandNotAllowed: "kill"})
    async def shell_command(command: str) -> None:
        argv = allow_list.argv_of(command)
        await run_command(argv, environment=environment, time_limit_s=time_limit_s)


def command_environment(environ: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The variables of a command: a few of the worker's own, and those with these names."""
    kept = {name: environ[name] for name in (*_KEPT_VARIABLES, *names) if name in environ}
    return {"PATH": _PATH, **kept}


class AllowList:
    """Which commands may run, and how each is started."""

    def __init__(self, entries: Sequence[str]) -> None:
        patterns = {entry.strip(): _pattern(entry.strip()) for entry in entries}
        self._patterns = [words for words in patterns.values() if words]
        self._exact = frozenset(
            entry.removeprefix("=").strip() for entry, words in patterns.items() if not words
        )

    def argv_of(self, command: object) -> Sequence[str]:
        """Program and arguments.

        Raises:
            CommandNotAllowed: with the reason.
        """
        if not isinstance(command, str) or not command.strip() or "\0" in command:
            raise CommandNotAllowed(f"{command!r} is no command")
        command = command.strip()
        words = plain_words(command)
        if command in self._exact:
            return words or ["/bin/sh", "-c", command]
        if words is None:
            raise CommandNotAllowed(
                f"{command!r} needs a shell, and runs only if KIQBRIDGE_SHELL_COMMANDS has it letter by letter "
                "(with = in front)"
            )
        if not any(_allows(pattern, words) for pattern in self._patterns):
            raise CommandNotAllowed(
                f"{command!r} is not allowed: no entry of KIQBRIDGE_SHELL_COMMANDS matches it"
            )
        return words


async def run_command(
    argv: Sequence[str], *, environment: Mapping[str, str], time_limit_s: float
) -> None:
    """Run a program, and log the end of its output; it and its children are ended if this is cancelled.

    Raises:
        CommandFailed: it could not be started, failed, or took too long.
        NotBegun: the system has no room for another process.
    """
    process, output = await _start(argv, environment)
    try:
        async with asyncio.timeout(time_limit_s):
            await process.wait()
    except TimeoutError:
        await _end(process)
        raise CommandFailed(
            f"{argv[0]} ran for more than {time_limit_s:g} s and was ended{output.last_line()}"
        ) from None
    except BaseException:
        await _end(process)
        raise
    finally:
        await output.finish()
        output.log(argv[0], process.returncode)
    if process.returncode:
        raise CommandFailed(f"{argv[0]} {_how(process.returncode)}{output.last_line()}")


async def _start(
    argv: Sequence[str], environment: Mapping[str, str]
) -> tuple[asyncio.subprocess.Process, "_Output"]:
    try:
        reading_end, writing_end = os.pipe()
    except OSError as error:
        raise _not_started(argv[0], error) from error
    output = _Output(reading_end)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writing_end,
            stderr=writing_end,
            env=dict(environment),
            start_new_session=True,
        )
    except BaseException as error:
        output.close()
        if isinstance(error, OSError | ValueError):
            raise _not_started(argv[0], error) from error
        raise
    finally:
        os.close(writing_end)
    return process, output


def _not_started(program: str, error: OSError | ValueError) -> Exception:
    why = f"{program} could not be started: {error}"
    is_ours = isinstance(error, OSError) and error.errno in _NO_ROOM
    return NotBegun(why) if is_ours else CommandFailed(why)


class _Output:
    """The end of what a command writes into a pipe, of which this has the reading end.

    Not read by `connect_read_pipe`: uvloop closes its descriptor twice, and so maybe one of another thread.
    """

    def __init__(self, descriptor: int) -> None:
        self._kept = bytearray()
        self._size = 0
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            chunk = os.read(self._descriptor, 65_536)
            self._size += len(chunk)
            self._kept += chunk
            del self._kept[:-MAX_OUTPUT]
            if not chunk:
                self.close()

    async def finish(self) -> None:
        """Read what is left, for a moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                await self._ended.wait()
        self.close()

    def close(self) -> None:
        """Read no more, also if a child of the command still writes."""
        if not self._ended.is_set():
            self._ended.set()
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)

    def text(self) -> str:
        return self._kept.decode("utf-8", "replace").strip()

    def last_line(self) -> str:
        text = self.text()
        return f": {text.splitlines()[-1][-200:]}" if text else ""

    def log(self, program: str, status: int | None) -> None:
        cut = self._size - len(self._kept)
        begin = f"the last of {self._size} bytes:\n" if cut else ""
        logger.info(
            "command %s %s; output: %s", program, _how(status or 0), begin + self.text() or "none"
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    """TERM to it and its children, then KILL to those that are left, also when it has ended itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_TERM_S):
                await process.wait()


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _pattern(entry: str) -> Sequence[str]:
    """The words of an entry; none if it is meant letter by letter."""
    if entry.startswith("=") or plain_words(entry.replace("*", "x").replace("?", "x")) is None:
        return []
    return [word.text for word in shell_words(entry)]


def _allows(pattern: Sequence[str], words: Sequence[str]) -> bool:
    is_open = len(pattern) > 1 and pattern[-1] == "*"
    fixed = pattern[:-1] if is_open else pattern
    if len(words) < len(fixed) or (len(words) > len(fixed) and not is_open):
        return False
    return all(_matches(part, word) for part, word in zip(fixed, words, strict=False))


def _matches(pattern: str, word: str) -> bool:
    """As a shell's glob: segment by segment, and `..` is only matched by itself."""
    parts, segments = pattern.split("/"), word.split("/")
    if len(parts) != len(segments):
        return False
    return all(
        part == segment or (segment != ".." and fnmatchcase(segment, part))
        for part, segment in zip(parts, segments, strict=True)
    )
