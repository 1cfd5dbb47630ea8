"""What the parent of a child that runs a suspect does about it, without ever parsing it.

A text may be what kills: as objects it takes thirty times its bytes. So the child (suspect_run.py) parses it,
runs it, decides what becomes of it and builds the text that is kept. Here an answer becomes a `Settlement`;
and for a child that died, its job becomes a dead one by its bytes alone (raw_job.py).
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from kiqbridge.client import rails
from kiqbridge.client.registry import Registry
from kiqbridge.client.server import Server
from kiqbridge.engine.settle.ending import Settlement, Target, dead_unread
from kiqbridge.engine.settle.error_report import Failure
from kiqbridge.engine.settle.metrics import Metrics
from kiqbridge.engine.settle.retry import RetryPolicy
from kiqbridge.errors import ProcessDied
from kiqbridge.runtime import user_code
from kiqbridge.runtime.clock import wall_now
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.effects import Effect
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.raw_job import outline

logger = logging.getLogger(__name__)

SHORT_BYTES = 100_000
"""Bytes up to which a text is parsed here too, for the handlers: as objects it has a few MB at most."""


@dataclass(slots=True, eq=False, kw_only=True)
class SuspectRunner:
    """Orders for children, and what becomes of their answers; one for each capsule.

    Attributes:
        keys: the namespace.
        capsule: name of the capsule whose middleware goes around the job.
        policy: of failures.
        server: whose error and death handlers are called here.
        registry: the declared jobs.
        metrics: measures each execution, if given.
        paused: names of the classes that are paused now.
    """

    keys: Keys
    capsule: str
    policy: Callable[[], RetryPolicy]
    server: Server
    registry: Registry
    metrics: Metrics | None = None
    paused: Callable[[], frozenset[str]] = frozenset

    def order(self, queue: str, tid: str, timed_out_s: float | None = None) -> dict[str, Any]:
        """What the child gets beside the text; with `timed_out_s` it only settles that time-out."""
        policy = self.policy()
        return {
            "queue": queue,
            "tid": tid,
            "capsule": self.capsule,
            "max_retries": policy.max_retries,
            "profile": policy.profile,
            "paused": sorted(self.paused()),
            "timed_out_s": timed_out_s,
        }

    def settlement(self, answer: Mapping[str, Any], kept: bytes, text: bytes) -> Settlement | None:
        """What a child's answer asks for; None: the job succeeded. `kept` is the text that came along."""
        if self.metrics is not None:
            for name, milliseconds, failed in answer["measured"]:
                self.metrics.record(name, milliseconds, failed)
        settled = answer["settled"]
        if settled is None:
            return None
        raised = answer["raised"]
        return Settlement(
            target=Target(settled["target"]),
            score=settled["score"],
            text=kept,
            counted=settled["counted"],
            queue=settled["queue"],
            failed=settled["failed"],
            effects=[Effect(*each) for each in settled["effects"]],
            notify=raised and (lambda: self._notify(raised, text, kept)),
        )

    def condemned(self, text: bytes, queue: str, died: ProcessDied) -> Settlement:
        """The dead entry of a job that killed its child, whatever its options say of retries.

        Somebody must see what it did.
        """

        def notify() -> None:
            payload = shown_payload(kept)
            performs = rails.find(payload, self.registry)
            definition = rails.rules_of(payload, performs, self.registry)
            if definition is None:  # of a long text `args` are not known here
                definition = self.registry.find(str(payload.get("wrapped")))
            exhausted = definition.handling.retries_exhausted if definition else None
            if exhausted is not None:
                _call(exhausted, payload, died)
            for handler in self.server.death_handlers:
                _call(handler, payload, died)
            context = {"context": "a job raised an error", "job": shown_payload(text)}
            for error_handler in self.server.error_handlers:
                _call(error_handler, died, context)

        condemned = dead_unread(
            self.keys,
            text,
            died,
            queue=queue,
            now=wall_now(),
            profile=self.policy().profile,
            is_job=True,
            notify=notify,
        )
        kept = condemned.text
        return condemned

    def _notify(self, raised: Mapping[str, Any], text: bytes, kept: bytes) -> None:
        """Call the handlers as `JobRunner` would, with what stands for the error."""
        error = Failure(**raised["failure"]).stand_in()
        if raised["died"]:
            for handler in self.server.death_handlers:
                _call(handler, shown_payload(kept), error)
        shown = {"jobstr": text} if raised["unread"] else {"job": shown_payload(text)}
        for error_handler in self.server.error_handlers:
            _call(error_handler, error, {"context": raised["context"], **shown})


def shown_payload(text: bytes) -> dict[str, Any]:
    """A job as handlers get it. Of a long one only its outermost texts: not its `args`."""
    if len(text) <= SHORT_BYTES:
        payload = _parsed(text)
        return payload if isinstance(payload, dict) else {}
    found = outline(text)
    strings = found.strings if found else {}
    return {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in strings.items()
        if len(value) <= SHORT_BYTES
    }


def _parsed(text: bytes) -> object:
    try:
        return json_text.loads(text)
    except json_text.MalformedJSON:
        return None


def _call(handler: Callable[..., object], *args: object) -> None:
    user_code.call(handler, *args, log=logger, failed="a handler failed")
