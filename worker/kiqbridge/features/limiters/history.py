"""Why a job waits that a limiter has put off, for the history of a job: how much is taken, and by which jobs."""

from collections import Counter
from typing import Final

from kiqbridge.api.life import Known, Part, Wait
from kiqbridge.api.operator import Operator
from kiqbridge.features.limiters.overview import read_limiter
from kiqbridge.features.limiters.store import COUNT, KINDS, LIMITER

MOST_OWNERS: Final = 5


def part_of(operator: Operator, known: Known) -> Part | None:
    """The seam `history`."""
    job = known.job
    if job is None or known.found[0].place != "schedule" or COUNT not in job.item:
        return None
    times = job.item[COUNT]
    said = f"put off for the {times}. time" if type(times) is int else "put off"
    named = job.item.get(LIMITER)
    kind, _, name = (named if isinstance(named, str) else "").partition(" ")
    is_named = kind in KINDS
    text = _how_full(operator, kind, name) if is_named else "a limiter was at its limit"
    wait = Wait(
        kind="limiter",
        text=f"{text}; {said}",
        about=f"limiter:{name}" if is_named else "",
        until=getattr(job, "at", None),
    )
    return Part(wait=wait)


def _how_full(operator: Operator, kind: str, name: str) -> str:
    found = read_limiter(operator, kind, name)
    if found is None:
        return f"limiter {name} ({kind}) was at its limit"
    counts = Counter(each.process for each in found.owners if each.process)
    owners = [
        identity if count == 1 else f"{identity} ({count})"
        for identity, count in counts.most_common(MOST_OWNERS)
    ]
    by = f", by {', '.join(owners)}" if owners else ""
    state = found.state
    return f"limiter {name} ({kind}): {state.used:g} of {state.limit:g} taken now{by}"
