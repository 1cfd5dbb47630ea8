"""A folder with a project as it ships, and `kiqbridge dev` running in it."""

import contextlib
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from support.processes import ChildProcess
from support.project import lay_out


class Project:
    """A folder with template, functions and jobs, and the runs started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[ChildProcess] = []
        self.template = lay_out(folder)

    def change(self, old: str, new: str) -> None:
        text = self.template.read_text()
        assert old in text
        self.template.write_text(text.replace(old, new))

    def dev(self, *arguments: str, web: bool = False, **env: str) -> ChildProcess:
        """Without the page unless a test is about it: it takes a second of the processor each time."""
        command = [sys.executable, "-m", "kiqbridge", "dev", *arguments]
        command += [] if web else ["--no-web"]
        run = ChildProcess(command, cwd=self.folder, env=env)
        self.runs.append(run)
        return run


@contextlib.contextmanager
def dev_project(folder: Path) -> Iterator[Project]:
    """A project in `folder`; its runs end with the block."""
    project = Project(folder)
    try:
        yield project
    finally:
        for run in project.runs:
            run.close()


def children_of(run: ChildProcess) -> list[int]:
    tasks = Path(f"/proc/{run.pid}/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


def lines_of(run: ChildProcess, kind: str) -> list[str]:
    """The lines of one kind, such as `tick` or `done`."""
    return re.findall(rf"^\S+Z {kind} .*$", run.output, re.MULTILINE)


def wait_for_job(run: ChildProcess) -> None:
    run.wait_for(lambda: lines_of(run, "done"), 20, "a job that is done")


def interrupt(run: ChildProcess) -> int:
    """Ctrl-C, and the exit code."""
    run.signal(signal.SIGINT)
    return run.wait()


def url_of(run: ChildProcess) -> str:
    """Where its server listens."""
    return re.search(r"REDIS_URL=(\S+)", run.output)[1]


def table(text, heading):
    """The rows below the last table whose first heading is this one, as lists of cells."""
    _, found, rest = text.rpartition(f"\n  {heading}   ")
    below = rest.splitlines()[1:] if found else []
    rows = []
    for line in below:
        if not line.startswith("  "):
            break
        rows.append(re.split(r" {3,}", line.strip()))
    return rows
