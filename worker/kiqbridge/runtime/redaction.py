"""Keeping secrets out of lines and messages: passwords in addresses, and arguments by their names.

Redis keeps jobs as they are; only what is logged, or shown in an error, goes through here.
"""

import contextlib
import contextvars
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

DEFAULT_KEYS: Final = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "authorization", "api_key"),
    *("apikey", "access_key", "private_key", "credential", "cookie"),
)
"""Names whose values are hidden when nothing else is configured."""

ALWAYS: Final = ("task_token",)
"""Names whose values are hidden whatever is configured: no setting names them, and anyone who reads one can use it."""

HIDDEN: Final = "[REDACTED]"
MAX_DEPTH: Final = 100

_SHOWN = 80
_SEARCHED = 2_000
_KEYS = 8
_MAX_SUFFIX = 40
"""Characters of a name after its secret word; bounded, so that no text takes long."""

# The password may hold an unescaped slash or @: everything up to the last @ before a blank or quote,
# unless what follows the colon is a port. Never over the start of another address.
_IN_ADDRESS = re.compile(r"""(://[^\s/@:'"<>\\]*):(?!\d+[/?#])((?:(?!://)[^\s'"<>\\])+)@""")
_IN_QUERY = re.compile(r"""([?&](?:sentinel_)?password=)[^&\s'"<>\\]+""")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_NAME = re.compile(r"[^a-z0-9*]+")


class Redactor:
    """Hides values by the names they have.

    A name matches when one of the keys is a word of it or several in a row, whatever the case:
    `token` matches `token`, `tokens`, `accessToken` and `X-Auth-Token`, but not `tokenizer`. A `*` in a
    key stands for any letters, digits and blanks between words: `card*` matches `cardNumber` and `cards`.

    Args:
        keys: the names, besides `ALWAYS`; none = only those and passwords in addresses are hidden.
    """

    def __init__(self, keys: Iterable[str] = DEFAULT_KEYS) -> None:
        words = dict.fromkeys(_words(key) for key in (*keys, *ALWAYS))
        self._words = tuple(f"_{word}" for word in words if word.strip("_*"))
        plain = "|".join(_pattern(word, "_", rf"\w{{0,{_MAX_SUFFIX}}}") for word in self._words)
        self._word = re.compile(rf"(?:{plain})s?_") if self._words else None
        self._known: dict[str, bool] = {}
        names = "|".join(
            _pattern(word[1:], r"[_\-. ]?", rf"[\w\-]{{0,{_MAX_SUFFIX}}}") for word in self._words
        )
        self._pairs = (
            re.compile(
                rf"""(?ix) ( (?: (?<![A-Za-z0-9]) | (?<=(?-i:[a-z0-9]))(?=(?-i:[A-Z])) )
                     (?:{names})s?(?:[_\-][\w\-]{{0,{_MAX_SUFFIX}}})?\\?["']?  # the name
                     \s*(?:=>|[:=])\s* )
                     ( \\?"(?:[^"\\]|\\.)*"? | '(?:[^'\\]|\\.)*'? | \{{[^{{}}]*\}}? | \[[^\[\]]*\]?
                     | (?:(?:basic|bearer|digest|token)\s+)?[^\s,;&}})\]"']+ )"""
            )
            if names
            else None
        )

    def __repr__(self) -> str:
        return f"Redactor({', '.join(word[1:] for word in self._words)})"

    def hides(self, name: object) -> bool:
        """Whether what has this name is secret."""
        if not isinstance(name, str):
            return False
        known = self._known.get(name)
        if known is None:
            plain = _words(name.replace("*", "_"))
            known = self._word is not None and self._word.search(f"_{plain}_") is not None
            if len(self._known) < 10_000:  # noqa: PLR2004 - names may come from payloads: bounded
                self._known[name] = known
        return known

    def value(self, value: Any, depth: int = 0) -> Any:
        """A copy of any value, with secrets hidden in dicts at any depth and in addresses."""
        if isinstance(value, str):
            return addresses(value)
        if depth > MAX_DEPTH:
            return HIDDEN
        if isinstance(value, Mapping):
            return {
                key: HIDDEN if self.hides(key) else self.value(child, depth + 1)
                for key, child in value.items()
            }
        if isinstance(value, list | tuple):
            shown = [self.value(child, depth + 1) for child in value]
            return tuple(shown) if isinstance(value, tuple) else shown
        return value

    def arguments(self, args: Sequence[Any], signature: inspect.Signature | None = None) -> Any:
        """Arguments of a job, hidden also where the parameter at their place has a secret name."""
        if not isinstance(args, list | tuple):
            return self.value(args)
        names = _positions(signature, len(args)) if signature else [""] * len(args)
        return [
            HIDDEN if self.hides(name) else self.value(each)
            for name, each in zip(names, args, strict=True)
        ]

    def payload(self, payload: Any, signature: inspect.Signature | None = None) -> Any:
        """A job as it may be shown."""
        if not isinstance(payload, Mapping):
            return self.value(payload)
        shown = self.value({name: value for name, value in payload.items() if name != "args"})
        if "args" not in payload:
            return shown
        arguments = self.arguments(payload["args"], signature)
        return {name: arguments if name == "args" else shown[name] for name in payload}

    def text(self, text: str) -> str:
        """A text that may hold pairs such as `"token": "x"` or `token=x`, cut or malformed."""
        shown = addresses(text)
        return shown if self._pairs is None else self._pairs.sub(rf"\1{HIDDEN}", shown)


def addresses(text: str) -> str:
    """A text without the passwords in its addresses: `redis://user:***@host?password=***`."""
    if "://" not in text:
        return text
    if "@" in text:
        text = _IN_ADDRESS.sub(r"\1:***@", text)
    return _IN_QUERY.sub(r"\1***", text) if "password=" in text else text


def configure(keys: Iterable[str]) -> None:
    """Choose the names for this process; a worker does it from its setting `redact`."""
    global _redactor  # noqa: PLW0603 - messages are made wherever something is refused
    _redactor = Redactor(keys)


def configure_later(read_keys: Callable[[], Iterable[str]]) -> None:
    """Choose the names when they are first needed, unless `configure` has chosen others by then."""
    global _read_keys  # noqa: PLW0603 - as in configure
    _read_keys = read_keys


@contextlib.contextmanager
def own_names() -> Iterator[None]:
    """Within, no names are chosen yet; at the end those in force are what they were. For tests."""
    global _redactor  # noqa: PLW0603 - as in configure
    former, _redactor = _redactor, None
    try:
        yield
    finally:
        _redactor = former


@contextlib.contextmanager
def arguments_hidden() -> Iterator[None]:
    """Within, messages show of arguments, and of whole jobs and events, only what kind of value they are."""
    token = _hides_arguments.set(True)
    try:
        yield
    finally:
        _hides_arguments.reset(token)


def hides_arguments() -> bool:
    """Whether that is so here."""
    return _hides_arguments.get()


def current() -> Redactor:
    """The names in force: those configured, else those to be read, else the default ones."""
    if _redactor is None:
        configure(_read_keys())
    assert _redactor is not None  # noqa: S101 - for the type checker
    return _redactor


_hides_arguments: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "hides_arguments", default=False
)
_redactor: Redactor | None = None
_read_keys: Callable[[], Iterable[str]] = DEFAULT_KEYS.__iter__


def _pattern(word: str, between: str, anything: str) -> str:
    """A regular expression for a key's words, with what may stand between them and for a `*`."""
    escaped = re.escape(word).replace("_", between)
    return re.sub(r"(?:\\\*)+", lambda _: anything, escaped)


def _words(name: str) -> str:
    """`X-Api-Key` and `xApiKey` → `x_api_key`."""
    return _NO_NAME.sub("_", _HUMP.sub("_", name).lower()).strip("_")


def _positions(signature: inspect.Signature, count: int) -> list[str]:
    """The parameter's name for each of so many positional arguments."""
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [parameter.name] * (count - len(names))
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return [*names[:count], *[""] * (count - len(names))]


def shorten_argument(value: object) -> str:
    """Shorten a value that is or may contain an argument; only its type where arguments are hidden."""
    return _kind(value) if hides_arguments() else shorten(value)


def _kind(value: object) -> str:
    if isinstance(value, Mapping):
        keys = ", ".join(str(key)[:20] for key in list(value)[:_KEYS])
        more = "" if len(value) <= _KEYS else ", …"
        return f"(an object with the keys {keys}{more})" if value else "(an object without keys)"
    if isinstance(value, list | tuple):
        return f"(a list of {len(value)})"
    if isinstance(value, str | bytes):
        return f"(a text of {len(value)})"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "(a number)"
    return f"(of type {type(value).__qualname__})"


def shorten(value: object) -> str:
    """The repr of a value without secrets (py), cut so that it fits into one line of an error.

    Where arguments are hidden, an object or a list is not shown: it may hold some.
    """
    if hides_arguments() and isinstance(value, Mapping | list | tuple):
        return _kind(value)
    redactor = current()
    try:
        if isinstance(value, Mapping):
            text = repr(redactor.payload(value))
        elif isinstance(value, list | tuple):
            text = repr(redactor.value(value))
        elif isinstance(value, str):
            text = repr(redactor.text(value[:_SEARCHED]))
        elif isinstance(value, bytes):
            known = redactor.text(value[:_SEARCHED].decode("latin-1"))
            text = repr(known.encode("latin-1"))
        else:
            text = redactor.text(repr(value)[:_SEARCHED])
    except BaseException as unreadable:  # noqa: BLE001 - the refusal matters more than what it shows
        text = f"({type(value).__qualname__} that cannot be shown: {type(unreadable).__name__})"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
