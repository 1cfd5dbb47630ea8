"""What the doctor finds of unique jobs: locks that are older than their jobs."""

from collections.abc import Iterator
from typing import Final

from kiqbridge.api import Fact, Operator
from kiqbridge.api.verdict import Rule
from kiqbridge.features.gone_jobs.places import nowhere
from kiqbridge.features.unique.overview import freeing, list_locks

MOST_LOCKS: Final = 200
"""Locks that are looked at."""

LEFT: Final = Rule(
    id="lock-job-gone",
    reports=f"locks of unique jobs whose job is in no queue and no set, and does not run; {MOST_LOCKS} locks",
    why="No job with the same arguments is pushed meanwhile.",
    do="The leader of the workers frees such a lock within about a quarter of an hour. If no worker of this version lives, "
    "start one, or free it: kiqbridge lock free NAME.",
    well="each lock that was looked at has its job",
    command="kiqbridge lock free NAME",
)
RULES: Final = (LEFT,)


def examine(operator: Operator) -> Iterator[Fact]:
    """The seam `examines`."""
    locks = list_locks(operator, 1, MOST_LOCKS).rows
    jids = {each.jid for each in locks}
    if not jids:
        return
    gone, note = nowhere(operator, LEFT.id, jids)
    left = [each for each in locks if each.jid in gone]
    if left:
        first = left[0]
        count = f"{len(left)} locks are" if len(left) > 1 else "A lock is"
        what = f"{count} older than the job that owns it, such as {first.name} of job {first.jid}."
        yield LEFT.fact("warning", what, "/locks", acts=[freeing(left)], NAME=first.name)
    elif note:
        yield LEFT.fact("healthy", f"{LEFT.well}; {note}", "/locks")
