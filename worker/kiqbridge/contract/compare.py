"""Where the sides of a contract disagree.

An application enqueues `HardJob` with two arguments, and who performs it takes one: that fails at night. So each
enqueue is held against who performs the class, and jobs of the same name in two applications against each other.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from kiqbridge.contract.document import ANY, Contract, JobContract

Kind = Literal["nobody performs it", "arity", "type", "performed twice", "Active Job"]

_NUMBERS: Final = frozenset({"integer", "number"})


class Disagreement(NamedTuple):
    """One fault.

    Attributes:
        job: wire name.
        kind: of fault.
        text: what it is, and what to do.
    """

    job: str
    kind: Kind
    text: str


def compare(contracts: Sequence[Contract]) -> list[Disagreement]:
    """All disagreements of applications that share a Redis, by the name of the job."""
    found = [*_enqueues(contracts), *_performed_twice(contracts)]
    return sorted(found)


def _enqueues(contracts: Sequence[Contract]) -> Iterator[Disagreement]:
    for caller in contracts:
        for name, wanted in caller.enqueues.items():
            performers = [each for each in contracts if name in each.jobs]
            if not performers:
                yield Disagreement(
                    name,
                    "nobody performs it",
                    f"{caller.app} enqueues it{_at(wanted)}, and no application declares it; declare it, correct "
                    "the name, or pass the contract of who performs it",
                )
            for performer in performers:
                yield from _held_against(name, caller, wanted, performer)


def _held_against(
    name: str, caller: Contract, wanted: JobContract, performer: Contract
) -> Iterator[Disagreement]:
    taken = performer.jobs[name]
    sides = f"{caller.app} enqueues it{_at(wanted)} {{}}, {performer.app} takes {{}}{_at(taken)}"
    # Python performs both; of what Ruby enqueues by a list of names the kind is not known.
    is_known = performer.language == "ruby" and caller.language != "ruby"
    if is_known and wanted.active_job != taken.active_job:
        kinds = [
            "Active Job" if each.active_job else "Sidekiq's own job" for each in (wanted, taken)
        ]
        advice = "RemoteActiveJob" if taken.active_job else "RemoteJob"
        text = sides.format(f"as {kinds[0]}", f"it as {kinds[1]}")
        yield Disagreement(name, "Active Job", f"{text}; declare it as {advice}")
        return
    if wanted.is_unknown:
        return
    if wanted.least < taken.least or wanted.most > taken.most:
        text = sides.format(f"with {_count(wanted)}", _count(taken))
        yield Disagreement(name, "arity", f"{text}; make them the same")
        return
    for number, (given, expected) in enumerate(zip(wanted.placed, taken.placed, strict=False), 1):
        if not fits(given.type, expected.type):
            text = sides.format(
                f"with {given.type} as argument {number} ({given.name})",
                f"{expected.type} ({expected.name})",
            )
            yield Disagreement(name, "type", f"{text}; make them the same")
    if taken.active_job:
        yield from _keywords(name, sides, wanted, taken)


def _keywords(
    name: str, sides: str, wanted: JobContract, taken: JobContract
) -> Iterator[Disagreement]:
    given, expected = wanted.keywords, taken.keywords
    for keyword, each in given.items():
        other = expected.get(keyword)
        if other is None and not taken.takes_more_keywords:
            text = sides.format(f"with keyword {keyword}", "none of this name")
            yield Disagreement(name, "arity", f"{text}; make them the same")
        elif other is not None and not fits(each.type, other.type):
            text = sides.format(f"with {each.type} as keyword {keyword}", other.type)
            yield Disagreement(name, "type", f"{text}; make them the same")
    for keyword, each in expected.items():
        missing = keyword not in given or (given[keyword].optional and not each.optional)
        if missing and not each.optional and not wanted.takes_more_keywords:
            text = sides.format(f"not always with keyword {keyword}", "it in each call")
            yield Disagreement(name, "arity", f"{text}; make them the same")


def _performed_twice(contracts: Sequence[Contract]) -> Iterator[Disagreement]:
    names = sorted({name for each in contracts for name in each.jobs})
    for name in names:
        performers = [each for each in contracts if name in each.jobs]
        first = performers[0].jobs[name]
        for other in performers[1:]:
            taken = other.jobs[name]
            same_queue = not first.queue or not taken.queue or first.queue == taken.queue
            if same_queue and (first.least, first.most) != (taken.least, taken.most):
                yield Disagreement(
                    name,
                    "performed twice",
                    f"{performers[0].app} takes {_count(first)}{_at(first)}, {other.app} {_count(taken)}"
                    f"{_at(taken)}, and both take it from queue {first.queue or taken.queue or 'default'}; give one "
                    "of them another name or queue",
                )


def fits(given: str, expected: str) -> bool:
    """Whether each value of one type may be given where another one is expected."""
    if ANY in (given, expected):
        return True
    allowed = expected.split("|")
    return all(any(_fits_one(part, each) for each in allowed) for part in given.split("|"))


def _fits_one(given: str, expected: str) -> bool:
    kind, _, form = given.partition(":")
    wanted, _, wanted_form = expected.partition(":")
    if kind != wanted:
        return kind == "integer" and wanted in _NUMBERS
    # A plain text may be one of any form; two different forms are a fault.
    return not form or not wanted_form or form == wanted_form


def _count(job: JobContract) -> str:
    if job.takes_more:
        return f"{job.least} or more arguments"
    if job.least == job.most:
        return f"{job.least} argument{'' if job.least == 1 else 's'}"
    return f"{job.least} to {int(job.most)} arguments"


def _at(job: JobContract) -> str:
    return f" ({job.place})" if job.place else ""
