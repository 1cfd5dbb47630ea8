"""Why a job waits that a limiter has put off, for those who look at its life: how much is taken, and by whom."""

from collections.abc import Iterable
from typing import Final

from kiqbridge.api.life import Known, Part, Wait
from kiqbridge.api.operator import Operator
from kiqbridge.api.processes import identity_of
from kiqbridge.features.limiters.store import COUNT, KINDS, LIMITER, Kind, read_limit
from kiqbridge.wire.names import text_of

MOST_OWNERS: Final = 5


def part_of(operator: Operator, known: Known) -> Part | None:
    """The seam `history`."""
    job = known.job
    if job is None or known.found[0].place != "schedule" or COUNT not in job.item:
        return None
    times = job.item[COUNT]
    named = job.item.get(LIMITER)
    kind, _, rest = (named if isinstance(named, str) else "").partition(" ")
    limit, _, name = rest.partition(" ")
    said = f"put off for the {times}. time" if type(times) is int else "put off"
    found = next((each for each in KINDS if each == kind), None)
    text = _how_full(operator, found, limit, name) if found else "a limiter was at its limit"
    wait = Wait(
        kind="limiter",
        text=f"{text}; {said}",
        about=f"limiter:{name}" if found else "",
        until=getattr(job, "at", None),
    )
    return Part(wait=wait)


def _how_full(operator: Operator, kind: Kind, limit: str, name: str) -> str:
    state = read_limit(operator.pool, operator.keys, kind, name)
    used = 0.0 if state is None else state.used
    owners = list(_owners(operator, name)) if kind == "concurrent" else []
    by = f", by {', '.join(owners)}" if owners else ""
    return f"limiter {name} ({kind}): {used:g} of {limit} taken now{by}"


def _owners(operator: Operator, name: str) -> Iterable[str]:
    """The processes that hold most of the locks; of very many locks some."""
    _, pairs = operator.pool.call("HSCAN", operator.keys.limit("concurrent", name), 0, "COUNT", 100)
    owners = [text_of(value).split(" ")[-1] for value in pairs[1::2]]
    counts = {owner: owners.count(owner) for owner in owners if owner}
    for owner in sorted(counts, key=lambda each: -counts[each])[:MOST_OWNERS]:
        identity = identity_of(owner)
        yield identity if counts[owner] == 1 else f"{identity} ({counts[owner]})"
