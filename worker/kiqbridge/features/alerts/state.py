"""The alerts of a fleet as they stand in Redis (`kb:alerts`): which have begun, which are muted, which rules there are.

The leader of the workers writes them (watch.py), operators mute them. Fields of the hash: `rules`, JSON of the
rules that alert; `alert RULE`, JSON of one that has begun; `mute RULE`, epoch seconds until which it is muted.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from kiqbridge.api.operator import Operator
from kiqbridge.errors import PayloadError, did_you_mean
from kiqbridge.store.pauses import server_time
from kiqbridge.store.replies import number_in
from kiqbridge.wire import json_text
from kiqbridge.wire.names import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert that has begun.

    Attributes:
        rule: id of the doctor's rule.
        since: when it began, epoch seconds.
        severity: `warning` or `critical`, when it began.
        what: sentences with the numbers, as they were then.
        do: what to do next.
        ended: when it was over, epoch seconds; None: it is not. It is kept until its receivers were notified.
        notified: the receivers that were notified of its begin.
        notified_of_end: those that were notified of its end.
    """

    rule: str
    since: float
    severity: str
    what: str
    do: str = ""
    ended: float | None = None
    notified: tuple[str, ...] = ()
    notified_of_end: tuple[str, ...] = ()

    @classmethod
    def parsed(cls, text: bytes) -> "Self | None":
        """Out of its JSON; None: somebody else has written it."""
        try:
            found = json.loads(text)
            return replace(
                cls(**found),
                notified=tuple(found["notified"]),
                notified_of_end=tuple(found["notified_of_end"]),
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def text(self) -> str:
        """Its JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """All of it.

    Attributes:
        at: epoch seconds, by the clock of Redis.
        rules: those that alert, with `over` and `for_s`, as the leader has published them.
        alerts: those that have begun, by rule.
        muted: rule → epoch seconds until which it is.
    """

    at: float
    rules: Mapping[str, Mapping[str, Any]]
    alerts: Mapping[str, Alert]
    muted: Mapping[str, float]


def fetch_alerts(operator: Operator) -> AlertState:
    """The state now.

    Raises:
        RedisUnavailable, RedisRefused: it was not read.
    """
    time, pairs = operator.pool.run(("TIME",), ("HGETALL", operator.keys.alerts))
    now = server_time(time)
    fields = {text_of(pairs[at]): pairs[at + 1] for at in range(0, len(pairs), 2)}
    begun = [Alert.parsed(text) for name, text in fields.items() if name.startswith("alert ")]
    return AlertState(
        at=now,
        rules=json_text.read_object(fields.get("rules", b"{}")),
        alerts={each.rule: each for each in begun if each is not None},
        muted={
            name.removeprefix("mute "): until
            for name, text in fields.items()
            if name.startswith("mute ") and (until := number_in(text)) > now
        },
    )


def shown(operator: Operator) -> tuple[str, AlertState]:
    """What the page Now shows; raises as `fetch_alerts`."""
    return "alerts.html", fetch_alerts(operator)


def mute_alert(rule: str, for_s: float, *, operator: Operator) -> float:
    """Have a rule begin no alert for so many seconds; returns until when. One that has begun still ends.

    Raises:
        PayloadError: no such rule alerts.
        RedisUnavailable: repeat it.
    """
    state = fetch_alerts(operator)
    if rule not in state.rules:
        known = ", ".join(state.rules) or "none, or no worker with alerts has led the fleet yet"
        raise PayloadError(
            f"rule: {rule} sends no alert{did_you_mean(rule, state.rules)}; rules that do: {known}"
        )
    until = state.at + for_s
    operator.pool.call("HSET", operator.keys.alerts, f"mute {rule}", until)
    return until


def unmute_alert(rule: str, *, operator: Operator) -> bool:
    """End it; whether the rule was muted."""
    was_muted = rule in fetch_alerts(operator).muted
    operator.pool.call("HDEL", operator.keys.alerts, f"mute {rule}")
    return was_muted
