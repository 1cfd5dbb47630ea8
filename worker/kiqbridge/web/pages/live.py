"""Live: a page that somebody looks at, read again and again; what is sent of it are the lines that changed.

The stream asks the whole application for the page each time, as the browser would: a user who has been signed out, or may
do less by now, is treated so at the next reading.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message

MOST: Final = 100
"""Streams at once; a later one is refused with `Retry-After`."""
LONGEST_S: Final = 600.0
"""After that the browser begins a new one by itself."""
EVERY_S: Final = (3.0, 60.0)
"""Least and most seconds between two readings."""
AGAIN_S: Final = 30

Patch = tuple[int, int, Sequence[str]]
"""From which line on, how many lines go, and what comes in their place."""


class Streams:
    """The streams of one application.

    Attributes:
        longest_s: seconds after which a stream ends; 0: it sends the page once, for a Lambda function.
    """

    def __init__(self) -> None:
        self.longest_s = LONGEST_S
        self._open: set[asyncio.Event] = set()

    @contextlib.contextmanager
    def one(self) -> Iterator[asyncio.Event]:
        """One more, which is to stop when its event is set."""
        end = asyncio.Event()
        self._open.add(end)
        try:
            yield end
        finally:
            self._open.discard(end)

    @property
    def is_full(self) -> bool:
        """Whether there may be no more."""
        return len(self._open) >= MOST

    def end(self) -> None:
        """End all of them at once; called by the thread of the event loop."""
        for each in self._open:
            each.set()


async def stream(request: Request) -> Response:
    """The page that `page` names, as server-sent events: each a list of patches to its lines."""
    streams: Streams = request.app.state.site.streams
    target = request.query_params.get("page", "")
    if not target.startswith("/") or target.startswith("/live"):
        raise HTTPException(400, "page names no page of this application.")
    if streams.is_full:
        raise HTTPException(
            503, "Too many pages are live: try again later.", {"Retry-After": str(AGAIN_S)}
        )
    with contextlib.suppress(ValueError):
        every = min(max(float(request.query_params.get("every", "")), EVERY_S[0]), EVERY_S[1])
        events = _events(request, streams, target, every)
        return StreamingResponse(
            events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )
    raise HTTPException(400, "every is no number of seconds.")


async def _events(
    request: Request, streams: Streams, target: str, every_s: float
) -> AsyncIterator[str]:
    before: list[str] = []
    until = time.monotonic() + streams.longest_s
    with streams.one() as end:
        yield f"retry: {every_s * 1000:.0f}\n\n"
        while not end.is_set():
            status, text = await _read(request, target)
            if status in range(300, 400) or status == HTTPStatus.UNAUTHORIZED:  # to sign in
                yield "event: reload\ndata:\n\n"
                return
            after = text.split("\n")
            patches = patches_of(before, after)
            yield f"data: {json.dumps(patches)}\n\n" if patches else ":\n\n"
            before = after
            if time.monotonic() >= until:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), every_s)


def patches_of(before: Sequence[str], after: Sequence[str]) -> list[Patch]:
    """What makes the lines after out of those before: single ones, or else all between the first and the last change."""
    if len(before) == len(after):
        changed = [place for place, line in enumerate(after) if line != before[place]]
        return [(place, 1, [after[place]]) for place in changed]
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    most = shorter - head
    tail = next((at for at in range(most) if before[-1 - at] != after[-1 - at]), most)
    return [(head, len(before) - head - tail, after[head : len(after) - tail])]


async def _read(request: Request, target: str) -> tuple[int, str]:
    """Status and text of a page, asked of the application with what the browser sent."""
    path, _, query = target.partition("?")
    place = f"{request.scope.get('root_path', '').rstrip('/')}{path}"
    kept = [pair for pair in request.scope["headers"] if pair[0] != b"accept"]
    scope = {name: request.scope[name] for name in _KEPT if name in request.scope} | {
        "path": place,
        "raw_path": quote(place).encode(),
        "query_string": query.encode(),
        "headers": [*kept, (b"accept", b"text/html")],
        "state": {},
    }
    status, parts = 0, []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    app: Any = request.app
    await app(scope, receive, send)
    return status, b"".join(parts).decode("utf-8", "replace")


_KEPT: Final = ("type", "asgi", "http_version", "method", "scheme", "root_path", "client", "server")
