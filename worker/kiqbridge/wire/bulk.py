"""Many jobs in one call (protocol §5.7): what they share, and what each has of its own."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from kiqbridge.errors import PayloadError
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import active_job, json_text
from kiqbridge.wire.payload import epoch_seconds

BATCH_SIZE: Final = 1000
"""Jobs per round trip of a bulk push (§5.7), and the most that one script takes."""

SPREAD_MINIMUM_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """Many jobs in their order.

    Attributes:
        shared: what they have in common, but for `args` and `at`.
        argument_lists, times: of each job; a time of None means now.
        batch_size: how many go in one round trip.
    """

    shared: dict[str, Any]
    argument_lists: list[list[Any]]
    times: list[float | None]
    batch_size: int

    def item(self, index: int) -> dict[str, Any]:
        """One of the jobs as an item for `Client.push`."""
        at = self.times[index]
        return (
            self.shared | {"args": self.argument_lists[index]} | ({} if at is None else {"at": at})
        )

    @property
    def are_alike(self) -> bool:
        """Whether they differ only in args, times and ids."""
        return "jid" not in self.shared and not active_job.is_active_job(self.shared)


def parse_bulk(item: object, now: float, chance: Callable[[], float]) -> Bulk:
    """Read what `Client.push_bulk` takes.

    Args:
        item: the shared attributes; `args` is a list of lists, one for each job.
        now: epoch seconds from which `spread_interval` counts.
        chance: gives a number from 0 to 1 for each job that is spread.

    Raises:
        PayloadError: names the field and shows the value.
    """
    if not isinstance(item, Mapping):
        raise PayloadError(f"job: {shorten(item)} is not an object with the keys class and args")
    shared = dict(item)
    batch_size = _batch_size(shared.pop("batch_size", BATCH_SIZE))
    argument_lists = _argument_lists(shared)
    count = len(argument_lists)
    times = _times(shared, count, now, chance)
    own = {"jid": shared.pop("jid", None)}
    if active_job.is_active_job(shared):
        own["job_id"] = shared.pop("job_id", None)
    for name, value in own.items():
        if value is not None and count > 1:
            raise PayloadError(
                f"{name}: {shorten(value)} cannot be that of {count} jobs; leave it out"
            )
    return Bulk(shared=shared, argument_lists=argument_lists, times=times, batch_size=batch_size)


def _argument_lists(bulk: Mapping[str, Any]) -> list[list[Any]]:
    args = bulk.get("args")
    if not isinstance(args, list) or not all(isinstance(element, list) for element in args):
        raise PayloadError(
            f"args: {shorten(args)} is not a list of lists, one list of arguments per job"
        )
    return args


def _batch_size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PayloadError(f"batch_size: {shorten(value)} is not a whole number above 0")
    return value


def _times(
    bulk: dict[str, Any], count: int, now: float, chance: Callable[[], float]
) -> list[float | None]:
    spread = bulk.pop("spread_interval", None)
    if "at" not in bulk:
        if spread is None:
            return [None] * count
        if epoch_seconds(spread, field="spread_interval") <= 0:
            raise PayloadError(f"spread_interval: {spread!r} is not a number of seconds above 0")
        width = max(float(spread), SPREAD_MINIMUM_S)
        return [now + chance() * width for _ in range(count)]
    at = bulk.pop("at")
    if spread is not None:
        raise PayloadError(
            "at: cannot be given together with spread_interval; leave one of them out"
        )
    times = at if isinstance(at, list) else [at] * count
    if len(times) != count or (isinstance(at, list) and not at):
        raise PayloadError(
            f"at: {len(times)} times for {count} jobs; give one number, or one per job"
        )
    return [_absolute(moment) for moment in times]


def _absolute(moment: object) -> float:
    if isinstance(moment, datetime):
        raise PayloadError(f"at: {moment!r} is not a number (epoch seconds)")
    return epoch_seconds(moment)


class AlikeTexts:
    """Texts of jobs that differ only in their arguments and ids: the rest is written once.

    Args:
        payload: one of them, as it is written, with its jid; its order of keys is that of all.
    """

    def __init__(self, payload: Mapping[str, Any]) -> None:
        names = list(payload)
        parts = [json_text.dumps(name) + b":" + json_text.dumps(payload[name]) for name in names]
        args, jid = names.index("args"), names.index("jid")
        assert args < jid  # noqa: S101 - the jid is added last (§3.4)
        self._before = b"{" + b"".join(part + b"," for part in parts[:args]) + b'"args":'
        self._between = b"".join(b"," + part for part in parts[args + 1 : jid]) + b',"jid":"'
        self._after = b'"' + b"".join(b"," + part for part in parts[jid + 1 :]) + b"}"

    def texts(self, argument_lists: Sequence[list[Any]], jids: Sequence[str]) -> list[bytes]:
        """One text per list and id.

        Raises:
            TypeError, ValueError: as `json_text.dumps`.
        """
        before, between, after, dumps = self._before, self._between, self._after, json_text.dumps
        return [
            b"%b%b%b%b%b" % (before, dumps(args), between, jid.encode(), after)
            for args, jid in zip(argument_lists, jids, strict=True)
        ]
