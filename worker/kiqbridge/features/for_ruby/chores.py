"""The chores of the leader for `contrib/ruby/kiqbridge.rb`.

Ruby reads definitions, states and ledgers itself. It does not read expressions, so the next occurrence of each is kept
in `kb:schedules:next`; and it changes nothing itself: `kb:schedules:requests` holds `{"do","name","by","reason"}`, with
`pause`, `resume` or `run`, and a worker carries it out as the command line does.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from kiqbridge.client.client import Client
from kiqbridge.client.host import Host
from kiqbridge.errors import KiqbridgeError
from kiqbridge.features.dynamic.due import next_instants
from kiqbridge.features.dynamic.schedules import Schedules
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire import json_text
from kiqbridge.wire.names import text_of

logger = logging.getLogger(__name__)

ANEW_S: Final = 60.0
"""So often all next occurrences are written, whether or not one is over: a definition may have changed."""
MOST: Final = 100
"""Requests of one turn."""


class ForRuby:
    """Carries out requests, and publishes what comes next.

    Args:
        client: of the worker.
    """

    def __init__(self, client: Client) -> None:
        self._schedules = Schedules(client)
        self._keys = client.keys
        self._published: dict[str, int] = {}
        self._anew_at = 0.0

    def take_requests(self, connection: RedisConnection) -> None:
        """Carry out what Ruby asked for; what cannot be is logged.

        Raises:
            RedisUnavailable: a later call goes on; the request that was taken last may be lost.
        """
        for _ in range(MOST):
            text = connection.run(("RPOP", self._keys.schedule_requests), repeatable=False)[0]
            if text is None:
                return
            try:
                self._carry_out(json_text.loads(text))
            except (KiqbridgeError, ValueError, KeyError, TypeError) as error:
                logger.warning(
                    "a request of Ruby for a schedule was not carried out: %s: %s",
                    text_of(text),
                    error,
                )

    def publish_next(self, connection: RedisConnection) -> None:
        """Write the next occurrence of each schedule, when one is over, and once a minute.

        Raises:
            RedisUnavailable: a later call goes on.
        """
        now = server_time(connection.call("TIME"))
        if now < self._anew_at:
            return
        found: dict[str, int] = {}
        for known in self._schedules.list():
            try:
                coming = next_instants(known.definition, known.state, after=now, count=1)
            except ExpressionError:
                continue  # the tick that reads it reports it
            if coming and known.definition.enabled:
                found[known.name] = coming[0]
        if found != self._published:
            key, fields = (
                self._keys.schedules_next,
                [part for pair in found.items() for part in pair],
            )
            written: list[Any] = [("HSET", key, *fields)] if fields else []
            connection.run(("MULTI",), ("DEL", key), *written, ("EXEC",))
            self._published = found
        self._anew_at = min([*found.values(), now + ANEW_S])

    def _carry_out(self, request: dict[str, Any]) -> None:
        name, what = str(request["name"]), request["do"]
        by = f"ruby:{request.get('by', '')}"
        if what == "pause":
            self._schedules.pause(name, reason=str(request.get("reason", "")), by=by)
        elif what == "resume":
            self._schedules.resume(name)
        elif what == "run":
            self._schedules.run(name, by=by)
        else:
            raise ValueError(f"{what!r} is none of pause, resume, run")
        logger.info("schedule %s: %s, as %s asked", name, what, by)


def take_requests(host: Host) -> Callable[[RedisConnection], object]:
    """What Ruby asks for is done."""
    return ForRuby(host.client).take_requests


def publish_next(host: Host) -> Callable[[RedisConnection], object]:
    """Ruby gets to know what comes next."""
    return ForRuby(host.client).publish_next
