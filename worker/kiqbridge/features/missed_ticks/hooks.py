"""Who is notified of ticks that did not come: functions of the user, a webhook, a topic of SNS.

`MissedTickHooks.put` returns at once: a thread of its own sends, and tries again for a short time. What cannot
be sent is logged; the tick itself stays in `kb:missed`. The address of a webhook may be a secret: no message
holds more of it than its host.
"""

import http.client
import json
import logging
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from kiqbridge.config.credentials.aws_request import endpoint, signed
from kiqbridge.config.credentials.sigv4 import Keychain
from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime import user_code
from kiqbridge.runtime.direct_opener import direct_opener
from kiqbridge.runtime.role import LazyRole
from kiqbridge.schedule.missed import MissedTick

if TYPE_CHECKING:
    from kiqbridge.engine.parts import EngineParts  # which the functions have not

logger = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0
"""Seconds that one attempt may take."""

PAUSES_S: Final = (1.0, 5.0, 25.0)
"""Seconds between the attempts."""

MOST_WAITING: Final = 100
"""Notifications that wait to be sent; further ones are logged and dropped."""

MOST_TICKS: Final = 100
"""Ticks that one notification lists, the newest ones."""

_SUBJECT: Final = 99
"""Characters of the subject of a message in SNS; 100 are too many."""

_ARN_PARTS: Final = 6

Send = Callable[[Mapping[str, Any]], None]
Handler = Callable[[MissedTick], object]


class HookFailed(KiqbridgeError):  # noqa: N818 - reads as what happened
    """A notification was not taken.

    Attributes:
        is_final: it would not be taken later either.
    """

    def __init__(self, message: str, *, is_final: bool) -> None:
        super().__init__(message)
        self.is_final = is_final


class Webhook:
    """Sends a notification as JSON by POST.

    Args:
        url: the address, which may be a secret.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._opener = direct_opener()

    def __repr__(self) -> str:
        return f"Webhook({urlsplit(self._url).hostname})"

    def __call__(self, notification: Mapping[str, Any]) -> None:
        """Send it once.

        Raises:
            HookFailed: it was not taken.
        """
        headers = {"content-type": "application/json", "user-agent": "kiqbridge"}
        request = urllib.request.Request(  # noqa: S310 - the setting allows https, and http to this machine
            self._url, json.dumps(notification).encode(), headers, method="POST"
        )
        _send(self._opener, request, f"webhook at {urlsplit(self._url).hostname}")


class SnsTopic:
    """Publishes a notification to a topic of SNS, signed here, without boto3.

    Args:
        arn: of the topic; its region is there.
        aws: the variables of the environment that are AWS's.
    """

    def __init__(self, arn: str, aws: Mapping[str, str]) -> None:
        self._arn = arn
        self._aws = aws
        self._keychain = Keychain(aws)

    def __repr__(self) -> str:
        return f"SnsTopic({self._arn})"

    def __call__(self, notification: Mapping[str, Any]) -> None:
        """Publish it once.

        Raises:
            HookFailed: it was not taken.
        """
        parts = self._arn.split(":")
        region = parts[3] if len(parts) == _ARN_PARTS else ""
        try:
            url = endpoint("sns", region, self._aws)
            keys = self._keychain.keys()
        except KiqbridgeError as error:
            raise HookFailed(f"{self._arn}: {error}", is_final=False) from error
        # Printable ASCII on one line, as SNS takes it.
        text = notification.get("subject") or f"Missed tick: {notification['text']}"
        form = {
            "Action": "Publish",
            "Version": "2010-03-31",
            "TopicArn": self._arn,
            "Subject": "".join(each if " " <= each <= "~" else "?" for each in text)[:_SUBJECT],
            "Message": json.dumps(notification, indent=1),
        }
        headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
        body = urlencode(form).encode()
        request = signed(url, body, headers, service="sns", region=region, keys=keys)
        _send(direct_opener(self._aws), request, f"SNS topic {self._arn}")


class MissedTickHooks:
    """Notifies of missed ticks on a thread of its own, which starts with the first one.

    Args:
        sends: webhook and topic, those that are set.
        handlers: functions of the user, called with each tick.
        by: who notifies, such as `worker:IDENTITY`.
        pauses_s: seconds between attempts.
    """

    def __init__(
        self,
        sends: Sequence[Send] = (),
        handlers: Sequence[Handler] = (),
        *,
        by: str = "",
        pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:
        self._sends = tuple(sends)
        self._handlers = handlers
        self._by = by
        self._pauses_s = pauses_s
        self._waiting: queue.Queue[Sequence[MissedTick]] = queue.Queue(MOST_WAITING)
        self._stopping = threading.Event()
        self._thread = LazyRole(
            "missed ticks", self._send_all, without="missed ticks are not reported"
        )

    def put(self, ticks: Sequence[MissedTick]) -> None:
        """Notify of these, soon; returns at once."""
        if not (self._sends or self._handlers):
            return
        try:
            self._waiting.put_nowait(ticks)
        except queue.Full:
            logger.error(  # noqa: TRY400 - the error itself may hold the address
                "missed ticks: %d notifications wait already, so this one is dropped: %s; look at the lines before",
                MOST_WAITING,
                ", ".join(f"{each.schedule} {each.instant}" for each in ticks[-MOST_TICKS:]),
            )
        self._thread.wake()

    def send(self, ticks: Sequence[MissedTick]) -> None:
        """Notify of these now, and wait for it; never raises."""
        for handler in self._handlers:
            for tick in ticks:
                user_code.call(handler, tick, log=logger, failed="a handler of missed ticks failed")
        if self._sends:
            notification = {
                "event": "missed_ticks",
                "text": _text(ticks),
                "by": self._by,
                "count": len(ticks),
                "ticks": [
                    {
                        "schedule": each.schedule,
                        "at": each.instant,
                        "late_s": round(each.late_s, 3),
                        "policy": each.policy,
                        "enqueued": each.enqueued,
                        **({"reason": each.reason} if each.reason else {}),
                    }
                    for each in ticks[-MOST_TICKS:]
                ],
            }
            for send in self._sends:
                self._send(send, notification)

    def stop(self, within_s: float = TIMEOUT_S) -> None:
        """Try no more again, and wait a little for what is being sent."""
        self._stopping.set()
        self._thread.stop(within_s)

    def _send_all(self) -> None:
        while not (self._stopping.is_set() and self._waiting.empty()):
            try:
                ticks = self._waiting.get(timeout=1.0)
            except queue.Empty:
                continue
            self.send(ticks)

    def _send(self, send: Send, notification: Mapping[str, Any]) -> None:
        for pause_s in (*self._pauses_s, None):
            try:
                send(notification)
            except HookFailed as error:
                if pause_s is not None and not error.is_final and not self._stopping.wait(pause_s):
                    continue
                logger.error(  # noqa: TRY400 - the error itself may hold the address
                    "missed ticks: %s; not reported: %s", error, notification["text"]
                )
            except Exception:
                logger.exception("missed ticks: not reported: %s", notification["text"])
            return


def hooks_of(
    *,
    webhook: str,
    sns_topic_arn: str,
    aws: Mapping[str, str],
    by: str,
    handlers: Sequence[Handler] = (),
    pauses_s: Sequence[float] = PAUSES_S,
) -> MissedTickHooks:
    """Those that the settings name; "" = none."""
    sends: list[Send] = []
    if webhook:
        sends.append(Webhook(webhook))
    if sns_topic_arn:
        sends.append(SnsTopic(sns_topic_arn, aws))
    return MissedTickHooks(sends, handlers, by=by, pauses_s=pauses_s)


def of_worker(parts: "EngineParts") -> list[MissedTickHooks]:
    """Those of a worker: what its settings name, and the handlers of its application."""
    config = parts.config
    return [
        hooks_of(
            webhook=config.missed_tick_webhook,
            sns_topic_arn=config.missed_tick_sns_topic_arn,
            aws=config.aws,
            by=f"worker:{parts.identity}",
            handlers=parts.server.missed_tick_handlers,
        )
    ]


def _text(ticks: Sequence[MissedTick]) -> str:
    newest = ticks[-1]
    text = f"{newest.schedule} did not fire at {newest.instant}"
    return text if len(ticks) == 1 else f"{text}, and {len(ticks) - 1} more ticks did not come"


def _send(
    opener: urllib.request.OpenerDirector, request: urllib.request.Request, where: str
) -> None:
    try:
        with opener.open(request, timeout=TIMEOUT_S):
            return
    except urllib.error.HTTPError as error:
        with error:
            is_final = error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code not in (
                HTTPStatus.REQUEST_TIMEOUT,
                HTTPStatus.TOO_MANY_REQUESTS,
            )
            raise HookFailed(f"{where} answered {error.code}", is_final=is_final) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        # Not the error itself: it may hold the address.
        reason = getattr(error, "reason", None)
        known = reason if isinstance(reason, OSError) else error
        text = known.strerror if isinstance(known, OSError) and known.strerror else ""
        raise HookFailed(
            f"{where} cannot be reached: {text or type(known).__name__}", is_final=False
        ) from None
