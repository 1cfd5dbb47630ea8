"""Processes of Python and Ruby: what each serves, how it is, and quieting, stopping, dumping its threads."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kiqbridge.api import Process, ProcessSet, Work, WorkSet
from kiqbridge.api.works import RunningJob, running_jobs, usual_durations
from kiqbridge.web.context import View, redirect, render, view_of
from kiqbridge.web.guard import requires
from kiqbridge.web.shown import noun, plain

P95_FRESH_S: Final = 30.0
MOST_DRAWN: Final = 100
"""Threads of a process that its strip shows."""
LATE_BEAT_S: Final = 30.0
"""A heartbeat comes every 5 or 10 s; older than this, something holds the process up."""


def show(request: Request) -> Response:
    """The list of processes."""
    view = view_of(request)

    def load() -> tuple[list[Process], list[Process], Mapping[str, list[RunningJob]]]:
        known = ProcessSet(view.operator)
        living = list(known)
        return living, known.lost(living), fetch_threads(view)

    processes, lost, threads = view.read(("processes",), load)
    # Versions of Ruby may differ for years, ours should not.
    ours = sorted({each.version for each in processes if each.is_ours})
    return render(
        request,
        "processes.html",
        processes=processes,
        lost=lost,
        threads=threads,
        most_drawn=MOST_DRAWN,
        mixed=ours if len(ours) > 1 else [],
        version_of=version_of,
        is_embedded=is_embedded,
        late_beat_s=LATE_BEAT_S,
    )


def fetch_threads(view: View) -> Mapping[str, list[RunningJob]]:
    """Identity of a process → what its threads do, the longest running first."""
    found: dict[str, list[RunningJob]] = {}
    for each in compare(view, list(WorkSet(view.operator))):
        found.setdefault(each.work.process, []).append(each)
    return found


def compare(view: View, works: Sequence[Work]) -> Sequence[RunningJob]:
    """These jobs, with how long those of their classes usually run."""
    classes = sorted({each.job.display_class for each in works})
    key = ("p95 of", *classes)
    usual = view.read(key, lambda: usual_durations(works, view.operator), P95_FRESH_S)
    return running_jobs(works, usual, view.now)


def version_of(process: Process) -> str:
    """`Kiqbridge 0.1.0`, `Sidekiq 8.1.7`; before 7 a process does not say."""
    if process.is_ours:
        return f"Kiqbridge {process.version.removeprefix('kiqbridge-') or '?'}"
    return f"Sidekiq {process.version or 'before 7'}"


def is_embedded(process: Process) -> bool:
    """Whether it lives within another program, which ignores signals that are sent through Redis (§10.5)."""
    return process.info.get("embedded") is True


_DONE: Final = {
    "quiet": "takes no new jobs from its next heartbeat on, within 10 s",
    "stop": "stops at its next heartbeat, within 10 s; jobs that do not end in time go back to their queues",
    "dump_threads": "writes where each of its threads is to its log within 10 s, and shows it for those that run jobs: on Busy and on the page of the job",
}


@requires("admin")
def act_on_all(request: Request, form: FormData) -> Response:
    """Quiet or stop every process."""
    action = _action_of(form)
    if not form.get("confirmed"):
        raise HTTPException(400, "Nothing was done: the form does not say that all are meant.")
    reached = [each for each in ProcessSet(view_of(request).operator) if not is_embedded(each)]
    for process in reached:
        getattr(process, action)()
    done = {"quiet": "take no new jobs", "stop": "stop"}[action]
    asked = (
        f"{len(reached):,} {noun(len(reached), 'process was', 'processes were')} asked to {done}"
    )
    return redirect(request, "/processes", notice=f"{asked}: at the next heartbeat, within 10 s.")


@requires("operator")
def dump_threads(request: Request, form: FormData) -> Response:
    """Have a process write where each of its threads is."""
    return _act_on_one(request, form, "dump_threads")


@requires("admin")
def act(request: Request, form: FormData) -> Response:
    """Quiet or stop one process."""
    return _act_on_one(request, form, _action_of(form))


def _act_on_one(request: Request, form: FormData, action: str) -> Response:
    process = ProcessSet(view_of(request).operator).find(str(form.get("identity", "")))
    if process is None:
        raise HTTPException(
            404, "This process is gone: it was stopped, or has lost Redis for a minute."
        )
    getattr(process, action)()
    name, jid = f"{plain(process.hostname, 60)}:{process.pid}", form.get("jid")
    path = f"/jobs/{jid}" if jid else "/processes"
    return redirect(request, path, notice=f"{name} {_DONE[action]}.")


def _action_of(form: FormData) -> str:
    action = str(form.get("action", ""))
    if action not in ("quiet", "stop"):
        raise HTTPException(400, f"The form asks for {json.dumps(action)}; there are quiet, stop.")
    return action
