"""ECS' container agent on loopback, as far as task scale-in protection goes."""

import json
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from support.http_endpoint import body_of, http_endpoint, reply

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.server import BaseHTTPRequestHandler

PATH = "/api/0123456789abcdef-1/task-protection/v1/state"


class EcsAgent:
    """Answers PUT as AWS documents it; as a context manager it ends with the block.

    Attributes:
        states: the bodies of the requests, in order.
        answers: (status, body) instead of the proper answer; None = the proper one.
        silent: while set, no request is answered.
        on_request: called amid each request.
    """

    def __init__(self) -> None:
        self.states: list[dict[str, Any]] = []
        self.answers: tuple[int, Any] | None = None
        self.silent = threading.Event()
        self.on_request: Callable[[], object] = lambda: None
        self._closed = threading.Event()
        self._endpoint = ExitStack()
        self._port = self._endpoint.enter_context(http_endpoint(self._answer))

    @property
    def uri(self) -> str:
        """What ECS puts into ECS_AGENT_URI."""
        return f"http://127.0.0.1:{self._port}{PATH.partition('/task-')[0]}"

    @property
    def is_protected(self) -> bool:
        """What the last request asked for."""
        return bool(self.states) and self.states[-1]["ProtectionEnabled"]

    def refuses(self, body: bytes) -> bool:
        """Whether this is no request as AWS documents it."""
        state = json.loads(body)
        minutes = state.get("ExpiresInMinutes", 120)
        return not isinstance(state.get("ProtectionEnabled"), bool) or not 1 <= minutes <= 2880

    def close(self) -> None:
        """Answer no more."""
        self._closed.set()
        self._endpoint.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, request: "BaseHTTPRequestHandler") -> None:
        body = body_of(request)
        if request.path != PATH or self.refuses(body):
            status, answer = 400, {"error": {"Code": "InvalidParameterException", "Message": "no"}}
        else:
            state = json.loads(body)
            self.states.append(state)
            self.on_request()
            status, answer = self.answers or (200, _protection(state["ProtectionEnabled"]))
        if self.silent.is_set():
            self._closed.wait()
            return
        text = answer if isinstance(answer, str) else json.dumps(answer)
        reply(request, status, text.encode(), Content_Type="application/json")


def _protection(is_enabled: bool) -> dict[str, Any]:
    return {
        "protection": {
            "ExpirationDate": "2026-10-06T02:29:16Z" if is_enabled else None,
            "ProtectionEnabled": is_enabled,
            "TaskArn": "arn:aws:ecs:eu-west-1:111122223333:task/cluster/1234567890abcdef0",
        }
    }
