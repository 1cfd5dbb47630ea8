"""The process title (protocol §10.7); a real worker's is read in tests/kernel/process."""

import sys

import pytest

from kiqbridge import __version__
from kiqbridge.engine.host.status import Status
from kiqbridge.engine.host.surroundings import supervisor_title, title_setter, worker_title


def status(state):
    return Status(
        identity="host:7:0123456789ab",
        pid=7,
        state=state,
        written_at=0,
        heartbeat_at=0,
        beat_s=10,
        is_leased=True,
        ended_threads=[],
        busy=3,
        concurrency=10,
    )


@pytest.mark.parametrize(
    ("state", "tag", "title"),
    [
        ("running", "shop", "shop [3 of 10 busy]"),
        ("running", "", "[3 of 10 busy]"),
        ("starting", "shop", "shop [3 of 10 busy]"),
        ("quiet", "shop", "shop [3 of 10 busy] stopping"),
        ("stopping", "shop", "shop [3 of 10 busy] stopping"),
    ],
)
def test_it_has_sidekiqs_form(state, tag, title):
    assert worker_title(status(state), tag) == f"kiqbridge {__version__} {title}"


def test_a_supervisor_says_so_and_without_the_library_nothing_happens(monkeypatch):
    told = supervisor_title("supervisor [2 of 2 processes]", "shop")
    assert told == f"kiqbridge {__version__} shop supervisor [2 of 2 processes]"
    monkeypatch.setitem(sys.modules, "setproctitle", None)
    title_setter()("unseen")
