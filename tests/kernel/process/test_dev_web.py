"""The page beside `kiqbridge dev`, the real command."""

import os
import re
import signal
import time
from pathlib import Path

import httpx
import pytest
from support.dev_project import children_of, interrupt, lines_of, wait_for_job
from support.processes import is_process_running
from support.waiting import wait_until

pytestmark = pytest.mark.slow

PAGE = re.compile(r"web +the page with queues and jobs: (http://127\.0\.0\.1:\d+/)")


def page_of(run):
    run.wait_for(lambda: PAGE.search(run.output), 30, "the address of the page")
    return PAGE.search(run.output)[1]


def process_of_page(run):
    [found] = [
        pid
        for pid in children_of(run)
        if b"kiqbridge\0web" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return found


def test_it_shows_the_queues_to_an_administrator_and_ends_with_the_run(project, tell):
    run = project.dev(web=True)
    address = page_of(run)
    wait_for_job(run)
    pid = process_of_page(run)

    with httpx.Client(timeout=20) as browser:
        page = browser.get(f"{address}queues")
        assert page.status_code == 200 and ">admin<" in page.text
        assert "default" in page.text
        foreign = browser.get(f"{address}queues", headers={"Host": "evil.example"})
        assert foreign.status_code == 421
        began = time.monotonic()
        assert interrupt(run) == 0  # a connection is still open
    tell(f"kiqbridge dev with the page: ended after {time.monotonic() - began:.2f} s")
    assert not is_process_running(pid)
    assert "given back. Bye." in run.output
    assert not lines_of(run, "error")
    # The page starts when the worker is there: it takes nothing from the start.
    assert run.output.index(" is ready: ") < run.output.index(address)


def test_a_page_that_ends_is_reported_and_the_run_goes_on(project):
    run = project.dev(web=True)
    page_of(run)

    os.kill(process_of_page(run), signal.SIGKILL)

    run.wait_for(lambda: lines_of(run, "error"), 15, "that the page has ended")
    [line] = lines_of(run, "error")
    assert "the page has ended (exit code -9)" in line
    wait_for_job(run)
    assert interrupt(run) == 0


def test_with_no_web_there_is_none_and_with_no_invoke_no_api(project):
    run = project.dev("--no-invoke")
    wait_for_job(run)
    wait_until(lambda: " is ready: " in run.output, 15, "a worker that is ready")

    assert interrupt(run) == 0
    assert not PAGE.search(run.output)
    assert "Lambda's API" not in run.output
