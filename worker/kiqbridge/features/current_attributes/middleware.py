"""Attributes of the moment that travel with a job: who is signed in, which tenant (protocol §18).

    user_id: ContextVar[int] = ContextVar("user_id")
    current_attributes.persist(user_id=user_id)

Whatever enqueues stores the context variables that are set under `cattr` in the payload; the worker
sets them around the job, and a job that enqueues others passes them on. They are what Rails calls
CurrentAttributes and Sidekiq's `Sidekiq::CurrentAttributes` stores: Ruby reads ours, and ours Ruby's.
"""

import contextvars
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from kiqbridge.client.default_client import add_default_middleware
from kiqbridge.client.middleware import AroundJob
from kiqbridge.client.server import server
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.features.active_job.form import serialize
from kiqbridge.features.active_job.values import Symbol, deserialize

KEY: Final = "cattr"
"""Where the first group is stored; the second under `cattr_1`, and so on."""

locale: ContextVar[str | None] = ContextVar("kiqbridge_locale", default=None)
"""The locale of the running job, such as `de` (§18); None = none was stored."""


class _Around(AroundJob):
    """Both halves: `save` is client middleware, the object itself is server middleware, for jobs of both kinds."""

    def store(self, payload: dict[str, Any]) -> None:
        """Write what is set here into a payload."""
        raise NotImplementedError

    def save(
        self,
        _declared: Any,
        payload: dict[str, Any],
        _queue: str,
        call_next: Callable[[], dict[str, Any] | None],
    ) -> dict[str, Any] | None:
        """Around a push."""
        self.store(payload)
        return call_next()

    def __call__(
        self, job: Any, payload: dict[str, Any], queue: str, call_next: Callable[[], Any]
    ) -> Any:
        """Around a plain job, in a context of its own: threads live on, and what it sets ends with it."""
        return contextvars.copy_context().run(super().__call__, job, payload, queue, call_next)


class CurrentAttributes(_Around):
    """Both halves for groups of attributes; most use `persist`.

    Args:
        groups: name on the wire → context variable, one mapping per CurrentAttributes class of Ruby, in
            the order in which Ruby registers them.

    Raises:
        ConfigError: a group is empty, or holds something else.
    """

    def __init__(self, *groups: Mapping[str, ContextVar[Any]]) -> None:
        self._groups: list[dict[str, ContextVar[Any]]] = []
        for group in groups:
            self.add(group)

    def __repr__(self) -> str:
        groups = " / ".join(", ".join(group) for group in self._groups)
        return f"CurrentAttributes({groups})"

    def add(self, group: Mapping[str, ContextVar[Any]]) -> None:
        """Add a group; one that is there already changes nothing.

        Raises:
            ConfigError: it is empty, or holds something else.
        """
        if not group:
            raise ConfigError(
                "current attributes: no variable is given; write persist(user_id=user_id) with "
                "user_id = ContextVar('user_id')"
            )
        for name, variable in group.items():
            if not isinstance(variable, ContextVar):
                raise ConfigError(
                    f"current attributes: {name} is a {type(variable).__name__}; only a ContextVar "
                    "can be set for one job at a time"
                )
        if dict(group) not in self._groups:
            self._groups.append(dict(group))

    def store(self, payload: dict[str, Any]) -> None:
        """Store what is set here, where the payload has none yet: a retry keeps the original."""
        here = contextvars.copy_context()
        for key, group in self._keyed():
            if key in payload:
                continue
            values = {name: here[variable] for name, variable in group.items() if variable in here}
            if values:
                payload[key] = _written(values, payload, key)

    @contextmanager
    def within(self, payload: Mapping[str, Any], _queue: str) -> Iterator[None]:
        """With the variables set to what a payload holds; one that it does not hold stays as it is."""
        tokens = [
            (group[name], group[name].set(value))
            for key, group in self._keyed()
            for name, value in read(payload.get(key)).items()
            if name in group
        ]
        try:
            yield
        finally:
            for variable, token in reversed(tokens):
                variable.reset(token)

    def _keyed(self) -> Iterator[tuple[str, dict[str, ContextVar[Any]]]]:
        for index, group in enumerate(self._groups):
            yield (f"{KEY}_{index}" if index else KEY), group


class Locale(_Around):
    """Both halves for the locale; most use `persist_locale`.

    Args:
        get: the locale to store when a job is enqueued, None = none; default that of `locale`.
        activate: makes a context manager that is open while a job with a locale runs, such as Django's
            `translation.override`; `locale` is set in any case.
    """

    def __init__(
        self,
        get: Callable[[], str | None] = locale.get,
        activate: Callable[[str], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self._get = get
        self._activate: Callable[[str], AbstractContextManager[Any]] = activate or nullcontext

    def store(self, payload: dict[str, Any]) -> None:
        """Store the locale if the payload has none."""
        if not payload.get("locale"):
            chosen = self._get()
            if chosen:
                payload["locale"] = str(chosen)

    @contextmanager
    def within(self, payload: Mapping[str, Any], _queue: str) -> Iterator[None]:
        """In the locale that a payload holds, if any."""
        stored = payload.get("locale")
        if not stored or not isinstance(stored, str):
            yield
            return
        token = locale.set(stored)
        try:
            with self._activate(stored):
                yield
        finally:
            locale.reset(token)


_persisted = CurrentAttributes()


def persist(
    variables: Mapping[str, ContextVar[Any]] | None = None, /, **named: ContextVar[Any]
) -> None:
    """Pass these context variables on with each job that this process enqueues or performs.

    Adds middleware to `server` and to the clients that declared jobs push through. Each call is a
    group of its own, for one CurrentAttributes class of Ruby; call it in Ruby's order. On the wire
    values are JSON's; where Rails reads or writes, see `docs/how_to/middleware.md`.

    Raises:
        ConfigError: none is given, or something else than a ContextVar.
    """
    _persisted.add({**(variables or {}), **named})
    _install(_persisted)


def persist_locale(
    get: Callable[[], str | None] = locale.get,
    activate: Callable[[str], AbstractContextManager[Any]] | None = None,
) -> None:
    """Pass the locale on with each job; arguments as `Locale`. The last call counts."""
    global _locale
    former, _locale = _locale, Locale(get, activate)
    _install(_locale, instead_of=former)


def read(stored: object) -> dict[str, Any]:
    """The attributes in a payload, in any form: an object (up to 7) or serialized pairs (8)."""
    if isinstance(stored, dict):
        # 7 writes a plain hash; Rails' notes appear in it where 7.1 and later had serialized parts.
        return {str(name): deserialize(value) for name, value in stored.items()}
    if not isinstance(stored, list):
        return {}
    return {
        str(deserialize(pair[0])): deserialize(pair[1])
        for pair in stored
        if isinstance(pair, list) and len(pair) == 2  # noqa: PLR2004 - name and value
    }


_locale: Locale | None = None


def _written(values: Mapping[str, Any], payload: Mapping[str, Any], key: str) -> Any:
    """In the form of the payload's wire profile, which shows in the kind of its `created_at`."""
    if type(payload.get("created_at")) is int:
        pairs = [[Symbol(name), value] for name, value in values.items()]
        try:
            return serialize(pairs)
        except PayloadError as error:
            raise PayloadError(f"{key}: {error}") from error
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    """What a job of Sidekiq 8 brought and JSON does not have, as Ruby's plain hash would have it."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {
            str(name) if isinstance(name, str) else name: _plain(each)
            for name, each in value.items()
        }
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value) if isinstance(value, Symbol | Decimal) else value


def _install(middleware: _Around, instead_of: _Around | None = None) -> None:
    if instead_of is not None:
        server.middleware.remove(instead_of)
        server.client_middleware.remove(instead_of.save)
    if middleware not in list(server.middleware):
        server.middleware.prepend(middleware)  # outermost: other middleware may ask for them
    if middleware.save not in list(server.client_middleware):
        server.client_middleware.add(middleware.save)
    add_default_middleware(middleware.save, instead_of=instead_of and instead_of.save)
