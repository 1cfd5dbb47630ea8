"""The gate: who makes a request, and whether one that may change something comes from our own page.

For each request: sign-in and sign-out, the caller, the role. A GET that another site makes is refused unless it opens
the page: an image of that site would let the page read and search. For each one that is no GET, besides:

1. `Sec-Fetch-Site` must be `same-origin`, and `Origin` our own host, as far as a browser sends them.
2. The caller's writes must not come too often.
3. The form must carry the token of the session (`guard.requires`).
"""

import logging
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kiqbridge.web.auth import Auth, Refused, Verifier, shown
from kiqbridge.web.guard import Caller, Role, least
from kiqbridge.web.limits import Buckets
from kiqbridge.web.plain_page import Refusal, inner_path, wants_html
from kiqbridge.web.sessions import Session, Sessions
from kiqbridge.web.sign_in import SIGN_IN, SIGN_OUT, SignIn, redirect

logger: Final = logging.getLogger(__name__)

READS: Final = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS: Final = ("/healthz",)
"""Without sign-in: it shows whether the page serves, and nothing else."""
OPEN_FOLDER: Final = "/static/"
COLLECTED_WAYS: Final = ("basic", "token", "iam")
"""With these each request proves anew who it is, so there is no session, and no cookie."""


class Gate:
    """ASGI middleware: gives each request its role, its user and its token, or refuses it.

    Args:
        app: what it guards.
        auth: how callers are verified.
        sessions: reads and writes cookies.
        role: of everybody, if nobody is verified; else the most that anybody may do.
        by: in whose name everybody acts, if nobody is verified.
        writes_per_minute: for each caller.
        origins: other addresses from which forms may come.

    Raises:
        ConfigError: a way of verification cannot work; names the setting.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        auth: Auth,
        sessions: Sessions,
        role: Role,
        by: str,
        writes_per_minute: int,
        origins: Sequence[str] = (),
    ) -> None:
        self._app = app
        self._auth = auth
        self._sessions = sessions
        self._role = role
        self._by = by
        self._origins = frozenset(each.rstrip("/") for each in origins)
        self._verifier = Verifier(auth, sessions)
        self._sign_in = SignIn(self._verifier, sessions)
        self._writes = Buckets(writes_per_minute, writes_per_minute / 60)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reads = scope["method"] in READS
        if fault := _embedded(scope) if reads else _foreign(scope, self._origins):
            await self._refuse_foreign(fault, scope, receive, send)
            return
        path = inner_path(scope)
        if self._verifier.has_users and path in (SIGN_IN, SIGN_OUT):
            await self._sign_in.serve(path, scope, receive, send)
        elif path in OPEN_PATHS or path.startswith(OPEN_FOLDER):
            self._admit(scope, Caller(name="", role="viewer", way="open"), "")
            await self._app(scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = await self._find(scope)
        if not isinstance(caller, Caller):
            await self._ask(caller, scope, receive, send)
            return
        if scope["method"] not in READS and (wait_s := self._writes.take(_key(scope, caller))):
            logger.warning("web: too many writes of %s", shown(caller.name))
            await too_often(wait_s)(scope, receive, send)
            return
        if caller.way in COLLECTED_WAYS:
            self._admit(scope, caller, f"{caller.way}:{caller.name}")
            await self._app(scope, receive, send)
            return
        session = self._verifier.session(scope)
        if session is not None:
            self._admit(scope, caller, session.id)
            await self._app(scope, receive, send)
            return
        begun = self._sign_in.anonymous()
        self._admit(scope, caller, begun.id)
        await self._app(scope, receive, self._with_cookie(scope, begun, send))

    async def _find(self, scope: Scope) -> Caller | Refused | ASGIApp:
        if not self._auth.is_needed:
            return Caller(name=self._by, role=self._role, way="none")
        if not self._verifier.tries_password(scope):
            if self._verifier.fetches_keys:
                return await run_in_threadpool(self._verifier.find, scope)
            return self._verifier.find(scope)
        address = address_of(scope)
        if wait_s := self._sign_in.take_attempt(address):
            return too_often(wait_s)
        found = await run_in_threadpool(self._verifier.find, scope)
        if isinstance(found, Caller):
            self._sign_in.give_back(address)
        return found

    def _admit(self, scope: Scope, caller: Caller, seed: str) -> None:
        scope.setdefault("state", {}).update(
            role=least(caller.role, self._role) if self._auth.is_needed else caller.role,
            by=caller.name,
            csrf=self._sessions.token(seed),
            way=caller.way,
        )

    def _with_cookie(self, scope: Scope, session: Session, send: Send) -> Send:
        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.append("Set-Cookie", self._sign_in.cookie(scope, session))
            await send(message)

        return send_with_cookie

    async def _ask(self, found: Refused | ASGIApp, scope: Scope, *channel: Any) -> None:
        """Answer somebody who was not verified, or has no role."""
        if not isinstance(found, Refused):
            await found(scope, *channel)
            return
        if found.is_attempt or found.is_known:
            logger.warning("web: refused %s: %s", address_of(scope), found.reason)
        if found.is_known:
            detail = (
                "You are signed in, but have no role here. Whoever runs this page can give you one."
            )
            await Refusal(403, "Not allowed", detail)(scope, *channel)
            return
        if self._verifier.has_users and not found.is_attempt and wants_html(scope):
            query = scope.get("query_string", b"").decode("ascii", "replace")
            place = inner_path(scope) + (f"?{query}" if query else "")
            target = {"next": place} if scope["method"] in READS and place != "/" else {}
            await redirect(scope, SIGN_IN, **target)(scope, *channel)
            return
        await self._unverified()(scope, *channel)

    def _unverified(self) -> Refusal:
        realm = 'Basic realm="Kiqbridge", charset="UTF-8"'
        way = realm if self._verifier.has_users else "Bearer"
        return Refusal(
            401, "Sign in", "Nobody has verified who you are.", {"WWW-Authenticate": way}
        )

    async def _refuse_foreign(self, fault: str, scope: Scope, *channel: Any) -> None:
        logger.warning("web: refused a %s of %s: %s", scope["method"], address_of(scope), fault)
        detail = "The request comes from another page. Open this page itself, and do it there."
        await Refusal(403, "Not from this page", detail)(scope, *channel)


def too_often(wait_s: float) -> Refusal:
    """The answer to what comes too often."""
    seconds = int(wait_s) + 1
    detail = f"Wait {seconds} s, then try again."
    return Refusal(429, "Too often", detail, {"Retry-After": str(seconds)})


def address_of(scope: Scope) -> str:
    """The caller's address; that of the proxy, unless the proxy is trusted."""
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def _key(scope: Scope, caller: Caller) -> str:
    return f"{address_of(scope)} {caller.way} {caller.name}"


def _embedded(scope: Scope) -> str:
    """Why a GET is a part of another site's page; empty = it is not, or it follows a link."""
    headers = Headers(scope=scope)
    site = headers.get("sec-fetch-site", "same-origin")
    opens = headers.get("sec-fetch-mode") == "navigate"
    if site in ("same-origin", "none") or (opens and headers.get("sec-fetch-dest") == "document"):
        return ""
    return f"Sec-Fetch-Site is {shown(site)}, and the page is not opened"


def _foreign(scope: Scope, others: frozenset[str]) -> str:
    """Why a request does not come from our own page; empty = nothing speaks against it.

    A program sends neither of the headers: it cannot be led by another page, and needs the token all the same.
    """
    headers = Headers(scope=scope)
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return f"Sec-Fetch-Site is {shown(site)}"
    if origin is None or origin in others:
        return ""
    try:
        parts = urlsplit(origin)
        is_ours = parts.scheme in ("http", "https") and parts.netloc == headers.get("host", "")
    except ValueError:
        is_ours = False
    return (
        "" if is_ours else f"Origin is {shown(origin)}, and the host {shown(headers.get('host'))}"
    )
