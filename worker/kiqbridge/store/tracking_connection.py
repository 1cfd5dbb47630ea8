"""A connection that reads, and waits until something of what it has read changes."""

from collections.abc import Callable
from typing import Any

from kiqbridge.store.round_trip import Command
from kiqbridge.store.wake_connection import FAILURES, LOOK_WITHOUT_TRACKING_S, WakeConnection


class TrackingConnection(WakeConnection):
    """One on which a change is awaited of what was read last; `close` it from the thread that reads alone."""

    def read(self, *commands: Command) -> list[Any]:
        """Send reading commands, whose keys are tracked from then on, and return the replies.

        Raises:
            KiqbridgeError: closed; the next call opens a new connection.
        """
        replies: list[Any] = self._tried(self.ask_tracked, *commands)
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, Exception):
                self.close()
                raise self.failure(reply, command) from reply
        self.news.clear()  # of what was read before
        return replies

    def wait(self, timeout_s: float) -> bool:
        """Wait until a key that was read has changed; False when the time is over, or after `interrupt`.

        Raises:
            KiqbridgeError: as `read`.
        """
        if not self.tracks:
            self.pause(min(timeout_s, LOOK_WITHOUT_TRACKING_S))
            return False
        news = self._tried(self.receive, timeout_s)
        self.take_interruption()
        return news is not None

    def _tried(self, act: Callable[..., Any], *args: Any) -> Any:
        try:
            return act(*args)
        except FAILURES as error:
            self.close()
            raise self.failure(error) from error
        except BaseException:
            self.close()
            raise
