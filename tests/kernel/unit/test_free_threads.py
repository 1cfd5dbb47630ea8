"""A worker on a free-threaded Python (docs/decisions/0019-with-the-gil.md)."""

import sys

import pytest

from kiqbridge.commands.worker_command import _refuse_other_threads
from kiqbridge.errors import ConfigError


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_worker_starts_with_the_gil_only(monkeypatch, is_enabled):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: is_enabled, raising=False)

    if is_enabled:
        _refuse_other_threads()
    else:
        with pytest.raises(ConfigError, match="PYTHON_GIL=1"):
            _refuse_other_threads()
