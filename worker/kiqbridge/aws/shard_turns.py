"""The turns of a function that a rule invokes each minute, where there are several shards: one for each.

They take place at the same time, each on a thread of its own: a shard that does not answer, or whose silent workers
have to be watched, does not take the time of the others. What is measured is written for each shard, and its sum as
soon as all shards have measured it or ended; one that is away is missing from the sum.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from kiqbridge.aws.emf import QUEUE_LATENCY
from kiqbridge.aws.minutely import LONGEST_S, Minutely, Turn
from kiqbridge.store import deadline

_HIGHEST: Final = frozenset({QUEUE_LATENCY, "FleetSilent", "RedisUnavailable", "Failed"})
"""Metrics of which the highest value counts, not the sum."""

_Named = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""Names of metrics that are measured together, and their dimensions."""


class Sums:
    """What several shards have measured, added up.

    Args:
        shards: their names.
        write: is called once for metrics that are measured together, with their sums and dimensions.
    """

    def __init__(
        self,
        shards: Sequence[str],
        write: Callable[[Mapping[str, float], Mapping[str, str]], None],
    ) -> None:
        self._write = write
        self._working = set(shards)
        self._found: dict[_Named, dict[str, Mapping[str, float]]] = {}
        self._lock = threading.Lock()

    def add(self, shard: str, values: Mapping[str, float], dimensions: Mapping[str, str]) -> None:
        """Note what one shard has measured; the sum is written if no other one is waited for."""
        named = tuple(values), tuple(sorted(dimensions.items()))
        with self._lock:
            self._found.setdefault(named, {})[shard] = values
            self._write_complete()

    def end(self, shard: str) -> None:
        """Nothing more comes of this shard."""
        with self._lock:
            self._working.discard(shard)
            self._write_complete()

    def _write_complete(self) -> None:
        for named, found in list(self._found.items()):
            if self._working <= found.keys():
                del self._found[named]
                self._write(_sum(list(found.values())), dict(named[1]))


def _sum(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {
        name: (max if name in _HIGHEST else sum)([each[name] for each in several])
        for name in several[0]
    }


def take_turns(
    function: Minutely,
    request_id: str | None,
    left_s: float,
    work: Callable[[Turn], dict[str, Any]],
) -> dict[str, Any]:
    """Do the work of one invocation on each shard; name → what was answered there.

    Args:
        function: of which environment.
        request_id: of the invocation, as Lambda names it.
        left_s: seconds that are left for calls to Redis.
        work: as for `Minutely.run`.

    Raises:
        KiqbridgeError: that of the first shard on which it failed, once all have ended.
    """
    names = function.client.shards
    of_all = Turn(function, request_id, left_s, shard=names[0])
    sums = Sums(names, of_all.write_metrics)
    turns = [Turn(function, request_id, left_s, shard=name, sums=sums) for name in names]

    def take(turn: Turn) -> dict[str, Any] | Exception:
        try:
            with deadline.within(min(left_s, LONGEST_S)):
                answer = work(turn)
        except Exception as error:  # noqa: BLE001 - raised below
            turn.failed(error)
            return error
        else:
            turn.done(answer)
            return answer
        finally:
            sums.end(turn.shard)

    with ThreadPoolExecutor(len(turns), thread_name_prefix="shard") as threads:
        answers = list(threads.map(take, turns))
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return dict(zip(names, answers, strict=True))
