"""systemd's end of the notification socket (sd_notify)."""

import select
import socket
from typing import Self


class ServiceManager:
    """Listens at an address as NOTIFY_SOCKET has it: a path, or `@name` for an abstract socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(30)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)

    def next(self) -> list[str]:
        """The lines of the next message; waits for it."""
        return self._socket.recv(4096).decode().split("\n")

    def waiting(self) -> list[list[str]]:
        """All messages that have come."""
        messages = []
        while not self.is_told_nothing():
            messages.append(self.next())
        return messages

    def is_told_nothing(self) -> bool:
        """Whether no message waits."""
        return not select.select([self._socket], [], [], 0)[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
