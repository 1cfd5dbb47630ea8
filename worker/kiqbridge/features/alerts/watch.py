"""The thread that looks for alerts, while its process leads the fleet.

1. Each 10 s the facts of the page Now are read and judged by the limits of the rules.
2. A rule that has found something for as long as its `for`, and is not muted, begins an alert. It is written to
   `kb:alerts` before anybody is notified, so that another leader goes on with it.
3. Each receiver is notified of the begin, and of the end if it has got the begin. One that does not answer is tried
   again after growing pauses, by this thread alone: jobs, polls and beats never wait for it.
4. An alert that is over, and of which all were notified, is deleted.

A process that dies between the sending and its note has the next leader send it again.

Who is notified of an alert, and in which form: a webhook, Slack, Teams, PagerDuty, a topic of SNS, a job.

An alert names queues, classes and processes, whose names any client that may enqueue can choose. So what renders markup gets the
text in a form in which nothing of it is markup. PagerDuty's summary and a mail of SNS are plain text; a webhook and a
job get the text as it is, in JSON.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.api.facts import fetch_facts
from kiqbridge.api.operator import Operator
from kiqbridge.api.verdict import Fact, Limits
from kiqbridge.api.verdict_rules import judge
from kiqbridge.client.client import Client
from kiqbridge.errors import KiqbridgeError
from kiqbridge.features.alerts.setting import LIMIT_OF, AlertReceiver, AlertRule, Alerts
from kiqbridge.features.alerts.state import Alert, AlertState, fetch_alerts
from kiqbridge.features.missed_ticks.hooks import HookFailed, SnsTopic, Webhook
from kiqbridge.runtime.kinds import kind_of
from kiqbridge.runtime.role import Role, Until
from kiqbridge.wire.amounts import instant_text, span_text

if TYPE_CHECKING:
    from kiqbridge.engine.parts import EngineParts


PAGERDUTY: Final = "https://events.pagerduty.com/v2/enqueue"
_CARD: Final = {
    "type": "AdaptiveCard",
    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
    "version": "1.4",
}

Send = Callable[[Alert], object]


def notification_of(alert: Alert) -> dict[str, Any]:
    """What a webhook, SNS and a job get."""
    return {
        "event": "alert_begun" if alert.ended is None else "alert_ended",
        "rule": alert.rule,
        "severity": alert.severity,
        "text": _text(alert),
        "do": alert.do,
        "since": instant_text(alert.since),
        "ended": None if alert.ended is None else instant_text(alert.ended),
    }


def name_of(receiver: AlertReceiver) -> str:
    """A name under which it is noted what it got; does not show an address."""
    digest = hashlib.sha256(receiver.target.encode()).hexdigest()[:12]
    return f"{receiver.kind}:{digest}"


def sender_of(receiver: AlertReceiver, client: Client, aws: Mapping[str, str]) -> Send:
    """What notifies one receiver.

    Args:
        receiver: of the alert.
        client: pushes jobs.
        aws: variables of the environment that are AWS's.
    """
    target = receiver.target
    if receiver.kind == "job":
        return lambda alert: client.push_once(
            [{"class": target, "args": [notification_of(alert)], "queue": receiver.queue}],
            [f"alert {alert.rule} {alert.since} {alert.ended}"],
        )
    if receiver.kind == "sns":
        topic = SnsTopic(target, aws)
        return lambda alert: topic({**notification_of(alert), "subject": _text(alert)})
    hook = Webhook(PAGERDUTY if receiver.kind == "pagerduty" else target)
    source = client.keys.prefix or "kiqbridge"
    form: Callable[[Alert], dict[str, Any]] = {
        "webhook": notification_of,
        "slack": lambda alert: {"text": _escaped_for_slack(_text(alert)), "mrkdwn": False},
        "teams": _card,
        "pagerduty": lambda alert: _event(alert, target, source),
    }[receiver.kind]
    return lambda alert: hook(form(alert))


def _text(alert: Alert) -> str:
    if alert.ended is not None:
        return (
            f"Over after {span_text(alert.ended - alert.since)}: {alert.rule}. It was: {alert.what}"
        )
    return f"{alert.severity.capitalize()}: {alert.what} {alert.do}"


def _escaped_for_slack(text: str) -> str:
    """As Slack shows it: its `<!channel>` and `<address|label>` mean nothing else when these three are escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _card(alert: Alert) -> dict[str, Any]:
    """As a workflow of Teams takes it ("Post to a channel when a webhook request is received").

    Text of a TextBlock is Markdown, with links of any label; that of a TextRun is shown as it stands.
    """
    body = [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": _text(alert)}]}]
    content = {**_CARD, "body": body}
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": content}]}


def _event(alert: Alert, key: str, source: str) -> dict[str, Any]:
    """An event of PagerDuty's Events API v2: one incident for a rule, which its end resolves."""
    return {
        "routing_key": key,
        "event_action": "trigger" if alert.ended is None else "resolve",
        "dedup_key": f"{source}/{alert.rule}",
        "payload": {
            "summary": _text(alert)[:1024],
            "source": source,
            "severity": alert.severity,
            "custom_details": notification_of(alert),
        },
    }


logger = logging.getLogger(__name__)

LOOK_S: Final = 10.0
FIRST_PAUSE_S: Final = 10.0
LONGEST_PAUSE_S: Final = 300.0
GIVE_UP_S: Final = 86_400.0
"""So long a receiver that does not answer is tried after the alert was over."""
_NAMED: Final = 3
_STOP_S: Final = 2.0
"""So long the end of the process waits for what is being sent."""


def roles(parts: "EngineParts") -> Iterable[Role]:
    """The thread of a worker; a process that is quiet does not lead, so that it ends then."""
    if parts.config.alerts is not None:
        yield AlertWatch(
            parts.config.alerts,
            Operator(client=parts.client, by=parts.identity),
            leads=lambda: parts.poller.leads,
            aws=os.environ,
        )


class AlertWatch(Role):
    """Looks for alerts on a thread of its own, and notifies of them.

    Its thread does not count as stuck: a receiver whose name is being resolved may hold it up for a minute, and no
    worker ends itself for that.

    Args:
        alerts: rules and receivers.
        operator: whose Redis.
        leads: whether this process is the one that looks.
        aws: variables of the environment that are AWS's.
        look_s: seconds between two looks.
        monotonic: seconds, for the time that a rule needs, and for pauses.
    """

    def __init__(
        self,
        alerts: Alerts,
        operator: Operator,
        *,
        leads: Callable[[], bool],
        aws: Mapping[str, str],
        look_s: float = LOOK_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("alerts", self._watch, until=Until.QUIET, join_s=_STOP_S)
        self._rules = alerts.rules
        limits = {LIMIT_OF[rule.name]: rule.over for rule in alerts.rules if rule.over is not None}
        self._limits = replace(Limits(), **limits)  # type: ignore[arg-type] # numbers, by the table
        self._senders: dict[str, Send] = {
            name_of(each): sender_of(each, operator.client, aws) for each in alerts.to
        }
        self._operator = operator
        self._leads = leads
        self._look_s = look_s
        self._monotonic = monotonic
        self._since: dict[str, float] = {}  # rule → when it began to find something
        self._pauses: dict[tuple[str, str, bool], tuple[float, float]] = {}  # … → next try, pause
        self._failure = ""

    def look(self) -> None:
        """Look once, and notify.

        Raises:
            KiqbridgeError: Redis did not answer; the next look goes on.
        """
        if not self._leads():
            self._since.clear()
            return
        verdict = judge(replace(fetch_facts(self._operator), limits=self._limits))
        state = fetch_alerts(self._operator)
        self._publish_rules(state)
        for rule in self._rules:
            facts = [fact for fact in verdict.facts if fact.kind == rule.name]
            alert = self._judged(rule, facts, state)
            if alert is not None:
                self._notify(alert, state.at)
        for alert in state.alerts.values():
            if alert.rule not in {rule.name for rule in self._rules}:
                self._delete(alert)  # of a rule that alerts no more

    def _watch(self) -> None:
        while not self._stopping.wait(self._look_s):
            try:
                self.look()
                self._failure = ""
            except Exception as error:
                kind = kind_of(error)
                if kind != self._failure:  # once, not at each look
                    self._failure = kind
                    is_known = isinstance(error, KiqbridgeError)
                    logger.warning("alerts: %s; looked at again", error, exc_info=not is_known)

    def _judged(self, rule: AlertRule, facts: Sequence[Fact], state: AlertState) -> Alert | None:
        """The rule's alert, if it has one: as it was, begun now, or over now."""
        alert, now = state.alerts.get(rule.name), self._monotonic()
        if not facts:
            self._since.pop(rule.name, None)
            if alert is not None and alert.ended is None:
                alert = self._write(replace(alert, ended=state.at))
            return alert
        lasted_s = now - self._since.setdefault(rule.name, now)
        has_begun = alert is not None and alert.ended is None
        if has_begun or lasted_s < rule.for_s or rule.name in state.muted:
            return alert
        # In the place of one that is over, too, of whose end a receiver that does not answer was not notified.
        self._pauses = {key: pause for key, pause in self._pauses.items() if key[0] != rule.name}
        what = " ".join(fact.what for fact in facts[:_NAMED])
        more = f" And {len(facts) - _NAMED} more." if len(facts) > _NAMED else ""
        logger.warning("alert %s: %s%s", rule.name, what, more)
        return self._write(
            Alert(
                rule=rule.name,
                since=state.at,
                severity=facts[0].severity,
                what=what + more,
                do=facts[0].do,
            )
        )

    def _notify(self, alert: Alert, now: float) -> None:
        """Notify who has not been, and is not in a pause; delete what is over and done."""
        is_end = alert.ended is not None
        for name, send in self._senders.items():
            if name in (alert.notified_of_end if is_end else alert.notified) or (
                is_end and name not in alert.notified
            ):
                continue
            if not self._is_sent(alert, name, send):
                continue
            if is_end:
                alert = self._write(replace(alert, notified_of_end=(*alert.notified_of_end, name)))
            else:
                alert = self._write(replace(alert, notified=(*alert.notified, name)))
        if alert.ended is None:
            return
        waiting = (set(alert.notified) & set(self._senders)) - set(alert.notified_of_end)
        if not waiting or now - alert.ended > GIVE_UP_S:
            logger.warning("alert %s is over", alert.rule)
            self._delete(alert)

    def _is_sent(self, alert: Alert, name: str, send: Send) -> bool:
        """Whether nothing is left to be sent to this receiver."""
        key = (alert.rule, name, alert.ended is not None)
        next_at, pause_s = self._pauses.get(key, (0.0, FIRST_PAUSE_S))
        if self._stopping.is_set() or self._monotonic() < next_at:
            return False
        try:
            send(alert)
        except Exception as error:
            if isinstance(error, HookFailed) and error.is_final:
                logger.error("alert %s: %s; it is not sent there again", alert.rule, error)  # noqa: TRY400 - no address
                return True
            is_known = isinstance(error, KiqbridgeError)
            logger.warning(
                "alert %s: %s; tried again in %.0f s",
                alert.rule,
                error,
                pause_s,
                exc_info=not is_known,
            )
            self._pauses[key] = self._monotonic() + pause_s, min(2 * pause_s, LONGEST_PAUSE_S)
            return False
        self._pauses.pop(key, None)
        return True

    def _publish_rules(self, state: AlertState) -> None:
        rules = {rule.name: {"over": rule.over, "for_s": rule.for_s} for rule in self._rules}
        if rules != state.rules:
            self._operator.pool.call("HSET", self._operator.keys.alerts, "rules", json.dumps(rules))

    def _write(self, alert: Alert) -> Alert:
        self._operator.pool.call(
            "HSET", self._operator.keys.alerts, f"alert {alert.rule}", alert.text()
        )
        return alert

    def _delete(self, alert: Alert) -> None:
        self._operator.pool.call("HDEL", self._operator.keys.alerts, f"alert {alert.rule}")
