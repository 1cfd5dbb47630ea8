"""Which replacements of Python's parts are those of a library of green threads; gevent itself: tests/kernel/process/test_worker.py."""

import socket

import pytest

from kiqbridge.runtime.monkey_patches import patched_by


@pytest.mark.parametrize(
    ("module", "found"),
    [
        ("eventlet.greenio.base", ("eventlet", "socket")),
        ("gevent._socket3", ("gevent", "socket")),
        ("socks", None),
        (None, None),
    ],
)
def test_sockets_of_other_libraries_are_let_through(monkeypatch, module, found):
    monkeypatch.setattr(socket, "socket", type("socket", (), {"__module__": module}))

    assert patched_by() == found


def test_this_process_is_as_python_made_it():
    assert patched_by() is None
