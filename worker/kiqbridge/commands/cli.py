"""The `kiqbridge` command. Exit codes: 0 orderly, 1 boot or settings, 2 usage, 3 no Redis."""

import argparse
import errno
import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from kiqbridge import __version__, errors, seams
from kiqbridge.commands.arguments import HelpFormatter, Verbs, add
from kiqbridge.commands.table import groups, load
from kiqbridge.feature import Verb
from kiqbridge.runtime.collector import collector_rests
from kiqbridge.wire.names import printable

Command = Callable[[argparse.Namespace], int]
INTERRUPTED: Final = 130
"""As shells say it: 128 and the number of SIGINT."""
_CODES: Final = {errors.PayloadError: 2, errors.EventError: 2, errors.RedisUnavailable: 3}
"""Error → exit code; 1 of all others of ours, such as of a Redis that answers, but refuses."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _open_standard_streams()
    words = sys.argv[1:] if argv is None else argv
    try:
        with collector_rests():
            parser = build_parser(words)
    except (
        ImportError
    ) as error:  # as of `python -S`, or of a redis-py that is not among those that pip takes
        reads_yaml = (error.name or "").partition(".")[0] == "yaml"
        hint = (
            "it reads YAML, which the base package does not: pip install 'kiqbridge[worker]'"
            if reads_yaml
            else f"see what {sys.executable} finds with `python -m pip check`, and install kiqbridge with "
            "what it depends on: pip install kiqbridge"
        )
        sys.stderr.write(f"kiqbridge: the command cannot be loaded: {error}; {hint}\n")
        return 1
    options = parser.parse_args(words)
    if fleet := getattr(options, "fleet", None):
        os.environ["KIQBRIDGE_FLEET"] = fleet  # read wherever address and namespace are
    if isinstance(sys.stdout, io.TextIOWrapper):  # an escape for a sign that its encoding has not
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(options)
        if not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:  # `| head` has ended; what Python flushes at its own end goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"kiqbridge: not all was written: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nkiqbridge: interrupted; what was done until now stays done\n")
        return INTERRUPTED
    return code


def _open_standard_streams() -> None:
    """Open what of standard input, output and error is closed (`2>&-`), on nothing.

    Else the next file or socket gets its number, and what a program of a job prints is sent to Redis.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number


def _run(options: argparse.Namespace) -> int:
    command: Command = options.command
    try:
        return command(options)
    except errors.KiqbridgeError as error:
        # What an error quotes may come from Redis, and must not act on the terminal.
        text = "\n".join(map(printable, str(error).split("\n")))
        sys.stderr.write(f"kiqbridge: {text}\n")
        return next((code for kind, code in _CODES.items() if isinstance(error, kind)), 1)


class Parser(argparse.ArgumentParser):
    """Refuses what it does not know with its own usage, not with that of the command above it.

    Attributes:
        default_verb: what is meant where a command has verbs and none is given.
        default_takes_word: the default verb has an argument, so that a word which is no verb is meant for it.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        # Abbreviations would break scripts as soon as another option begins alike.
        super().__init__(
            *args, **{"formatter_class": HelpFormatter, "allow_abbrev": False, **keywords}
        )
        self.default_verb = ""
        self.default_takes_word = False
        self._words: list[str] = []

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As the original, but nothing is left over."""
        words = self._words = list(sys.argv[1:] if args is None else args)
        if self.default_verb and self._has_no_verb(words) and not _asks_help(words):
            words.insert(0, self.default_verb)
        found, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """As the original, with the flags that may be meant by those that there are not."""
        # A mistyped flag may be why one is missing. What else is wrong has its own message.
        is_of_flags = message.startswith(("unrecognized arguments", "the following arguments"))
        super().error(message + (self._flags_meant() if is_of_flags else ""))

    def _has_no_verb(self, words: Sequence[str]) -> bool:
        if not words or words[0].startswith("-"):
            return True
        # A word that is nearly a verb is a mistyped one.
        return self.default_takes_word and not errors.did_you_mean(words[0], _verbs_of(self))

    def _flags_meant(self) -> str:
        known = self._option_string_actions
        flags = [word.partition("=")[0] for word in self._words if word.startswith("--")]
        return next(
            filter(None, (errors.did_you_mean(flag, known) for flag in flags if flag not in known)),
            "",
        )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As the original, but it names the choice that may be meant in place of all of them."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            hint = errors.did_you_mean(str(value), map(str, action.choices or ()))
            if not hint and not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                raise
            hint = hint or f"; {self.prog} --help lists them"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}") from error


def build_parser(words: Sequence[str], *, complete: bool = False) -> argparse.ArgumentParser:
    """The parser for a command line.

    It knows the command that comes first, and without one, or with one that there is not, all of them, but not their
    arguments: what belongs to others would make each worker start later and grow larger. `complete`: all of all.
    """
    parser = Parser(
        prog="kiqbridge",
        description="Sidekiq-compatible background jobs for Python and AWS.",
        epilog="kiqbridge COMMAND --help shows the options of a command, and an example.",
    )
    parser.add_argument("-V", "--version", action="version", version=f"kiqbridge {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    named = next((word for word in words if not word.startswith("-")), "")
    # Not if an option stands before it: that may be `--help`, which lists all of them.
    by_title = groups("" if complete or named not in words[:1] else named)
    verbs = [verb for group in by_title.values() for verb in group]
    is_known = not complete and named in words[:1] and any(verb.name == named for verb in verbs)
    _add_each(commands, verbs, named, words[1:], is_alone=is_known, complete=complete)
    # List the commands of a help text under the headings of their groups, and the options behind them.
    # argparse has one heading for all commands: the lines it would put there are put into groups of arguments.
    lines = {line.dest: line for line in commands._choices_actions}  # noqa: SLF001
    parser._subparsers._group_actions.remove(commands)  # type: ignore[union-attr] # noqa: SLF001
    for title, entries in by_title.items():
        group = parser.add_argument_group(title)
        group._group_actions += [lines[each.name] for each in entries if each.name in lines]  # noqa: SLF001
    parser._action_groups.sort(key=lambda each: each is parser._optionals)  # noqa: SLF001
    return parser


def _add_each(
    commands: "Verbs[Any]",
    verbs: Sequence[Verb],
    named: str,
    words: Sequence[str],
    *,
    is_alone: bool = False,
    complete: bool,
) -> None:
    """Add commands, and to the one that is named the verbs of it that features bring.

    Args:
        commands: get them.
        verbs: what is added.
        named: the one whose arguments are loaded.
        words: behind it.
        is_alone: no other one is added.
        complete: the arguments of all are loaded.
    """
    shared = Counter(verb.module for verb in verbs if verb.module)
    for verb in verbs:
        if is_alone and verb.name != named:
            continue
        command = commands.add_parser(verb.name, help=verb.help)
        if not complete and verb.name != named:
            continue
        load(verb, command, is_shared=shared[verb.module] > 1)
        if (inner := _inner(command)) is not None:
            brought = list(seams.verbs(verb.name))
            _add_each(inner, brought, "".join(words[:1]), words[1:], complete=complete)
        if verb.has_fleet and not verb.parent:
            _add_fleet(command)


def _inner(parser: argparse.ArgumentParser) -> "Verbs[argparse.ArgumentParser] | None":
    # There is no other way to them.
    actions = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))  # noqa: SLF001
    return next(actions, None)


def _verbs_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    inner = _inner(parser)
    return inner.choices if inner is not None else {}


def _add_fleet(parser: argparse.ArgumentParser) -> None:
    """Give a command, or each of its verbs, the option that names a fleet."""
    verbs = _verbs_of(parser)
    if not verbs:
        add(parser, "--fleet NAME", "the one of the setting fleets [KIQBRIDGE_FLEET]")
    for verb in verbs.values():
        _add_fleet(verb)


def _asks_help(words: Sequence[str]) -> bool:
    return bool({"-h", "--help"} & set(words[:1]))
