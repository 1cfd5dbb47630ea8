"""An HTTP server on loopback, for what this project calls."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def http_endpoint(answer: Answer, port: int = 0) -> Iterator[int]:
    """Calls `answer` with each request, on a thread of its own, until the end of the block; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else 40 ms a call

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            answer(self)

        do_POST = do_PUT = do_GET  # noqa: N815 - the names of the library

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def webhook() -> Iterator[tuple[str, list[Any]]]:
    """Its address, and the JSON documents that came."""
    received: list[Any] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        received.append(json.loads(body_of(request)))
        reply(request, 204)

    with http_endpoint(answer) as port:
        yield f"http://127.0.0.1:{port}/hooks/s3cret", received


def body_of(request: BaseHTTPRequestHandler) -> bytes:
    """What was sent."""
    return request.rfile.read(int(request.headers["Content-Length"]))


def reply(request: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    """Send an answer; `_` in the name of a header stands for a hyphen."""
    request.send_response(status)
    for name, value in {**headers, "Content-Length": str(len(body))}.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    request.wfile.write(body)
