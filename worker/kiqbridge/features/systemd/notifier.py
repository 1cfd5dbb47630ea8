"""Notifies systemd of the state of a worker: sd_notify(3) and sd_watchdog_enabled(3).

- READY=1 once jobs are taken, STOPPING=1 when the process begins to stop;
- STATUS=… a line for `systemctl status`, at each beat;
- WATCHDOG=1 twice per interval that the unit asks for, but only while the process is live in the
  sense of `kiqbridge health --live`: a process of which a thread has ended is restarted by systemd.
"""

import logging
import socket
import threading
from collections.abc import Callable, MutableMapping, Sequence

from kiqbridge.engine.host.surroundings import TURN_S, Notifier, Report
from kiqbridge.runtime.kinds import without_numbers
from kiqbridge.runtime.role import Role

logger = logging.getLogger(__name__)

SEND_S = 1.0
"""How long the manager may leave its socket full; then that message is left out."""


class SystemdNotifier(Notifier):
    """Sends messages to the service manager.

    Args:
        address: where it listens, as NOTIFY_SOCKET has it.
        watchdog_s: seconds without WATCHDOG=1 after which it restarts us; None = never.
    """

    def __init__(self, address: str, watchdog_s: float | None = None) -> None:
        self._address = address
        self._watchdog_s = watchdog_s
        self._look: Callable[[], Report] = lambda: Report("starting", ())
        self._complained = False
        self._reported_faults: Sequence[str] = ()
        self._next_turn = 0.0
        self._ending = threading.Event()

    def __repr__(self) -> str:
        return f"<SystemdNotifier to {self._address}, watchdog {self._watchdog_s} s>"

    @property
    def notify_every_s(self) -> float | None:
        """How often `notify` must be called at least, in seconds; None = the watchdog is off."""
        return None if self._watchdog_s is None else self._watchdog_s / 2

    def start(self, look: Callable[[], Report], *, in_thread: bool = True) -> None:
        """Send the state now, and from now on twice per interval of the watchdog.

        Args:
            look: called for each message, from any thread.
            in_thread: with a thread of its own; without one, as in a process that forks, the
                caller calls `turn` at least every `notify_every_s` seconds.
        """
        self._look = look
        self.notify()
        if in_thread and self._watchdog_s is not None:
            Role("systemd", self._notify_on, stopping=self._ending).start()

    def ready(self) -> None:
        """The start is over: what waits for this service may start, and the watchdog counts."""
        self._send("READY=1")

    def notify(self) -> None:
        """Send the state; to the watchdog as well, unless something is wrong."""
        self._send()

    def turn(self, now: float) -> None:
        """`notify`, if it is time to; `now` is on `time.monotonic`. For a loop that turns often."""
        if now >= self._next_turn:
            self._next_turn = now + min(TURN_S, self.notify_every_s or TURN_S)
            self.notify()

    def stopping(self) -> None:
        """The stop has begun."""
        self._send("STOPPING=1")

    def stop(self) -> None:
        """Send no more messages."""
        self._ending.set()

    def _state(self) -> list[str]:
        line, faults = self._look()
        kinds = tuple(map(without_numbers, faults))
        if faults and kinds != self._reported_faults:
            logger.error(
                "not live: %s%s",
                ", ".join(faults),
                "; systemd's watchdog will restart this process" if self._watchdog_s else "",
            )
        self._reported_faults = kinds
        text = " ".join(f"{line}; {', '.join(faults)}".split() if faults else line.split())
        return [f"STATUS={text}", *([] if faults or self._watchdog_s is None else ["WATCHDOG=1"])]

    def _notify_on(self) -> None:
        while not self._ending.wait(self.notify_every_s):
            self.notify()  # after an error no message: if that goes on, the watchdog restarts the process rightly

    def _send(self, *news: str) -> None:
        message = "\n".join([*news, *self._state()]).encode()
        # A socket for each message: no file descriptor is passed on to a process that jobs start.
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.settimeout(SEND_S)
                out.sendto(message, _socket_address(self._address))
        except OSError as error:
            if not self._complained:
                self._complained = True
                logger.warning(
                    "systemd could not be notified of the state of this process (NOTIFY_SOCKET=%s): %s; the next "
                    "message tries again, silently",
                    self._address,
                    error,
                )


def take_notifier(environ: MutableMapping[str, str], pid: int) -> Notifier | None:
    """The notifier that the environment asks for, if it does; taken out of it, so that no child process notifies.

    Args:
        environ: loses NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
        pid: our own; the watchdog of another process is left to that.
    """
    address = environ.pop("NOTIFY_SOCKET", "")
    interval_us = environ.pop("WATCHDOG_USEC", "")
    watched_pid = environ.pop("WATCHDOG_PID", "")
    if not address:
        return None
    if address[0] not in "/@":
        logger.warning(
            "NOTIFY_SOCKET=%s is neither a path nor an abstract socket (@name): systemd gets no messages",
            address,
        )
        return None
    if not interval_us or watched_pid not in ("", str(pid)):
        return SystemdNotifier(address)
    if not interval_us.isdecimal() or int(interval_us) == 0:
        logger.warning(
            "WATCHDOG_USEC=%s is no number of microseconds: the watchdog gets no messages",
            interval_us,
        )
        return SystemdNotifier(address)
    return SystemdNotifier(address, int(interval_us) / 1_000_000)


def _socket_address(address: str) -> str:
    return f"\0{address[1:]}" if address.startswith("@") else address
