"""Where the sides of a contract disagree.

An application enqueues `HardJob` with two arguments, and who performs it takes one: that fails at night. So each
enqueue is held against who performs the class, and jobs of the same name in two applications against each other.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from kiqbridge.features.contract.document import ANY, Contract, JobContract

Kind = Literal["not performed", "arity", "type", "performed twice", "Active Job"]

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
                    "not performed",
                    f"{caller.app} enqueues it{_at(wanted)}, and no application declares it; declare it, correct "
                    "the name, or pass the contract of who performs it",
                )
            for performer in performers:
                yield from _held_against(name, caller, wanted, performer)


def _held_against(
    name: str, caller: Contract, wanted: JobContract, performer: Contract
) -> Iterator[Disagreement]:
    taken = performer.jobs[name]

    def fault(
        kind: Kind, given: str, expected: str, advice: str = "make them the same"
    ) -> Disagreement:
        text = f"{caller.app} enqueues it{_at(wanted)} {given}, {performer.app} takes {expected}"
        return Disagreement(name, kind, f"{text}{_at(taken)}; {advice}")

    # Python performs both; of what Ruby enqueues by a list of names the kind is not known.
    is_known = performer.language == "ruby" and caller.language != "ruby"
    if is_known and wanted.active_job != taken.active_job:
        kinds = [
            "Active Job" if each.active_job else "Sidekiq's own job" for each in (wanted, taken)
        ]
        advice = f"declare it as {'RemoteActiveJob' if taken.active_job else 'RemoteJob'}"
        yield fault("Active Job", f"as {kinds[0]}", f"it as {kinds[1]}", advice)
        return
    if wanted.is_unknown:
        return
    if wanted.least < taken.least or wanted.most > taken.most:
        yield fault("arity", f"with {_count(wanted)}", _count(taken))
        return
    for number, (given, expected) in enumerate(zip(wanted.placed, taken.placed, strict=False), 1):
        if not fits(given.type, expected.type):
            at = f"with {given.type} as argument {number} ({given.name})"
            yield fault("type", at, f"{expected.type} ({expected.name})")
    if taken.active_job:
        yield from _keywords(fault, wanted, taken)


def _keywords(
    fault: Callable[..., Disagreement], wanted: JobContract, taken: JobContract
) -> Iterator[Disagreement]:
    for keyword, each in wanted.keywords.items():
        other = taken.keywords.get(keyword)
        if other is None and not taken.takes_more_keywords:
            yield fault("arity", f"with keyword {keyword}", "none of this name")
        elif other is not None and not fits(each.type, other.type):
            yield fault("type", f"with {each.type} as keyword {keyword}", other.type)
    for keyword, each in taken.keywords.items():
        is_given = keyword in wanted.keywords and not wanted.keywords[keyword].optional
        if not (is_given or each.optional or wanted.takes_more_keywords):
            yield fault("arity", f"not always with keyword {keyword}", "it in each call")


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
