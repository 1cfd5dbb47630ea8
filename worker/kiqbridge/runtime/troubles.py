"""What a process cannot do until somebody changes something: the reasons why it is not ready."""

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kiqbridge.errors import KiqbridgeError, PushNotReplicated, PushOutcomeUnknown, QueueTooDeep

logger = logging.getLogger(__name__)

_OF_PUSHES: Final = (PushNotReplicated, PushOutcomeUnknown, QueueTooDeep)

HINDERED_S: Final = 15.0
"""Seconds for which a reason counts that is found anew with each try; it may be that none follows."""

MOST_LOGGED: Final = 5
"""Different reasons that are logged under one name until it works again: they may take turns."""


class Troubles:
    """Reasons by name. From any thread, at once; takes no lock, since the status of the process is made of it.

    `kiqbridge health --ready` fails with each of them, the page and the doctor show them. The caller that sets one logs it.
    """

    def __init__(self) -> None:
        self._texts: dict[str, tuple[str, float]] = {}
        self._logged: dict[str, set[str]] = {}

    def __repr__(self) -> str:
        return f"Troubles({self._texts})"

    def __iter__(self) -> Iterator[str]:
        """The texts, in the order in which their names were set first."""
        now = time.monotonic()
        return iter([text for text, until in list(self._texts.values()) if now < until])

    def __contains__(self, name: object) -> bool:
        """Whether something is set under this name."""
        found = self._texts.get(name)  # type: ignore[call-overload] # any object
        return found is not None and time.monotonic() < found[1]

    def set(self, name: str, text: str, *, for_s: float = math.inf) -> None:
        """Something cannot be done until it is changed.

        Args:
            name: what cannot be done, such as "poller"; a text that was set under it before is replaced.
            text: what happened, and what to do; one line without a full stop, and without a secret.
            for_s: seconds after which it counts no more, unless it is set again.
        """
        self._texts[name] = text, time.monotonic() + for_s

    def hindered(self, name: str, text: str) -> None:
        """Set a reason that each further try finds anew: it counts for `HINDERED_S` seconds, and a warning is logged once."""
        is_new = name not in self
        self.set(name, text, for_s=HINDERED_S)
        if is_new:
            logger.warning("%s; it is tried again, and until then this worker is not ready", text)

    def clear(self, name: str) -> bool:
        """It can be done again; False: nothing was set."""
        return self._texts.pop(name, None) is not None

    def failed(self, name: str, error: KiqbridgeError) -> None:
        """A try failed, and follows another one: warn once, and set it, if that may not pass by itself.

        Args:
            name: what is tried, as the subject of a sentence, such as "moving due jobs".
            error: why.
        """
        if error.may_pass:
            # An outage is reported once, by those who take jobs.
            level = logging.WARNING if isinstance(error, _OF_PUSHES) else logging.DEBUG
            logger.log(level, "%s waits: %s; it is tried again", name, error)
            return
        text = f"{name} fails: {error}"
        self.set(name, text)
        logged = self._logged.setdefault(name, set())
        if text not in logged and len(logged) < MOST_LOGGED:
            logged.add(text)
            logger.warning("%s; it is tried again, and until then this worker is not ready", text)

    def worked(self, name: str) -> None:
        """A try succeeded: log it if the last one did not."""
        if name in self._texts:
            self.clear(name)
            self._logged.pop(name, None)
            logger.warning("%s works again", name)

    def tried(
        self, name: str, act: Callable[[], object], is_ending: Callable[[], bool] = lambda: False
    ) -> bool:
        """Call this; False: it failed, which is logged and set as `failed` says.

        An unexpected error is logged with its traceback each time, unless `is_ending`.
        """
        try:
            act()
        except KiqbridgeError as error:
            self.failed(name, error)
            return False
        except Exception as error:
            if not is_ending():
                logger.exception("%s failed; it is tried again", name)
                self.set(
                    name, f"{name} fails with {type(error).__name__}; its log has the traceback"
                )
            return False
        self.worked(name)
        return True


OF_PROCESS: Final = Troubles()
"""Of what belongs to the process itself, such as the locks of limiters that it holds."""


def fields_of(texts: Sequence[str]) -> dict[str, str]:
    """For the hash of a process: a JSON list; empty if there are none."""
    return {"kb_troubles": json.dumps(texts, separators=(",", ":")) if texts else ""}
