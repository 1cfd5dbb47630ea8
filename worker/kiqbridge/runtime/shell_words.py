"""What a shell would make of a command line: plain words, or something that only a shell can do.

By the quoting rules of POSIX sh (2.2). Nothing is expanded and nothing is run: a word with an expansion in
it, a glob or a leading tilde is only marked as not plain.
"""

from collections.abc import Sequence
from typing import Final

from kiqbridge.runtime.records import dataclass

_OPERATORS: Final = frozenset("|&;<>()\n")
_EXPANDS: Final = frozenset("*?[]{}!#")
_ESCAPED_IN_DOUBLE: Final = frozenset('$`"\\\n')


class ShellSyntax(ValueError):  # noqa: N818 - what it is, not that it is one
    """A command line ends within quotes."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word or an operator of a command line.

    Attributes:
        text: without its quotes; of an operator as it stands.
        is_operator: `|`, `&&`, `;`, `>>` or the like.
        is_plain: a shell would pass on exactly this text.
        start: where it begins in the command line.
    """

    text: str
    is_operator: bool
    is_plain: bool
    start: int


def shell_words(command: str) -> list[Word]:
    """The words and operators of a command line.

    Raises:
        ShellSyntax: a quote is not closed.
    """
    found: list[Word] = []
    place = 0
    while place < len(command):
        if command[place] in _OPERATORS:
            end = place + 1
            while end < len(command) and command[end] == command[place] != "\n":
                end += 1
            found.append(Word(command[place:end], True, False, place))
        elif command[place].isspace():
            end = place + 1
        else:
            word, end = _word(command, place)
            found.append(word)
        place = end
    return found


def plain_words(command: str) -> Sequence[str] | None:
    """The words with which a program can be started without a shell; None if only a shell can run it."""
    try:
        words = shell_words(command)
    except ShellSyntax:
        return None
    if not words or not all(word.is_plain for word in words):
        return None
    # `NAME=value program`: only a shell sets a variable so.
    name, equals, _ = words[0].text.partition("=")
    return None if equals and name.isidentifier() else [word.text for word in words]


def _word(command: str, start: int) -> tuple[Word, int]:
    text, is_plain, place = "", True, start
    while place < len(command) and command[place] not in _OPERATORS:
        letter = command[place]
        if letter.isspace():
            break
        if letter == "'":
            end = _closing(command, place)
            text += command[place + 1 : end]
        elif letter == '"':
            inner, end, is_fixed = _double_quoted(command, place)
            text, is_plain = text + inner, is_plain and is_fixed
        elif letter == "\\":
            end = place + 1
            text += command[end : end + 1]
            is_plain = is_plain and command[end : end + 1] not in ("", "\n")
        else:
            end = place
            text += letter
            is_expansion = (
                letter in "$`" or letter in _EXPANDS or (letter == "~" and place == start)
            )
            is_plain = is_plain and not is_expansion
        place = end + 1
    return Word(text, False, is_plain, start), place


def _closing(command: str, start: int) -> int:
    end = command.find("'", start + 1)
    if end < 0:
        raise ShellSyntax(f"the quote ' at character {start + 1} is not closed")
    return end


def _double_quoted(command: str, start: int) -> tuple[str, int, bool]:
    text, is_fixed, place = "", True, start + 1
    while place < len(command):
        letter = command[place]
        if letter == '"':
            return text, place, is_fixed
        if letter == "\\" and command[place + 1 : place + 2] in _ESCAPED_IN_DOUBLE:
            place += 1
            text += command[place : place + 1].replace("\n", "")
        else:
            is_fixed = is_fixed and letter not in "$`"
            text += letter
        place += 1
    raise ShellSyntax(f'the quote " at character {start + 1} is not closed')
