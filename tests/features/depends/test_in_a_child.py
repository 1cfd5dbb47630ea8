"""Jobs of the process pool get what they declare by `Depends` in the child that runs them."""

import pytest
from support.notes import Notes

pytestmark = pytest.mark.slow

JOBS = """
from contextlib import contextmanager

from support.noting import note

from kiqbridge import Depends, job, server


@server.lifespan
@contextmanager
def database():
    yield "a database"


def opened():
    yield f"with {database.value}"
    note("closed")


def filled(number: int, of: str = Depends(opened)) -> None:
    note("filled", number=number, of=of)


job(filled, name="FilledInThread")
job(filled, name="FilledInProcess", pool="process")
"""


def test_a_child_fills_what_a_job_depends_on_as_a_thread_does(start, client, tmp_path):
    seen, worker = Notes(tmp_path), start("-c", "1")
    for number, name in enumerate(["FilledInThread", "FilledInProcess"]):
        client.push({"class": name, "args": [number]})

    here, there = sorted(seen.wait("closed", 2), key=lambda note: note["pid"] != worker.pid)
    assert worker.stop() == 0

    assert here["pid"] == worker.pid != there["pid"]
    for number, closed in enumerate((here, there)):
        [filled] = [each for each in seen.all("filled") if each["number"] == number]
        assert (filled["pid"], filled["of"]) == (closed["pid"], "with a database")
