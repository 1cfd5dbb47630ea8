"""`alerts:` of the settings file: which rules of `kiqbridge doctor` send alerts, and who receives them.

alerts:
  rules:
    queue-latency: {over: 300, for: 2m}
    missed-ticks: {for: 0}
    deaths:
  to:
    - slack: https://hooks.slack.com/services/…
    - job: NotifyOps
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal, get_args

from kiqbridge.api.rulebook import RULEBOOK
from kiqbridge.config.worker_parsers import SAFE_ADDRESS, is_safe_address
from kiqbridge.errors import ConfigError, did_you_mean
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.amounts import span_of

FOR_S: Final = 60.0
"""Seconds for which something must be wrong, if the rule does not say."""

LIMIT_OF: Final = {each.id: each.limit for each in RULEBOOK}
"""The rules, and the field of `api.Limits` that their `over` sets; empty: they have none."""

Kind = Literal["webhook", "slack", "teams", "pagerduty", "sns", "job"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A rule that alerts.

    Attributes:
        name: id of the doctor's rule.
        over: its limit, in the unit of the rule: seconds, jobs, or a share from 0 to 1; None: the doctor's own.
        for_s: seconds for which something must be wrong.
    """

    name: str
    over: float | None = None
    for_s: float = FOR_S


@dataclass(frozen=True, slots=True)
class AlertReceiver:
    """Who is notified; `target` is an address, a routing key, an ARN or the name of a job, and may be a secret."""

    kind: Kind
    target: str = field(repr=False)
    queue: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """What alerts, and who is notified."""

    rules: Sequence[AlertRule]
    to: Sequence[AlertReceiver]


def parse_alerts(value: Any, source: str, _name: str = "") -> Alerts | None:
    """Rules and receivers; in the environment as JSON. None: nothing alerts.

    Raises:
        ConfigError: a rule, a receiver or a member is not known, or has a value that cannot be.
    """
    where = f"alerts (from {source})"
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except ValueError as error:
            raise ConfigError(f"{where}: it is no JSON: {error}") from None
    if value is None:
        return None
    given = _mapping(value, where, "rules", "to")
    rules = _mapping(given.get("rules"), f"{where}: rules", *LIMIT_OF)
    receivers = given.get("to")
    if not rules or not isinstance(receivers, list) or not receivers:
        raise ConfigError(
            f"{where}: write at least one rule below rules, and one receiver in the list to; such as rules: "
            "{deaths: {for: 5m}} and to: [{job: NotifyOps}]"
        )
    return Alerts(
        rules=tuple(_rule(name, each, f"{where}: {name}") for name, each in rules.items()),
        to=tuple(_receiver(each, f"{where}: to") for each in receivers),
    )


def _mapping(value: Any, where: str, *known: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: this is no mapping; known are {', '.join(known)}")
    for key in map(str, value):
        if key not in known:
            raise ConfigError(
                # A line without the space behind its colon is a key that holds the address.
                f"{where}: {key.partition(':')[0]} is not known{did_you_mean(key, known)}; known are {', '.join(known)}"
            )
    return value


def _rule(name: str, value: Any, where: str) -> AlertRule:
    given = _mapping(value, where, "over", "for")
    over = given.get("over")
    if over is not None:
        if not LIMIT_OF[name]:
            raise ConfigError(f"{where}: this rule has no limit; leave out over")
        if isinstance(over, bool) or not isinstance(over, int | float) or over < 0:
            raise ConfigError(f"{where}: over: {over!r} is no number from 0 on")
    for_s = span_of(str(given.get("for", FOR_S)))
    if for_s is None:
        raise ConfigError(
            f"{where}: for: {given['for']!r} is no duration; write 90, 90s, 15m, 2h or 1d"
        )
    return AlertRule(name=name, over=over, for_s=for_s)


def _receiver(value: Any, where: str) -> AlertReceiver:
    kinds = get_args(Kind)
    given = _mapping(value, where, *kinds, "queue")
    named = [kind for kind in kinds if given.get(kind)]
    if (
        len(named) != 1
        or not isinstance(given[named[0]], str)
        or ("queue" in given and named != ["job"])
    ):
        raise ConfigError(
            f"{where}: each entry names one of {', '.join(kinds)} with a text; a job may have a queue as well"
        )
    kind: Kind = named[0]
    target = given[kind].strip()
    if kind in ("webhook", "slack", "teams") and not is_safe_address(target):
        # Not the address itself, which may be a secret.
        raise ConfigError(f"{where}: {kind} has no https address without a user; {SAFE_ADDRESS}")
    if kind == "sns" and not target.startswith("arn:"):
        raise ConfigError(f"{where}: sns: {target!r} is not the ARN of a topic")
    return AlertReceiver(kind, target, str(given.get("queue", "default")))
