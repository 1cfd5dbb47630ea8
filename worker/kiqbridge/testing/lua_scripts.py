"""Running the scripts of Redis on a `Memory`: by lupa, Lua 5.1 as in Redis.

A script sees KEYS, ARGV, `redis.call`, `redis.pcall`, `redis.error_reply`, `redis.status_reply`, `redis.sha1hex` and
`cjson.decode`. Replies and answers become values of the other side as Redis has it: a status is a table with `ok`,
nil is false, a number loses its fraction, a list ends at its first nil.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from kiqbridge.errors import KiqbridgeError, RedisRefused
from kiqbridge.store.scripts import Script

_STATUS: Final = {b"SET", b"TYPE", b"PING", b"LTRIM"}
"""Commands whose replies are statuses, where they are texts."""


class LuaScripts:
    """The scripts on one memory.

    Args:
        run_one: carries out a command; the caller of `run` holds the lock.

    Raises:
        ImportError: lupa is not installed.
    """

    def __init__(self, run_one: Callable[..., Any]) -> None:
        from lupa.lua51 import LuaRuntime  # noqa: PLC0415 - few need it

        self._run_one = run_one
        self._lua = LuaRuntime(encoding=None)
        self._compiled: dict[str, Callable[..., Any]] = {}
        world = self._lua.globals()
        world[b"redis"] = self._table(
            {
                b"call": self._call,
                b"pcall": self._protected_call,
                b"error_reply": lambda text: self._table({b"err": text}),
                b"status_reply": lambda text: self._table({b"ok": text}),
                b"sha1hex": lambda text: _bytes(hashlib.sha1(text).hexdigest()),  # noqa: S324 - as Redis
            }
        )
        world[b"cjson"] = self._table({b"decode": self._decode, b"null": _NULL})

    def run(self, script: Script, keys: Sequence[str], args: Sequence[bytes]) -> Any:
        """The answer of a script.

        Raises:
            RedisRefused: it answers an error.
            NotInMemory: it uses a command that is not known.
        """
        compiled = self._compiled.get(script.sha)
        if compiled is None:
            text = script.text
            if text.startswith("#!"):
                text = "\n" + text.partition("\n")[2]
            wrapped = f"return function(KEYS, ARGV) {text}\nend"
            compiled = self._compiled[script.sha] = self._lua.execute(wrapped.encode())
        return self._answer(
            compiled(self._list([_bytes(key) for key in keys]), self._list(list(args)))
        )

    def _call(self, name: bytes, *parts: object) -> Any:
        reply = self._run_one(name.decode(), *map(_argument, parts))
        if isinstance(reply, bytes) and name.upper() in _STATUS:
            return self._table({b"ok": reply})
        return self._value(reply)

    def _protected_call(self, name: bytes, *parts: object) -> Any:
        try:
            return self._call(name, *parts)
        except KiqbridgeError as error:
            return self._table({b"err": _bytes(str(error))})

    def _decode(self, text: bytes) -> Any:
        return self._from_json(json.loads(text))

    def _from_json(self, value: Any) -> Any:
        if value is None:
            return _NULL
        if isinstance(value, str):
            return _bytes(value)
        if isinstance(value, dict):
            return self._table(
                {_bytes(name): self._from_json(each) for name, each in value.items()}
            )
        if isinstance(value, list):
            return self._list([self._from_json(each) for each in value])
        return value

    def _value(self, reply: Any) -> Any:
        if reply is None:
            return False
        if isinstance(reply, list):
            return self._list([self._value(each) for each in reply])
        return reply

    def _answer(self, value: Any) -> Any:
        if value is None or value is False:
            return None
        if value is True:
            return 1
        if isinstance(value, int | float):
            return int(value)
        if isinstance(value, bytes):
            return value
        if (error := value[b"err"]) is not None:
            raise RedisRefused(error.decode(errors="replace"))
        if (status := value[b"ok"]) is not None:
            return status
        answers: list[Any] = []
        while (each := value[len(answers) + 1]) is not None:
            answers.append(self._answer(each))
        return answers

    def _table(self, members: dict[bytes, Any]) -> Any:
        return self._lua.table_from(members)

    def _list(self, members: list[Any]) -> Any:
        return self._lua.table_from(members)


class _Null:
    """JSON's null, which is no table, text, number or boolean of Lua."""


_NULL: Final = _Null()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _argument(part: object) -> str | bytes | float:
    """A number as Lua writes it into a command."""
    if isinstance(part, float):
        return b"%.17g" % part
    if isinstance(part, bytes | int):
        return part
    raise RedisRefused("Lua redis lib command arguments must be strings or integers")
