"""Ruby's literals that are JSON: the arguments of a call, read without Ruby.

Numbers, strings, true, false, nil, arrays, `%w[…]`, and hashes with strings as keys. What is more than that
(symbols, constants, calls, interpolation) is refused, since only Ruby knows its value.
"""

import re
from typing import Any, Final

from kiqbridge.schedule.imports.record import Unsayable

_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9][0-9_]*)?([eE][-+]?[0-9]+)?(?![\w.])")
_NAME: Final = re.compile(r"[A-Za-z_]\w*[?!]?(?:::\w+)*")
_SYMBOL: Final = re.compile(r""":(?=[\w"'])(?:\w+[?!=]?|"[^"]*"|'[^']*')""")
_KEYWORD: Final = re.compile(r"""([A-Za-z_]\w*[?!]?):(?!:)|"([^"#\\]*)":(?!:)|'([^'\\]*)':(?!:)""")
_WORDS: Final = re.compile(r"%w(?:\[([^\]]*)\]|\(([^)]*)\)|\{([^}]*)\}|<([^>]*)>)")
_WORD_VALUES: Final = {"true": True, "false": False, "nil": None}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b", "s": " ", "0": "\0"}
_MOST_NESTED: Final = 50


def parse_arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call, and its keyword arguments.

    Raises:
        Unsayable: what is not a literal, and where.
    """
    reader = _Reader(text)
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    while not reader.at_end():
        if (keyword := reader.keyword()) is not None:
            keywords[keyword] = reader.value()
        elif keywords:
            raise Unsayable(f"an argument follows keyword arguments in {text!r}")
        else:
            args.append(reader.value())
        if not reader.take(",") and not reader.at_end():
            raise reader.refuse("is no literal")
    return args, keywords


def parse_options(text: str) -> dict[str, Any]:
    """Keyword arguments whose values may be symbols, such as `queue: :low`, as texts.

    Raises:
        Unsayable: what is not a literal, and where.
    """
    args, keywords = parse_arguments(re.sub(r":\s+:(\w+)", r": '\1'", text))
    if args:
        raise Unsayable(f"{text!r} are no keyword arguments")
    return keywords


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._depth = 0

    def at_end(self) -> bool:
        self._skip()
        return self._place >= len(self._text)

    def take(self, token: str) -> bool:
        self._skip()
        found = self._text.startswith(token, self._place)
        self._place += len(token) * found
        return found

    def keyword(self) -> str | None:
        """The name of a keyword argument, if one begins here."""
        self._skip()
        match = _KEYWORD.match(self._text, self._place)
        if match is None:
            return None
        self._place = match.end()
        return next(group for group in match.groups() if group is not None)

    def value(self) -> Any:
        self._skip()
        rest = self._text[self._place :]
        if not rest:
            raise Unsayable(f"an argument is missing at the end of {self._text!r}")
        if rest[0] in "\"'":
            return self._string()
        if rest[0] in "[{":
            return self._nested(rest[0])
        if (words := _WORDS.match(rest)) is not None:
            self._place += words.end()
            return next(group for group in words.groups() if group is not None).split()
        if (number := _NUMBER.match(rest)) is not None:
            return self._number(number)
        name = _NAME.match(rest)
        if name is not None and name[0] in _WORD_VALUES and not rest[name.end() :].startswith("."):
            self._place += name.end()
            return _WORD_VALUES[name[0]]
        if _SYMBOL.match(rest):
            raise self.refuse("is a symbol, which JSON does not have (write a string)")
        raise self.refuse("is an expression, whose value only Ruby knows")

    def refuse(self, problem: str) -> Unsayable:
        return Unsayable(f"{self._text[self._place :].strip()[:40]!r} {problem}")

    def _number(self, match: re.Match[str]) -> int | float:
        text = match[0].replace("_", "")
        is_octal = len(text.lstrip("+-")) > 1 and text.lstrip("+-").isdigit()
        if is_octal and text.lstrip("+-").startswith("0"):
            raise self.refuse("is an octal number (write it in decimal)")
        self._place += match.end()
        is_float = match[1] is not None or match[2] is not None
        return float(text) if is_float else int(text)

    def _nested(self, opening: str) -> Any:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise self.refuse("is nested too deeply")
        found = self._array() if opening == "[" else self._hash()
        self._depth -= 1
        return found

    def _array(self) -> list[Any]:
        self.take("[")
        found: list[Any] = []
        while not self.take("]"):
            found.append(self.value())
            if not self.take(",") and not self._text.startswith("]", self._place):
                raise self.refuse("is no literal")
        return found

    def _hash(self) -> dict[str, Any]:
        self.take("{")
        found: dict[str, Any] = {}
        while not self.take("}"):
            self._skip()
            if _KEYWORD.match(self._text, self._place):
                raise self.refuse("is a hash with symbols as keys (write 'key' => value)")
            key = self.value()
            if not isinstance(key, str):
                raise Unsayable(f"{key!r} is a key of a hash, and JSON's keys are texts")
            if not self.take("=>"):
                raise self.refuse("is no literal")
            found[key] = self.value()
            if not self.take(",") and not self._text.startswith("}", self._place):
                raise self.refuse("is no literal")
        return found

    def _string(self) -> str:
        quote = self._text[self._place]
        place, found = self._place + 1, ""
        while place < len(self._text):
            letter = self._text[place]
            if letter == quote:
                self._place = place + 1
                return found
            if letter == "\\":
                place += 1
                found += _escaped(self._text[place : place + 1], quote)
            elif quote == '"' and self._text.startswith("#{", place):
                raise self.refuse("is a string with #{}, whose value only Ruby knows")
            else:
                found += letter
            place += 1
        raise self.refuse("is a string without its end")

    def _skip(self) -> None:
        while self._place < len(self._text) and self._text[self._place].isspace():
            self._place += 1


def _escaped(letter: str, quote: str) -> str:
    """What a backslash and this letter are in a string."""
    if quote == "'":
        return letter if letter in "'\\" else "\\" + letter
    if letter in "uxcMC01234567" and letter != "0":
        raise Unsayable(f"'\\{letter}' in a string is not read here; write the character itself")
    return _ESCAPES.get(letter, letter)
