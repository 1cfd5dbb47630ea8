"""The way of a failed job from its thread to `dead`: the files are those that the architecture names."""

import re
import threading
from pathlib import Path

import pytest
from support.engine import EngineProcess
from support.jobs import own_declarations
from support.processors import processor_on
from support.waiting import wait_until

import kiqbridge
from kiqbridge.client.job import job
from kiqbridge.engine.settle.settling import Settler

SOURCE = Path(kiqbridge.__file__).parent
ENGINE = "engine/"
"""The folder whose files say what becomes of a job; the others are tools that every way uses."""


def files_of_the_document():
    """The files that decide and write, and those that are asked on the way."""
    text = (SOURCE.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    way = text.partition("The way of a failed job")[2].partition("\n\n")[0]
    own, _, asked = way.partition("Asked on the way")
    return [re.findall(r"`(engine/\w+/\w+\.py)`", part) for part in (own, asked)]


class Files:
    """The files of the package whose functions a thread enters, from the error of a job until it is written."""

    def __init__(self):
        self.entered = set()
        self.follows = False

    def __call__(self, frame, event, _arg):
        if not self.follows:
            return
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            self.entered.add(path.relative_to(SOURCE).as_posix())
        if event == "return" and frame.f_code is Settler.write.__code__:
            self.follows = False


@pytest.fixture
def files(monkeypatch):
    files = Files()
    monkeypatch.setattr(threading, "_profile_hook", files)  # of threads that begin from now on
    return files


def test_a_job_that_dies_goes_through_the_files_that_the_document_names(redis_url, redis, files):
    with own_declarations(), EngineProcess(redis_url) as engine:

        @job(name="Dies", retry=0)
        def dies():
            files.follows = True
            raise ValueError("no luck")

        made = processor_on(engine, size=1)
        redis.lpush("queue:default", b'{"class":"Dies","args":[],"jid":"j1","retry":0}')
        made.processor.start()
        wait_until(lambda: redis.zcard("dead") == 1, 30)
        made.processor.quiet()
        made.gate.open()
        made.processor.join(20)

    entered = {path for path in files.entered if path.startswith(ENGINE)}

    deciding, asked = files_of_the_document()
    assert entered == {*deciding, *asked}
    assert len(deciding) <= 6
