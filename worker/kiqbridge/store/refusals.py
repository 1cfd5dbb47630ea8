"""What a refusal of the server means: for now, or for good; and what to do about one for good.

Whether a call that failed may succeed later without anybody's doing:

1. No server answered (refused, silent, name not resolved): it is away. `RedisUnavailable`.
2. It answered that it cannot now (`FOR_NOW`: it loads, fails over, is full or busy). `RedisUnavailable`.
3. It answered anything else (no right, unknown or renamed command, wrong type, wrong password): for good, until
   somebody changes something. `RedisRefused`, or `RedisMisconfigured` where nothing can be asked at all.

`KiqbridgeError.may_pass` says which of both it is; replies.py makes the errors.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

FAILOVER: Final = ("READONLY", "NOREPLICAS", "UNBLOCKED")
"""How answers begin of a server that is a replica, or fails over (protocol §1)."""

FOR_NOW: Final = (
    *FAILOVER,
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "OOM",
    "MISCONF",
    "BUSY ",
)
"""How answers begin that may be others later."""

WRONG_TYPE: Final = "somebody wrote a value of another type under one of our keys: look for it with TYPE, and rename or delete it"
"""What to do about Redis' answer WRONGTYPE, which does not name the key."""

NO_LOGIN: Final = r"NOAUTH|Authentication required|unauthenticated (?:multi)?bulk length"
"""In answers of a server that wants a password and was given none; the last one to a long command (over 10 parts, or a
part over 16 kB), after which it ends the connection."""

_LOGIN: Final = re.compile(rf"{NO_LOGIN}|^WRONGPASS|without any password configured")

_ARGUMENTS: Final = re.compile(r", with args beginning with:.*", re.DOTALL)
"""What a server quotes of a command that it does not know: of AUTH or HELLO the password, of a push the job."""

_COMMAND: Final = re.compile(r"no permissions to run the '([\w|-]+)' command")
_NO_COMMAND: Final = re.compile(r"can't run this command or subcommand")
_KEY: Final = re.compile(r"(?:no permissions to|can't) access (?:a key|.*\bkeys?\b)", re.IGNORECASE)
_UNKNOWN: Final = re.compile(
    r"unknown (?:redis )?(?:sub)?command|(?:unknown|unsupported|disabled|invalid) command",
    re.IGNORECASE,
)
_MOST_KEYS: Final = 4


def without_arguments(text: str) -> str:
    """A server's words without what it quotes of the command."""
    return _ARGUMENTS.sub("", text)


def is_login(text: str) -> bool:
    """Whether the server refused the password, or wants one that was not given; then it carried out nothing."""
    return bool(_LOGIN.search(text))


def is_key(text: str) -> bool:
    """Whether the user may not use a key."""
    return bool(_KEY.search(text))


def is_unknown(text: str) -> bool:
    """Whether the server does not have the command, or a proxy does not pass it on."""
    return bool(_UNKNOWN.search(text))


def is_forbidden(text: str) -> bool:
    """Whether the user lacks a right, or the server the command: no fault of what was sent."""
    found = (pattern.search(text) for pattern in (_COMMAND, _NO_COMMAND, _KEY, _UNKNOWN))
    return any(found)


def advice(text: str, command: Sequence[object] = (), user: str = "NAME") -> str:
    """What was refused and what to do about it, as the end of a message; empty where nothing is known.

    Args:
        text: the server's words.
        command: what was sent; of one that carries jobs its name and its keys are shown alone.
        user: whose rights they are.
    """
    if text.startswith("WRONGTYPE"):
        return f"; {WRONG_TYPE}"
    if "unexpected symbol near '#'" in text:  # the first line of our scripts
        return "; this server is too old: upgrade to Redis 7.0, Valkey 7.2, or newer"
    keys = keys_of(command) if command else []
    named = keys[:_MOST_KEYS]
    more = [f"and {len(keys) - _MOST_KEYS} more keys"] if len(keys) > _MOST_KEYS else []
    what = f" ({' '.join([str(command[0]).upper(), *named, *more])})" if command else ""
    acl = f"in the ACL of {user}"
    if is_unknown(text):
        todo = (
            "the server, or a proxy in front of it, does not have this command, or has renamed it (rename-command): "
            "restore it there"
        )
    elif found := _COMMAND.search(text):
        todo = f"allow it: ACL SETUSER {user} +{found[1]}"
    elif _NO_COMMAND.search(text):
        todo = f"`kiqbridge doctor` names the command: allow it {acl}"
    elif is_key(text) and named and not more:
        todo = f"allow it: ACL SETUSER {user} {' '.join(f'~{key}' for key in named)}"
    elif is_key(text):
        todo = f"allow the keys of the namespace {acl}"
    else:
        return ""
    return f"{what}; {todo} (docs/reference/security.md)"


def keys_of(command: Sequence[object]) -> list[str]:
    """The keys of a command, as far as its name says which of its arguments are some."""
    name, *arguments = (_shown(part) for part in command[:64])
    first, end = _KEYS.get(name.upper(), (0, 1))
    if name.upper() in ("EVAL", "EVALSHA"):
        first, end = 2, 2 + int(arguments[1])
    return arguments[first:end]


_KEYS: Final[Mapping[str, tuple[int, int | None]]] = {
    **dict.fromkeys(("DEL", "EXISTS", "MGET", "UNLINK"), (0, None)),
    **dict.fromkeys(("BLPOP", "BRPOP"), (0, -1)),
    "LMOVE": (0, 2),
    **dict.fromkeys(
        ("AUTH", "CLIENT", "CONFIG", "HELLO", "INFO", "SCAN", "SELECT", "WAIT"), (0, 0)
    ),
}
"""Command → from where to where its arguments are keys; of others the first one is. What has none may have a password."""


def _shown(part: object) -> str:
    return part.decode("utf-8", "replace") if isinstance(part, bytes) else str(part)


def code_of(error: BaseException) -> str:
    """The code with which a server has answered; "" if redis-py has left it in the text, or there is none."""
    code = getattr(error, "status_code", None)
    if code:
        return str(code)
    # redis-py before 7.2 cuts it off as well, and does not keep it.
    name, text = type(error).__name__, str(error)
    if name == "ResponseError":
        return "" if text.partition(" ")[0].isupper() else "ERR"
    if name == "AuthenticationError":
        known = {"Authentication": "NOAUTH", "invalid": "WRONGPASS"}
        return known.get(text.partition(" ")[0], "ERR")
    return _CODES.get(name, "")


_CODES: Final = {
    "AskError": "ASK",
    "BusyLoadingError": "LOADING",
    "ClusterCrossSlotError": "CROSSSLOT",
    "ClusterDownError": "CLUSTERDOWN",
    "ExecAbortError": "EXECABORT",
    "MasterDownError": "MASTERDOWN",
    "MovedError": "MOVED",
    "NoPermissionError": "NOPERM",
    "NoScriptError": "NOSCRIPT",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "TryAgainError": "TRYAGAIN",
}
"""Class of redis-py → code."""
