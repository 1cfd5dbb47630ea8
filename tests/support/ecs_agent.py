"""ECS' container agent on loopback, as far as task scale-in protection goes."""

import http.server
import json
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

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
        agent = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                agent._answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def uri(self) -> str:
        """What ECS puts into ECS_AGENT_URI."""
        return f"http://127.0.0.1:{self._server.server_port}{PATH.partition('/task-')[0]}"

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
        if not self._closed.is_set():
            self._closed.set()
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
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
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text.encode())


def _protection(is_enabled: bool) -> dict[str, Any]:
    return {
        "protection": {
            "ExpirationDate": "2026-10-06T02:29:16Z" if is_enabled else None,
            "ProtectionEnabled": is_enabled,
            "TaskArn": "arn:aws:ecs:eu-west-1:111122223333:task/cluster/1234567890abcdef0",
        }
    }
