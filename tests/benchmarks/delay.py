"""A wire with a delay: `python delay.py TARGET_PORT DELAY_S` prints the port on which it listens.

Requests pass at once, replies are held back by DELAY_S, so that a round trip takes that much longer
while what is under way at the same time overlaps, as on a real wire. Threads that sleep, no event
loop: those round their timers up to whole milliseconds.
"""

import queue
import socket
import sys
import threading
import time
from contextlib import suppress

HOST = "127.0.0.1"
SIZE = 1 << 18


def main() -> None:
    target, delay_s = int(sys.argv[1]), float(sys.argv[2])
    with socket.create_server((HOST, 0), backlog=256) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            near, _ = listener.accept()
            far = socket.create_connection((HOST, target))
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            held: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            for work in (
                (pass_on, near, far),
                (hold_back, far, held, delay_s),
                (let_go, near, held),
            ):
                threading.Thread(target=work[0], args=work[1:], daemon=True).start()


def pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(SIZE):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def hold_back(source: socket.socket, held: queue.SimpleQueue, delay_s: float) -> None:
    data = b"begin"
    while data:
        try:
            data = source.recv(SIZE)
        except OSError:
            data = b""
        held.put((time.perf_counter() + delay_s, data))


def let_go(target: socket.socket, held: queue.SimpleQueue) -> None:
    with suppress(OSError):
        while True:
            due, data = held.get()
            if (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)  # the delay that is measured
            if not data:
                break
            target.sendall(data)
    target.close()


if __name__ == "__main__":
    main()
