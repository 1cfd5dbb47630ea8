"""What the functions share that a rule invokes each minute: connection, deadline, metrics, one log line.

A failure is logged, measured (`RedisUnavailable`, `Failed`) and raised, so that Lambda counts it too.
It is not repeated: the next minute does the work.
"""

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.aws import emf, log_line
from kiqbridge.aws.environment import open_client
from kiqbridge.aws.time_left import seconds_for_redis
from kiqbridge.config import function_settings as settings
from kiqbridge.config.setting import read
from kiqbridge.errors import RedisUnavailable
from kiqbridge.store import deadline

if TYPE_CHECKING:
    from kiqbridge.client.client import Client
    from kiqbridge.store.redis_connection import RedisConnection

LONGEST_S: Final = 50.0
"""How long an invocation may take where Lambda does not say it: the next one begins after a minute."""


class Turn:
    """One invocation.

    Args:
        function: of which environment.
        request_id: of the invocation, as Lambda names it.
        left_s: seconds that are left for calls to Redis.

    Attributes:
        connection: to Redis.
        keys: the namespace.
        client: enqueues.
        by: who acts, for ledgers, such as `monitor:REQUEST`.
    """

    def __init__(
        self,
        function: "Minutely",
        request_id: str | None,
        left_s: float,
    ) -> None:
        self._function = function
        self._request_id = request_id
        self._until = time.monotonic() + min(left_s, LONGEST_S)
        self.connection: RedisConnection = function.connection
        self.keys = function.keys
        self.client: Client = function.client
        self.by = f"{function.name}:{request_id}" if request_id else function.name

    def left_s(self) -> float:
        """Seconds of this invocation that are left."""
        return max(self._until - time.monotonic(), 0.0)

    def measure(self, values: Mapping[str, float], **dimensions: str) -> None:
        """Write metrics, now: of the function, or under further dimensions."""
        line = emf.measures(
            namespace=self._function.metrics_namespace,
            dimensions={"service": self._function.service, **dimensions},
            values=values,
            now=time.time(),
        )
        _write(line)

    def log(self, level: str, message: str, about: Mapping[str, Any]) -> None:
        """Write a line, if lines of this level are logged."""
        if log_line.LEVELS[level] < self._function.least:
            return
        entry = {
            "level": level,
            "message": message,
            "timestamp": log_line.timestamp(time.time()),
            "service": self._function.service,
            "function_request_id": self._request_id,
            **about,
        }
        _write(log_line.dumps(entry))

    def failed(self, error: Exception) -> None:
        """Log and measure a failure."""
        self.log("ERROR", "failed", {"error_class": type(error).__name__, "reason": str(error)})
        self.measure({"RedisUnavailable": int(isinstance(error, RedisUnavailable)), "Failed": 1})

    def done(self, answer: Mapping[str, Any]) -> None:
        """Log and measure that nothing failed."""
        self.log("INFO", "done", answer)
        self.measure({"RedisUnavailable": 0, "Failed": 0})


class Minutely:
    """A warm environment of such a function; connects at the first call.

    Args:
        name: what ledgers call it.
        environ: its variables.

    Raises:
        ConfigError: the address or a setting is wrong.

    Attributes:
        service: dimension of its metrics.
        metrics_namespace: CloudWatch's.
        least: number of the least important level that is logged.
        keys: the namespace.
        client: enqueues.
        connection: after a pause it is tested with PING before it is used.
    """

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        self.name = name
        self.service: str = read(settings.SERVICE, environ)
        self.metrics_namespace: str = read(settings.METRICS_NAMESPACE, environ)
        self.least = log_line.least(read(settings.FUNCTION_LOG_LEVEL, environ))
        self.client = open_client(environ)
        self.keys = self.client.keys
        self.connection: RedisConnection = self.client.pool.connection()

    def close(self) -> None:
        """Close the connections; they are opened again when they are needed."""
        self.connection.close()
        self.client.close()

    def run(self, context: Any, work: Callable[[Turn], dict[str, Any]]) -> dict[str, Any]:
        """Do the work of one invocation and report it.

        Args:
            context: as Lambda gives it.
            work: gets the turn, and answers what the invocation answers.

        Returns:
            What `work` answers.

        Raises:
            KiqbridgeError: as `work` does.
        """
        left_s = seconds_for_redis(context)
        request_id = getattr(context, "aws_request_id", None)
        turn = Turn(self, request_id, left_s)
        try:
            with deadline.within(min(left_s, LONGEST_S)):
                answer = work(turn)
        except Exception as error:
            turn.failed(error)
            raise
        turn.done(answer)
        return answer


def _write(line: bytes) -> None:
    sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()
