r"""What a job says about the consequences of its end, and the text in which its end waits to be applied.

A job under flow control carries the attribute `flow`, which every Sidekiq keeps as it is:

    {"class":"Bill","args":[7],"jid":"b4a5…","flow":{"lock":"Bill:9f86…","bid":"f3c1…"}}

Its members, each read by the effect of its name in `kiqbridge.engine.outbox`:

    lock, until   name of the lock that the jid owns, and "start" or "done": when it is freed (features/unique)
    take          seconds for which the job takes its lock when it begins; absent: its push took it
    bid           batch that the job counts for
    next          the next steps of a chain (features/batches/steps.py)
    result_ttl_s  seconds for which the return value is kept

Who settles such a job adds its end to `kb:flow:ends`, in the script that settles it, and a worker applies it
(kiqbridge.engine.outbox). The end of a job that only a state machine waits for has an empty `flow`, and `report`:

    {"flow":{"bid":"f3c1…"},"jid":"b4a5…","class":"Bill","outcome":"done","at":1700000000.5}
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast, get_args

from kiqbridge.runtime.records import dataclass
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import FLOW
from kiqbridge.wire.tick_mark import EndKind


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEnd:
    """How a job under flow control ended.

    Attributes:
        flow: the attribute `flow` of its payload; empty if it has none.
        jid, job_class, queue: of the job.
        outcome: how it ended.
        at: when, epoch seconds.
        error, message: class and message of its last error, or "".
        output: JSON text of what it returned; None: it was not done, or not asked for.
        encrypted: `output` is the text of an encrypted value (client/sealing.py).
        report: for Step Functions, if a task waits for it, or "".
    """

    flow: Mapping[str, Any]
    jid: str
    job_class: str
    outcome: EndKind
    at: float
    queue: str = ""
    error: str = ""
    message: str = ""
    output: str | None = None
    encrypted: bool = False
    report: str = field(default="", repr=False)

    def to_text(self) -> bytes:
        """As it is kept in `kb:flow:ends`."""
        found: dict[str, Any] = {
            FLOW: self.flow,
            "jid": self.jid,
            "class": self.job_class,
            "queue": self.queue,
            "outcome": self.outcome,
            "at": self.at,
        }
        given = {"error": self.error, "message": self.message, "report": self.report}
        found |= {name: value for name, value in given.items() if value}
        if self.output is not None:
            found["output"] = self.output
        if self.encrypted:
            found["encrypted"] = True
        return json_text.dumps(found)

    @classmethod
    def from_text(cls, text: bytes) -> "FlowEnd":
        """The counterpart of `to_text`.

        Raises:
            ValueError: it is no end.
        """
        read = json_text.loads(text)
        try:
            if read["outcome"] not in get_args(EndKind) or not isinstance(read[FLOW], dict):
                raise ValueError("its outcome or its mark is none")
            return cls(
                flow=read[FLOW],
                jid=str(read["jid"]),
                job_class=str(read["class"]),
                queue=str(read.get("queue", "")),
                outcome=cast("EndKind", read["outcome"]),
                at=float(read["at"]),
                error=str(read.get("error", "")),
                message=str(read.get("message", "")),
                output=read.get("output"),
                encrypted=read.get("encrypted") is True,
                report=str(read.get("report", "")),
            )
        except (KeyError, TypeError) as error:
            raise ValueError("it lacks what every end has") from error


def flow_of(payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The attribute `flow` of a job; None: it has none, or nothing that can be one."""
    flow = payload.get(FLOW)
    return flow if isinstance(flow, dict) and flow else None
