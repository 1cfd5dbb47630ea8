"""AWS Step Functions on loopback, as far as task tokens go: tasks that wait, and what was sent for them."""

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from support.http_endpoint import body_of, http_endpoint, reply

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
        self._endpoint = ExitStack()
        self.port = self._endpoint.enter_context(http_endpoint(self._answer, port))

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
        self._endpoint.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(body_of(request))
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
        reply(request, status, text, Content_Type="application/x-amz-json-1.0")

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
