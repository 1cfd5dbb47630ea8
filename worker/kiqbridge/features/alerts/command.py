"""`kiqbridge alerts`: list the rules that alert, the alerts that have begun, and the muted rules.

The settings name rules and receivers (`alerts`, docs/reference/doctor.md); the leading worker checks them and notifies.
"""

import argparse
import os
import threading
from dataclasses import asdict
from typing import Any

from kiqbridge.api import open_operator
from kiqbridge.api.audit import record_audit
from kiqbridge.commands import arguments
from kiqbridge.commands.output import answer, answer_table
from kiqbridge.errors import ConfigError
from kiqbridge.features.alerts.state import AlertState, fetch_alerts, mute_alert, unmute_alert
from kiqbridge.wire.amounts import instant_text, span_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs list, mute, unmute and watch."""
    verbs = arguments.add_verbs(parser)
    text = "the rules that alert, and the state of each"
    listing = arguments.add_verb(verbs, "list", _list, text, "kiqbridge alerts list --json")
    text = "mute a rule for a while; an alert that has begun still ends"
    mute = arguments.add_verb(verbs, "mute", _mute, text, "kiqbridge alerts mute retries --for 2h")
    unmute = arguments.add_verb(
        verbs, "unmute", _unmute, "end the mute of a rule", "kiqbridge alerts unmute retries"
    )
    for verb in (mute, unmute):
        arguments.add(verb, "RULE")
    arguments.add(mute, "--for DURATION", "90, 90s, 15m, 2h or 1d", required=True)
    for verb in (listing, mute, unmute):
        arguments.add_json(verb)
    text = "check the alerts while no worker does, for the rule no-worker; run it beside the page"
    watch = arguments.add_verb(verbs, "watch", _watch, text, "kiqbridge alerts watch")
    arguments.add(watch, "-C --config PATH", "YAML file, as of the worker")


def _list(options: argparse.Namespace) -> int:
    state = fetch_alerts(open_operator(via="cli"))
    rows = [
        (name, _limit(rule), _state(name, state), alert.what if alert else "")
        for name, rule in state.rules.items()
        for alert in [state.alerts.get(name)]
    ]
    document = {
        "rules": state.rules,
        "alerts": {name: asdict(each) for name, each in state.alerts.items()},
        "muted": state.muted,
    }
    none = "no rule alerts: name some in the settings of the workers (alerts, docs/reference/doctor.md)"
    return answer_table(options, document, ("rule", "limit", "state", "what"), rows, none=none)


def _limit(rule: Any) -> str:
    over = "" if rule["over"] is None else f"over {rule['over']:g}, "
    return f"{over}for {span_text(rule['for_s'])}"


def _state(name: str, state: AlertState) -> str:
    alert, until = state.alerts.get(name), state.muted.get(name)
    muted = f"muted until {instant_text(until)}" if until else ""
    if alert is None:
        return muted or "quiet"
    begun = f"since {instant_text(alert.since)}" if alert.ended is None else "over"
    return f"{begun}, {muted}" if muted else begun


def _mute(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    until = mute_alert(options.rule, options.for_, operator=operator)
    record_audit(operator, "mute", f"alert:{options.rule}")
    line = f"muted {options.rule} until {instant_text(until)}"
    return answer(options, {"rule": options.rule, "until": until}, [line])


def _unmute(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    was_muted = unmute_alert(options.rule, operator=operator)
    if was_muted:
        record_audit(operator, "unmute", f"alert:{options.rule}")
    line = f"unmuted {options.rule}" if was_muted else f"{options.rule} was not muted"
    return answer(options, {"rule": options.rule, "was_muted": was_muted}, [line])


def _watch(options: argparse.Namespace) -> int:
    from kiqbridge.commands.worker_command import load_config  # noqa: PLC0415 - this verb alone
    from kiqbridge.features.alerts.watch import AlertWatch  # noqa: PLC0415 - as above

    config, _ = load_config(options, os.environ)
    if config.alerts is None:
        raise ConfigError(
            "alerts: the settings name none; write rules and receivers into the file that -C names (docs/reference/doctor.md)"
        )
    operator = open_operator(via="cli")
    watch = AlertWatch(
        config.alerts,
        operator,
        leads=lambda: not operator.pool.call("EXISTS", operator.keys.poller),
        aws=os.environ,
    )
    watch.start()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        watch.stop()
    return 0
