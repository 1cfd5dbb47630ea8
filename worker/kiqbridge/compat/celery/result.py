"""Celery's results: of a job that is performed elsewhere, and of a call that ran at once."""

import math
import time
import traceback
from typing import TYPE_CHECKING, Any, Final

from kiqbridge import seams
from kiqbridge.compat.celery.conf import Conf, latest_conf
from kiqbridge.compat.celery.control import Control
from kiqbridge.errors import ConfigError, JobFailed, PayloadError, ResultTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HOLDS: Final = frozenset({"interval", "no_ack", "follow_parents", "disable_sync_subtasks"})
"""Arguments of `get` that are about another way to wait; they may be said."""

_STATES: Final = {"done": "SUCCESS", "expired": "REVOKED", "cancelled": "REVOKED"}


class AsyncResult:
    """A job that was enqueued; Celery's name of it.

    Args:
        id: its jid; None if client middleware stopped the push.
        conf: of the application that enqueued it; default: of the one that was made last.
        ignored: its task keeps no result; `get` returns None, as Celery's.

    Attributes:
        id: the jid.
        parent: in a chain, the result of what is before it; else None.
    """

    def __init__(
        self,
        id: str | None,  # noqa: A002 - Celery's name
        *,
        conf: Conf | None = None,
        ignored: bool = False,
    ) -> None:
        self.id = id
        self.parent: Any = None
        self.ignored = ignored
        self._conf = conf

    @property
    def task_id(self) -> str | None:
        """The jid."""
        return self.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def __eq__(self, other: object) -> bool:
        return self.id == (other.id if isinstance(other, AsyncResult) else other)

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return str(self.id)

    def get(
        self,
        timeout: float | None = None,
        propagate: bool = True,  # noqa: FBT001, FBT002 - Celery's
        **options: Any,
    ) -> Any:
        """What the task returned; blocks until it has ended.

        Args:
            timeout: seconds, None = for ever.
            propagate: raise the error of a task that failed; False returns it.
            options: Celery's others; those without a counterpart are refused.

        Raises:
            JobFailed: it ended without success.
            ResultTimeout: it has not ended.
            ResultOmitted: what it returned is no JSON, or longer than 256 KiB.
            ConfigError: the application has no `backend`, so no result is kept.
            PayloadError: client middleware stopped the push, or an option has no counterpart.
        """
        unknown = options.keys() - _HOLDS
        if unknown:
            raise PayloadError(f"get: {min(unknown)} has no counterpart here; leave it out")
        if self.ignored:
            return None
        return self._awaited(math.inf if timeout is None else timeout, propagate=propagate)

    wait = get

    def revoke(self, *, terminate: bool = False) -> None:
        """Delete the task if it waits; see `Control.revoke`."""
        Control().revoke(self.id or "", terminate=terminate)

    def ready(self) -> bool:
        """Whether it has ended."""
        return self.state != "PENDING"

    def successful(self) -> bool:
        """Whether it has ended well."""
        return self.state == "SUCCESS"

    def failed(self) -> bool:
        """Whether it has failed for good."""
        return self.state == "FAILURE"

    @property
    def state(self) -> str:
        """SUCCESS, FAILURE, REVOKED (expired, cancelled or deleted), or PENDING: it has not ended, or its result is gone.

        Raises:
            ConfigError: the application has no `backend`, so no result is kept.
        """
        self._require_backend()
        found = seams.call("fetch_result")(self.id or "")
        if found is None:
            return "PENDING"
        was_deleted = found.error.rpartition(".")[2] == "JobRemoved"
        return "REVOKED" if was_deleted else _STATES.get(found.outcome, "FAILURE")

    @property
    def status(self) -> str:
        """The state."""
        return self.state

    @property
    def result(self) -> Any:
        """What the task returned; the error of a task that failed; None: it has not ended.

        Raises:
            ResultOmitted: what it returned is no JSON, or longer than 256 KiB.
            ConfigError: as `state`.
        """
        try:
            return self._awaited(0.0, propagate=False)
        except ResultTimeout:
            return None

    @property
    def info(self) -> Any:
        """The result."""
        return self.result

    @property
    def traceback(self) -> str | None:
        """None: a result is kept without it; the retry set and the dead set have it (option `backtrace`)."""
        return None

    def _awaited(self, timeout_s: float, *, propagate: bool) -> Any:
        self._require_backend()
        try:
            return seams.call("await_result")(self.id or "", timeout_s=timeout_s)
        except JobFailed as error:
            if propagate:
                raise
            return error

    def _require_backend(self) -> None:
        if (self._conf or latest_conf()).result_backend is None:
            raise ConfigError(
                f"the result of {self.id}: none is kept, since the application has no backend; "
                'write Celery(…, backend="redis://")'
            )


class GroupResult:
    """The results of a group, in its order.

    Args:
        id: for callers that compare results.
        results: those of its members, each an `AsyncResult` or a `GroupResult`.

    Attributes:
        results, children: as given.
        parent: in a chain, the result of what is before it; else None.
    """

    def __init__(self, id: str, results: "Sequence[AsyncResult | GroupResult]") -> None:  # noqa: A002
        self.id = id
        self.results = self.children = list(results)
        self.parent: Any = None

    def __repr__(self) -> str:
        return f"<GroupResult {self.id}: {len(self)}>"

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> "Iterator[AsyncResult | GroupResult]":
        return iter(self.results)

    def __getitem__(self, index: int) -> "AsyncResult | GroupResult":
        return self.results[index]

    def get(
        self,
        timeout: float | None = None,
        propagate: bool = True,  # noqa: FBT001, FBT002 - Celery's
        **options: Any,
    ) -> list[Any]:
        """What each of them returned; raises as `AsyncResult.get`.

        Args:
            timeout: seconds for all of them, None = for ever.
            propagate: raise the error of the first one that failed; False: it is in the list.
            options: as of `AsyncResult.get`.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        return [
            each.get(
                None if timeout is None else max(until - time.monotonic(), 0.0),
                propagate,
                **options,
            )
            for each in self.results
        ]

    join = get

    def ready(self) -> bool:
        """Whether all have ended."""
        return all(each.ready() for each in self.results)

    def successful(self) -> bool:
        """Whether all have ended well."""
        return all(each.successful() for each in self.results)

    def failed(self) -> bool:
        """Whether one of them has failed for good."""
        return any(each.failed() for each in self.results)

    def revoke(self, *, terminate: bool = False) -> None:
        """Delete those tasks that wait; see `Control.revoke`."""
        for each in self.results:
            each.revoke(terminate=terminate)

    def waiting(self) -> bool:
        """Whether one of them has not ended."""
        return not self.ready()

    def completed_count(self) -> int:
        """How many have ended well."""
        return sum(each.successful() for each in self.results)


class EagerResult(AsyncResult):
    """Of a call that ran at once, in the caller; it needs no server.

    Args:
        id: as for `AsyncResult`.
        value: what the task returned.
        error: that of a task that failed, or None.
    """

    def __init__(self, id: str, value: Any, error: BaseException | None = None) -> None:  # noqa: A002
        super().__init__(id)
        self._value = value
        self._error = error

    @property
    def state(self) -> str:
        """SUCCESS or FAILURE."""
        return "SUCCESS" if self._error is None else "FAILURE"

    @property
    def result(self) -> Any:
        """What the task returned, or its error."""
        return self._value if self._error is None else self._error

    @property
    def traceback(self) -> str | None:
        """Of the error; None: there is none."""
        return None if self._error is None else "".join(traceback.format_exception(self._error))

    def _awaited(self, _timeout_s: float, *, propagate: bool) -> Any:
        if propagate and self._error is not None:
            raise self._error
        return self.result
