"""Where the sides of a contract disagree.

An application enqueues `HardJob` with two arguments, and who performs it takes one: that fails at night. So each
enqueue is held against who performs the class, and jobs of the same name in two applications against each other.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from kiqbridge.contract.document import ANY, Contract, JobContract

Kind = Literal["nobody performs it", "arity", "type", "performed twice"]

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
    sides = (
        f"{caller.app} enqueues it{_at(wanted)} with {{}}, {performer.app} takes {{}}{_at(taken)}"
    )
    if wanted.least < taken.least or wanted.most > taken.most:
        text = sides.format(_count(wanted), _count(taken))
        yield Disagreement(name, "arity", f"{text}; make them the same")
        return
    for number, (given, expected) in enumerate(
        zip(wanted.parameters, taken.parameters, strict=False), 1
    ):
        if not fits(given.type, expected.type):
            text = sides.format(
                f"{given.type} as argument {number} ({given.name})",
                f"{expected.type} ({expected.name})",
            )
            yield Disagreement(name, "type", f"{text}; make them the same")


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
