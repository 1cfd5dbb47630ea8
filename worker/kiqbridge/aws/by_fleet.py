"""Pushing the records of one delivery to several fleets: a fleet that is away fails, or spills, its own records only."""

from collections.abc import Callable, Sequence

from kiqbridge.aws.depth import queue_of
from kiqbridge.aws.push import Asked, Pushing
from kiqbridge.aws.record import Answering, Result
from kiqbridge.errors import PayloadError

NO_FLEET = ""
"""Stands for that of a queue which belongs to none: its push is refused."""


class FleetPusher:
    """Pushes each record with those of its fleet.

    In a group that keeps its order, the records of one fleet wait for each other only: queues of two servers have no
    common order.

    Args:
        make: makes the pusher of a fleet, each with its own memory of what was away.
        name_of: the name of a queue's fleet; raises PayloadError if it has none.
    """

    def __init__(self, make: Callable[[], Pushing], name_of: Callable[[str], str]) -> None:
        self._make = make
        self._name_of = name_of
        self._pushers = {NO_FLEET: make()}

    def has_spilled(self, event: object) -> bool:
        """Whether an event comes out of a spill queue, which all share."""
        return self._pushers[NO_FLEET].has_spilled(event)

    def push(self, asked: Sequence[Asked], answering: Answering, by: str) -> list[Result]:
        """As `Pusher.push`; what is all or nothing goes as one, and is refused if it has jobs of two fleets."""
        places: dict[str, list[int]] = {}
        for place, each in enumerate(asked):
            its = asked[0] if answering is Answering.WHOLE else each
            places.setdefault(self._fleet(its), []).append(place)
        results: dict[int, Result] = {}
        for name, own in places.items():
            if name not in self._pushers:
                self._pushers[name] = self._make()
            pushed = self._pushers[name].push([asked[place] for place in own], answering, by)
            results |= dict(zip(own, pushed, strict=True))
        return [results[place] for place in range(len(asked))]

    def _fleet(self, asked: Asked) -> str:
        try:
            return self._name_of(queue_of(asked.request.jobs[0].item))
        except PayloadError:
            return NO_FLEET
