"""The thread of the process pool that starts children is thrown out of its loop, and no request is lost."""

import queue
import threading

import pytest

from kiqbridge.children import process_pool
from kiqbridge.children.process_pool import ProcessPool


class Thrown(queue.SimpleQueue):
    """Raises once in the thread that was rung, as an error does that a job raises in all threads."""

    def __init__(self):
        self.left = 1

    def get(self, **options):
        super().get(**options)
        if self.left:
            self.left -= 1
            raise SystemExit("raised in all threads")


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr(process_pool, "Child", lambda _settings, _start: "a child")
    pool = ProcessPool(None, size=1, max_jobs=0, idle_s=60)
    pool._bell = Thrown()
    return pool


def test_a_child_that_was_asked_for_is_started_by_the_next_run_of_the_loop(pool):
    found = []
    asking = threading.Thread(target=lambda: found.append(pool.start_child()), daemon=True)

    asking.start()
    asking.join(20)

    assert found == ["a child"]
    assert pool._bell.left == 0


def test_an_error_of_the_start_reaches_who_asked_and_the_next_one_is_started(pool, monkeypatch):
    outcomes = iter([OSError("no room"), "a child"])

    def start(_settings, _start):
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(process_pool, "Child", start)

    with pytest.raises(OSError, match="no room"):
        pool.start_child()
    assert pool.start_child() == "a child"
