"""Who is notified of an alert, and in which form: a webhook, Slack, Teams, PagerDuty, a topic of SNS, a job.

An alert names queues, classes and processes, whose names any client that may enqueue can choose. So what renders markup gets the
text in a form in which nothing of it is markup. PagerDuty's summary and a mail of SNS are plain text; a webhook and a
job get the text as it is, in JSON.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from kiqbridge.client.client import Client
from kiqbridge.features.alerts.setting import AlertReceiver
from kiqbridge.features.alerts.state import Alert
from kiqbridge.features.missed_ticks.hooks import SnsTopic, Webhook
from kiqbridge.wire.amounts import instant_text, span_text

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
