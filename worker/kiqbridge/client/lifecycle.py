"""Events in the life of a worker process, and who listens (protocol §14.1)."""

import logging
from collections.abc import Callable
from typing import Literal, TypeVar, get_args

from kiqbridge.errors import ConfigError
from kiqbridge.runtime import user_code
from kiqbridge.runtime.threads import BoundedCall

logger = logging.getLogger(__name__)

Event = Literal["startup", "quiet", "shutdown", "exit", "heartbeat", "beat"]
Listener = Callable[[], object]
L = TypeVar("L", bound=Listener)

EVENTS: tuple[str, ...] = get_args(Event)
_REVERSED = ("quiet", "shutdown", "exit")


class Events:
    """Listeners by event.

    - startup: after the code is loaded, before any thread takes jobs; an error ends the start.
    - quiet: no new jobs are taken from now on.
    - shutdown: the process begins to stop.
    - exit: all is stopped and signed off.
    - heartbeat: the first beat, or the first one after an outage.
    - beat: every beat.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = {name: [] for name in EVENTS}
        self._calling: dict[str, Listener] = {}

    def copy(self) -> "Events":
        """The same listeners, to be fired on their own."""
        copied = Events()
        for name, listeners in self._listeners.items():
            copied._listeners[name] = list(listeners)
        return copied

    def add(self, event: Event, listener: Listener) -> None:
        """Listen to an event.

        Raises:
            ConfigError: there is no such event.
        """
        if event not in self._listeners:
            raise ConfigError(f"on: {event!r} is no event; events are {', '.join(EVENTS)}")
        self._listeners[event].append(listener)

    def fire_aside(self, event: Event) -> "Firing":
        """As `fire`, on a thread of its own: no listener may hold up the end of the process."""
        return Firing(self, event)

    def calling(self, event: Event) -> str:
        """The listener to an event that is being called, or was called last."""
        return user_code.name_of(self._calling.get(event))

    def fire(self, event: Event, *, raising: bool = False) -> None:
        """Call the listeners: in order, and in reverse for quiet, shutdown and exit.

        Each is called once in the life of a process, except those of `beat`. Errors are logged, or
        with `raising` end it.
        """
        listeners = list(self._listeners[event])
        if event != "beat":
            self._listeners[event].clear()
        for listener in reversed(listeners) if event in _REVERSED else listeners:
            self._calling[event] = listener
            if raising:
                listener()
            else:
                user_code.call(listener, log=logger, failed=f"a listener to {event} failed")


class Firing:
    """Listeners to an event that are being called, in order, on a thread of their own."""

    def __init__(self, events: Events, event: Event) -> None:
        self._events = events
        self._event: Event = event
        self._call = BoundedCall(f"kiqbridge-{event}", lambda: events.fire(event))

    def wait(self, within_s: float) -> bool:
        """Wait until all have been called, at most so long; otherwise say which one hangs."""
        has_ended = self._call.wait(within_s)
        if not has_ended:
            logger.warning(
                "a listener to %s has not returned for %.1f s: %s. The process goes on without it; "
                "listeners that come after it are called if it returns in time",
                self._event,
                within_s,
                self._events.calling(self._event),
            )
        return has_ended
