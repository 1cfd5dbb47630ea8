"""Keeping an event loop running, whatever its tasks do to it.

A background task that calls `sys.exit()`, or a job that calls `loop.stop()`, ends `run_forever` and
leaves all other tasks as they are: the same loop is entered again, and they go on.
"""

import asyncio
from collections.abc import Callable

from kiqbridge import job_forks

MOST_FAILURES = 3
"""So often in a row a loop may fail without running anything, before it counts as broken."""

Report = Callable[[str, BaseException | None], object]
"""(what ended the loop, the error if there was one); the loop goes on after it."""


def keep_loop_running(
    loop: asyncio.AbstractEventLoop, *, is_over: Callable[[], bool], report: Report
) -> str:
    """Run a loop on this thread until `is_over()`, which is asked whenever it stops.

    Returns "" then, or why it cannot go on: it was closed, or its selector fails again and again.
    """
    failures = 0
    progress: list[bool] = []
    while True:
        progress.clear()
        try:
            loop.call_soon(progress.append, True)
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            if job_forks.in_child:
                job_forks.end(error)
            if is_over():
                return ""
            report(f"{type(error).__name__} escaped a background task or a callback", error)
        except BaseException as error:  # noqa: BLE001 - the loop's own: whether it can go on is seen next
            if is_over():
                return ""
            failures = 0 if progress else failures + 1
            what = f"it failed with {type(error).__name__}: {error}"
            if failures >= MOST_FAILURES:
                return what
            report(what, error)
        else:
            if is_over():
                return ""
            report("something called `loop.stop()`", None)
