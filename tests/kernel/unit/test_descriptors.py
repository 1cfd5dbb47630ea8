"""What counts as closed by somebody else; that a worker gives its jobs back is in features/process_pool/test_process_state.py."""

import os
import socket

import pytest

from kiqbridge.runtime import descriptors


@pytest.fixture
def losses(monkeypatch):
    losses = []
    monkeypatch.setattr(descriptors, "lost", lambda: losses.append("lost"))
    return losses


@pytest.fixture
def pair():
    one, other = socket.socketpair()
    with one, other:
        yield one


class ClosedDuringTheLook:
    """A socket that its owner closes, on another thread, after its number was read for a look."""

    def __init__(self, opened, looks):
        self._opened, self._looks = opened, looks

    def fileno(self):
        number = self._opened.fileno()
        self._looks -= 1
        if self._looks == 0:
            self._opened.close()
        return number


def test_what_is_open_or_its_owner_has_closed_is_no_loss(losses, pair):
    descriptor = descriptors.Descriptor(pair)
    descriptor.check()
    pair.close()
    descriptor.check()
    assert losses == []


@pytest.mark.parametrize("looks", [2, 3])
def test_what_its_owner_closes_during_the_look_is_no_loss(losses, pair, looks):
    descriptor = descriptors.Descriptor(ClosedDuringTheLook(pair, looks))

    descriptor.check()

    assert pair.fileno() == -1
    assert losses == []


@pytest.mark.parametrize("reopened", [False, True])
def test_what_somebody_else_has_closed_is_a_loss(losses, reopened):
    opened = socket.socket()
    descriptor = descriptors.Descriptor(opened)
    os.close(opened.fileno())
    if reopened:
        assert os.open(os.devnull, os.O_RDONLY) == opened.fileno()

    descriptor.check()

    assert losses == ["lost"]
    if reopened:
        os.close(opened.fileno())
    opened.detach()
