"""What the functions share that a rule invokes each minute: connection, deadline, metrics, one log line.

A failure is logged, measured (`RedisUnavailable`, `Failed`) and raised, so that Lambda counts it too.
It is not repeated: the next minute does the work.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kiqbridge import seams
from kiqbridge.aws import environment
from kiqbridge.errors import RedisUnavailable
from kiqbridge.store import deadline

if TYPE_CHECKING:
    from kiqbridge.schedule.missed import MissedTick
    from kiqbridge.store.redis_connection import RedisConnection

LONGEST_S: Final = 50.0
"""How long an invocation may take: the next one begins after a minute."""


class Invocation:
    """One invocation.

    Args:
        function: of which environment.
        request_id: of the invocation, as Lambda names it.
        left_s: seconds that are left for calls to Redis.

    Attributes:
        connection: to Redis; after a pause it is tested with PING before it is used.
        keys: the namespace.
        client: enqueues.
        by: who acts, for ledgers, such as `monitor:REQUEST`.
        notify: called with ticks that were not known as missed.
    """

    config: None = None

    def __init__(self, function: "Minutely", request_id: str, left_s: float) -> None:
        self._function = function
        self._until = time.monotonic() + left_s
        self.connection = function.connection
        self.client = function.client
        self.keys = function.client.keys
        self.by = f"{function.name}:{request_id}"
        self.notify: Callable[[Sequence[MissedTick]], object] = len  # notifies nothing

    def left_s(self) -> float:
        """Seconds of this invocation that are left."""
        return max(self._until - time.monotonic(), 0.0)

    def do_chores(self) -> dict[str, Any]:
        """Do the chores that are marked with the name of the function; what each has returned, by its name."""
        made = seams.chores([self._function.name], self, self._function.features)
        return {chore.name: call(self.connection) for chore, call in made}

    def measure(self, values: Mapping[str, float], **dimensions: str) -> None:
        """Write metrics, now: of the function, or under further dimensions."""
        self._function.metrics.write(values, dimensions)


class Minutely:
    """A warm environment of such a function; connects at the first call.

    Args:
        name: what ledgers call it.
        environ: its variables.
        work: what an invocation does; its answer is that of the invocation, and is logged.
        features: whose chores it does; no others are loaded.

    Raises:
        ConfigError: the address or a setting is wrong, or a feature is not here.

    Attributes:
        handle: what Lambda calls, with an event and its context; raises what `work` raises.
    """

    def __init__(
        self,
        name: str,
        environ: Mapping[str, str],
        work: Callable[[Invocation], dict[str, Any]],
        features: Iterable[str],
    ) -> None:
        self.features = [seams.required(each) for each in features]
        self.name = name
        self.logger = environment.make_logger(environ)
        self.metrics = environment.Metrics.from_environment(environ)
        self.client = environment.open_client(environ)
        self.connection: RedisConnection = self.client.pool.connection()
        self._work = work
        self.handle = self.logger.inject_lambda_context(self._handle, log_event=False)

    def close(self) -> None:
        """Close the connections; they are opened again when they are needed."""
        self.connection.close()
        self.client.close()

    def _handle(self, _event: Any, context: Any) -> dict[str, Any]:
        left_s = min(environment.seconds_for_redis(context), LONGEST_S)
        turn = Invocation(self, context.aws_request_id, left_s)
        try:
            with deadline.within(left_s):
                answer = self._work(turn)
        except Exception as error:
            about = {"error_class": type(error).__name__, "reason": str(error)}
            self.logger.error("failed", extra=about)  # noqa: TRY400 - Lambda logs the traceback
            is_away = isinstance(error, RedisUnavailable)
            turn.measure({"RedisUnavailable": int(is_away), "Failed": 1})
            raise
        self.logger.info("done", extra=answer)
        turn.measure({"RedisUnavailable": 0, "Failed": 0})
        return answer
