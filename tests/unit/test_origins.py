"""Whose code a file is."""

import contextlib
import importlib
import logging
import queue
import socket
import sys
import threading

import pytest
from support.stacks import installed_library

from kiqbridge.runtime import origins
from kiqbridge.runtime.origins import Origin, is_generated, origin_of, trust


@pytest.fixture
def library(tmp_path, monkeypatch):
    """An installed package."""
    with installed_library(tmp_path, monkeypatch) as module:
        yield module
    origins._homes.clear()
    origin_of.cache_clear()


@pytest.mark.parametrize(
    ("file", "origin"),
    [
        (__file__, Origin.USER),
        (origins.__file__, Origin.OURS),
        (logging.__file__, Origin.LOGGING),
        (threading.__file__, Origin.LOCKING),
        (queue.__file__, Origin.LOCKING),
        (contextlib.__file__, Origin.LOCKING),
        ("<frozen importlib._bootstrap>", Origin.LOCKING),
        (socket.__file__, Origin.LIBRARY),
        ("/venv/lib/python3.11/site-packages/redis/connection.py", Origin.LOCKING),
        ("/venv/lib/python3.11/site-packages/requests/api.py", Origin.LIBRARY),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", Origin.LIBRARY),
        ("<string>", Origin.LIBRARY),
        ("/app/jobs.py", Origin.USER),
    ],
)
def test_a_file_belongs_to_whom_its_folder_says(file, origin):
    assert origin_of(file) is origin


def test_code_that_was_compiled_from_a_text_is_generated():
    assert is_generated("<string>")
    assert not is_generated("<frozen importlib._bootstrap>")
    assert not is_generated(__file__)


def test_an_installed_package_that_declares_jobs_is_the_users(library):
    assert origin_of(library.__file__) is Origin.LIBRARY

    trust(["some_library.Manager", "kiqbridge.client.job.Job", "threading"])

    assert origin_of(library.__file__) is Origin.USER


def test_a_package_is_trusted_as_a_whole(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages" / "shop"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "jobs.py").touch()
    monkeypatch.syspath_prepend(str(folder.parent))

    importlib.import_module("shop.jobs")

    trust(["shop.jobs.Mail"])

    assert origin_of(str(folder / "other.py")) is Origin.USER
    for name in ("shop", "shop.jobs"):
        del sys.modules[name]
    origins._homes.clear()
    origin_of.cache_clear()
