"""`kiqbridge stats --watch` in a terminal: the state, kept on the screen while Redis is away, until Ctrl-C."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
from support.servers import embedded_server
from support.waiting import wait_until

HOSTILE = "\x1b]0;hacked\x07\x1b[31mred"


def job(jid, **more):
    return json.dumps({"class": "Mail", "args": [], "jid": jid, "queue": "default", **more})


class Screen:
    """The command in a terminal of 120 by 40 cells, and all that it has written."""

    def __init__(self, redis_url):
        self._here, there = pty.openpty()
        os.set_blocking(self._here, False)
        size = {"COLUMNS": "120", "LINES": "40", "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kiqbridge", "stats", "--watch", "0.1s"],
            env={**os.environ, **size, "REDIS_URL": redis_url},
            stdin=there,
            stdout=there,
            stderr=there,
        )
        os.close(there)
        self.written = ""

    def until(self, pattern):
        """Wait until what is written from now on has it."""
        begin = len(self.written)

        def seen():
            try:
                self.written += os.read(self._here, 65536).decode(errors="replace")
            except OSError:  # nothing yet, or the command has ended
                return None
            return re.search(pattern, self.written[begin:])

        wait_until(seen, 60, lambda: f"{pattern}: {self.written[-4000:]!r}")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self._here)


@pytest.fixture
def screen():
    opened = []

    def open_screen(url):
        opened.append(Screen(url))
        return opened[-1]

    yield open_screen
    for each in opened:
        each.close()


def test_queues_and_deaths_appear_as_they_come(screen, redis, redis_url):
    redis.sadd("queues", "mail")
    shown = screen(redis_url)
    shown.until(r"1 queue, the slowest first")

    redis.lpush("queue:mail", job("waits", enqueued_at=time.time() - 7000))
    redis.zadd("dead", {job("died", error_class="OSError", error_message=HOSTILE): time.time()})

    shown.until(r"mail +1 +117 min")
    shown.until(r"died .*OSError: \\x1b\]0;hacked")
    shown.process.send_signal(signal.SIGINT)
    assert shown.process.wait(30) == 0


def test_the_last_state_stays_while_redis_is_away(screen):
    with embedded_server() as server:
        shown = screen(server.url)
        shown.until(r"0 queues")

    shown.until(r"not read, again in 0 s: .*cannot be reached")
    shown.until(r"0 queues")
