"""AWS Step Functions on loopback, as far as task tokens go: tasks that wait, and what was sent for them."""

import http.server
import json
import threading
import time
from dataclasses import dataclass
from typing import Any, Self

NOBODY = "TaskTimedOut"
"""What the service answers once a task has its outcome, or has timed out."""


@dataclass
class Call:
    """One call: its name, such as SendTaskSuccess, and its parameters."""

    name: str
    parameters: dict[str, Any]


class StepFunctionsStandIn:
    """Answers the three calls as AWS documents them; as a context manager it ends with the block.

    Attributes:
        waiting: tokens of the tasks that wait.
        calls: all calls, those that were refused included.
        refuse: name of a call → (status, error code), instead of the proper answer.
        delay_s: seconds that each answer takes.
        lose_replies: while set, a call is carried out, and its connection is cut.
    """

    def __init__(self, *tokens: str, port: int = 0) -> None:
        self.waiting = set(tokens)
        self.calls: list[Call] = []
        self.refuse: dict[str, tuple[int, str]] = {}
        self.delay_s = 0.0
        self.lose_replies = False
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else 40 ms a call

            def do_POST(self) -> None:
                stand_in._answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._closed = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def env(self) -> dict[str, str]:
        """What lets boto3 find it."""
        return {
            "AWS_ENDPOINT_URL_SFN": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def named(self, name: str) -> list[Call]:
        """The calls of one name."""
        return [call for call in self.calls if call.name == name]

    def close(self) -> None:
        """Refuse connections from now on."""
        if not self._closed:
            self._closed = True
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        name = request.headers["X-Amz-Target"].removeprefix("AWSStepFunctions.")
        is_lost = self.lose_replies  # before the call can be seen: who has seen it may change this
        self.calls.append(Call(name, body))
        time.sleep(self.delay_s)
        status, code = self.refuse.get(name) or self._carry_out(name, body)
        if is_lost or not status:
            request.close_connection = True
            return
        # As AWS does: the message may quote what was sent.
        answer = {"__type": code, "message": f"about {body['taskToken']}"} if code else {}
        text = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/x-amz-json-1.0")
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    def _carry_out(self, name: str, body: dict[str, Any]) -> tuple[int, str]:
        """Status and error code; status 0 = the connection is cut."""
        token = body["taskToken"]
        if token not in self.waiting:
            return 400, NOBODY
        if name == "SendTaskSuccess":
            try:
                json.loads(body["output"])
            except ValueError:
                return 400, "InvalidOutput"
        if name != "SendTaskHeartbeat":
            self.waiting.discard(token)
        return 200, ""
