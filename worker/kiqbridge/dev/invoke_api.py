"""Lambda's API for invoking functions, on the loopback: other services of a team enqueue here as they do in AWS.

`POST /2015-03-31/functions/NAME/invocations`, which every SDK and `aws lambda invoke` send to their endpoint's address.
The name may be an ARN, or have a version or an alias behind it. Requests are read by threads, and the functions
invoked by the main thread, one event at a time. Any local process may invoke, and signatures are
not checked; a page in a browser may not.

Source of the forms: the API reference of Lambda, `Invoke`.
"""

import json
import queue
import re
import shlex
import socketserver
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from kiqbridge.dev.console import Console
from kiqbridge.dev.local_function import FunctionError, LocalFunctions
from kiqbridge.errors import ConfigError

HOST: Final = "127.0.0.1"
LARGEST: Final = {"RequestResponse": 6_291_456, "Event": 1_048_576, "DryRun": 6_291_456}
"""Invocation type → bytes of the payload that Lambda takes."""
_READ_AT_MOST: Final = 64 * 1024 * 1024
_PATH: Final = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")
_NAME: Final = re.compile(
    r"(?:arn:[a-z-]+:lambda:)?(?:[a-z]{2}[a-z-]*-\d:)?(?:\d{12}:)?(?:function:)?"
    r"(?P<name>[A-Za-z0-9_-]+)(?::(?P<qualifier>\$LATEST|[A-Za-z0-9_-]+))?"
)
_WITHOUT_BODY: Final = (HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT)
_POLL_S: Final = 0.1  # so long its end takes at most
_SHOWN: Final = 200
"""Characters of an answer in a line."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """What is answered to a request; `fault` is the name of an exception of the API."""

    status: int
    body: Any = None
    fault: str = ""
    has_failed: bool = False


def _fault(status: int, name: str, text: str) -> _Reply:
    kind = "Service" if status >= HTTPStatus.SERVICE_UNAVAILABLE else "User"
    return _Reply(status, {"Type": kind, "Message": text}, name)


_ENDING: Final = _fault(
    HTTPStatus.SERVICE_UNAVAILABLE, "ServiceException", "kiqbridge dev is ending"
)


class _Refused(Exception):  # noqa: N818 - it is answered
    """A request is answered with a fault."""

    def __init__(self, status: int, name: str, text: str) -> None:
        super().__init__(text)
        self.reply = _fault(status, name, text)


@dataclass(slots=True, kw_only=True)
class _Call:
    """A request that was understood."""

    name: str
    qualifier: str
    kind: str
    payload: bytes
    request_id: str
    reply: "Future[_Reply]" = field(default_factory=Future)


class InvokeApi:
    """Listens from its making on; `start` reads requests, `serve` performs them.

    Args:
        ports: the first that is not in use is taken; 0 = one that is free.
        functions: those of the template.
        console: shows each invocation.
        wake: called by another thread when an invocation waits for `serve`.

    Attributes:
        url: its address.

    Raises:
        ConfigError: nothing can listen on any of them.
    """

    def __init__(
        self,
        *,
        ports: Sequence[int],
        functions: LocalFunctions,
        console: Console,
        wake: Callable[[], None],
    ) -> None:
        self._functions = functions
        self._console = console
        self._wake = wake
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._is_ending = False
        self._server = self._listen(ports)
        self._reader = threading.Thread(
            target=self._server.serve_forever, args=[_POLL_S], name="invoke-api", daemon=True
        )
        self.url = f"http://{HOST}:{self._server.server_address[1]}"

    def _listen(self, ports: Sequence[int]) -> "_Server":
        *others, last = ports
        for port in others:
            with suppress(OSError):
                return _Server(port, self)
        try:
            return _Server(last, self)
        except OSError as error:
            raise ConfigError(
                f"dev: --invoke-port {last}: nothing can listen on {HOST}:{last}: {error.strerror}; choose "
                "another port, or leave it out"
            ) from error

    def start(self) -> None:
        """Read requests from now on."""
        self._reader.start()

    def stop(self) -> None:
        """Read no more; what waits is refused."""
        self._is_ending = True
        if self._reader.is_alive():
            self._server.shutdown()
        self._server.server_close()
        with suppress(queue.Empty):
            while True:
                _answer(self._calls.get_nowait(), _ENDING)

    def ask(self, call: _Call) -> _Reply:
        """Let the main thread perform a call, and wait for it."""
        self._calls.put(call)
        if self._is_ending:
            return _ENDING
        self._wake()
        return call.reply.result()

    def serve(self) -> None:
        """Perform what waits now; from the main thread."""
        for _ in range(self._calls.qsize()):
            self._perform(self._calls.get())

    def _perform(self, call: _Call) -> None:
        function = self._functions.find(call.name)
        if function is None:
            known = ", ".join(self._functions.made) or "none"
            text = (
                f"Function not found: {call.name}; functions of the template are named by their logical ids, "
                f"such as {known}"
            )
            return _answer(call, _fault(HTTPStatus.NOT_FOUND, "ResourceNotFoundException", text))
        if call.kind == "DryRun":
            return _answer(call, _Reply(HTTPStatus.NO_CONTENT))
        if call.kind == "Event":
            _answer(call, _Reply(HTTPStatus.ACCEPTED))
        try:
            found = function.invoke_json(call.payload, call.request_id, call.qualifier)
        except FunctionError as error:
            later = "; in AWS it is invoked twice more" if call.kind == "Event" else ""
            self._console.line("error", call.name, f"invoked, failed: {error.kind}: {error}{later}")
            body = {
                "errorMessage": str(error),
                "errorType": error.kind,
                "requestId": call.request_id,
            }
            return _answer(call, _Reply(HTTPStatus.OK, body, has_failed=True))
        shown = json.dumps(found, ensure_ascii=False)
        shown = f"{shown[:_SHOWN]}…" if len(shown) > _SHOWN else shown
        self._console.line("invoke", call.name, shown)
        return _answer(call, _Reply(HTTPStatus.OK, found))


def _answer(call: _Call, reply: _Reply) -> None:
    with suppress(InvalidStateError):  # an Event is answered before it is performed
        call.reply.set_result(reply)


class _Server(socketserver.ThreadingTCPServer):
    """A thread for each connection; none of them keeps the process."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, api: InvokeApi) -> None:
        self.api = api
        super().__init__((HOST, port), _Request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Be silent about a client that has gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Request(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = 60
    server: _Server

    def do_POST(self) -> None:
        """Read an invocation, and answer it."""
        request_id = str(uuid.uuid4())
        try:
            reply = self.server.api.ask(self._read_call(request_id))
        except _Refused as refused:
            reply = refused.reply
        has_body = reply.status not in _WITHOUT_BODY
        body = json.dumps(reply.body).encode() if has_body else b""
        headers = {
            "X-Amzn-RequestId": request_id,
            "X-Amzn-ErrorType": reply.fault,
            "X-Amz-Function-Error": "Unhandled" if reply.has_failed else "",
            "X-Amz-Executed-Version": "$LATEST" if has_body and not reply.fault else "",
            "Content-Type": "application/json" if has_body else "",
            # An answer with 204 has none.
            "Content-Length": "" if reply.status == HTTPStatus.NO_CONTENT else str(len(body)),
        }
        self.send_response(reply.status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _read_call(self, request_id: str) -> _Call:
        """The call that is asked for.

        Raises:
            _Refused: there is none.
        """
        payload = self._read_payload()
        if "Origin" in self.headers:
            text = "a page in a browser may not invoke functions here"
            raise _Refused(HTTPStatus.FORBIDDEN, "AccessDeniedException", text)
        target = urlsplit(self.path)
        path = _PATH.fullmatch(target.path)
        if path is None:
            text = f"{target.path}: only /2015-03-31/functions/NAME/invocations is here"
            raise _Refused(HTTPStatus.NOT_FOUND, "UnknownOperationException", text)
        kind = self.headers.get("X-Amz-Invocation-Type", "RequestResponse")
        if kind not in LARGEST:
            text = f"X-Amz-Invocation-Type: {kind} is none of {', '.join(LARGEST)}"
            raise _Refused(HTTPStatus.BAD_REQUEST, "InvalidParameterValueException", text)
        if len(payload) > LARGEST[kind]:
            text = f"{len(payload)} byte payload is too large for the {kind} invocation type (limit {LARGEST[kind]} bytes)"
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestTooLargeException", text)
        try:
            json.loads(payload)
        except (ValueError, RecursionError) as error:
            text = f"Could not parse request body into json: {error}"
            raise _Refused(
                HTTPStatus.BAD_REQUEST, "InvalidRequestContentException", text
            ) from error
        name, qualifier = _named(unquote(path[1]), parse_qs(target.query).get("Qualifier", []))
        return _Call(
            name=name, qualifier=qualifier, kind=kind, payload=payload, request_id=request_id
        )

    def _read_payload(self) -> bytes:
        """The body, `{}` if there is none. One that is too large is read, too, or its client hears nothing.

        Raises:
            _Refused: its length is not given.
        """
        text = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not text.isdecimal():
            self.close_connection = True
            text = "the request needs a Content-Length, and no Transfer-Encoding"
            raise _Refused(HTTPStatus.BAD_REQUEST, "InvalidRequestContentException", text)
        if int(text) > _READ_AT_MOST:
            self.close_connection = True
        return self.rfile.read(min(int(text), _READ_AT_MOST)) or b"{}"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named so there
        """Nothing: the main thread shows what was invoked."""


def _named(text: str, qualifiers: Sequence[str]) -> tuple[str, str]:
    """Name and qualifier of a function.

    Raises:
        _Refused: that is no name, or it has two qualifiers.
    """
    found = _NAME.fullmatch(text)
    fault = "InvalidParameterValueException"
    if found is None:
        raise _Refused(HTTPStatus.BAD_REQUEST, fault, f"{text} is no name or ARN of a function")
    given = list(dict.fromkeys(filter(None, [found["qualifier"], *qualifiers])))
    if len(given) > 1:
        text = f"the name ends with {given[0]}, and Qualifier is {given[1]}"
        raise _Refused(HTTPStatus.BAD_REQUEST, fault, text)
    return found["name"], given[0] if given else ""


def example(url: str, function: str, job: Mapping[str, Any] | None) -> str:
    """A command that enqueues a job by the API, for a shell; on three lines."""
    fields = {name: value for name, value in (job or {}).items() if name != "tick"}
    payload = json.dumps(fields or {"class": "NAME", "args": []})
    return (
        f"aws lambda invoke --endpoint-url {url} --no-sign-request --region eu-west-1 \\\n"
        f"      --function-name {function} --cli-binary-format raw-in-base64-out \\\n"
        f"      --payload {shlex.quote(payload)} /dev/stdout"
    )
