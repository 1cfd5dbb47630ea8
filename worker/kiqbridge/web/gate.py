"""The gate: who makes a request, and whether one that may change something comes from our own page.

For each request: sign-in and sign-out, the caller, the role. A GET that another site makes is refused unless it opens
the page: an image of that site would let the page read and search. For each one that is no GET, besides:

1. `Sec-Fetch-Site` must be `same-origin`, and `Origin` our own host, as far as a browser sends them.
2. The caller's writes must not come too often.
3. The form must carry the token of the session (`guard.requires`).
"""

import logging
import secrets
import time
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kiqbridge.errors import ConfigError
from kiqbridge.web import middleware
from kiqbridge.web.auth import Refused, Verifier, shown
from kiqbridge.web.guard import Caller, least
from kiqbridge.web.limits import Buckets
from kiqbridge.web.plain_page import Refusal, inner_path, wants_html
from kiqbridge.web.security import Security
from kiqbridge.web.sessions import MIN_KEY_BYTES, Session, Sessions
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
        security: how callers are verified, what they may do, how often, and from where forms may come.
        sessions: reads and writes cookies.
        by: in whose name every user acts, if none is verified.

    Raises:
        ConfigError: a way of verification cannot work; names the setting.
    """

    def __init__(self, app: ASGIApp, *, security: Security, sessions: Sessions, by: str) -> None:
        self._app = app
        self._auth = security.auth
        self._sessions = sessions
        self._role = security.most
        self._by = by
        self._origins = frozenset(each.rstrip("/") for each in security.origins)
        self._verifier = Verifier(security.auth, sessions)
        self._sign_in = SignIn(self._verifier, sessions)
        most = security.writes_per_minute
        self._writes = Buckets(most, most / 60)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reads = scope["method"] in READS
        if fault := _embedded(scope) if reads else _foreign(scope, self._origins):
            logger.warning("web: refused a %s of %s: %s", scope["method"], address_of(scope), fault)
            detail = "The request comes from another page. Open this page itself, and do it there."
            await Refusal(403, "Not from this page", detail)(scope, receive, send)
            return
        path = inner_path(scope)
        if self._verifier.has_users and path in (SIGN_IN, SIGN_OUT):
            await self._sign_in.serve(path, scope, receive, send)
        elif path in OPEN_PATHS or path.startswith(OPEN_FOLDER):
            self._admit(scope, Caller(name="", role="viewer", way="open"), "")
            await self._app(scope, receive, send)
        else:
            caller = await self._find(scope)
            if not isinstance(caller, Caller):
                await self._ask(caller, scope, receive, send)
                return
            key = f"{address_of(scope)} {caller.way} {caller.name}"
            if scope["method"] not in READS and (wait_s := self._writes.take(key)):
                logger.warning("web: too many writes of %s", shown(caller.name))
                await too_often(wait_s)(scope, receive, send)
                return
            seed = f"{caller.way}:{caller.name}"
            if caller.way not in COLLECTED_WAYS:
                session = self._verifier.session(scope)
                if session is None:
                    session = self._sessions.begin(time.time())
                    send = self._with_cookie(scope, session, send)
                seed = session.id
            self._admit(scope, caller, seed)
            await self._app(scope, receive, send)

    async def _find(self, scope: Scope) -> Caller | Refused | ASGIApp:
        if not self._auth.is_needed:
            return Caller(name=self._by, role=self._role, way="none")
        name = self._verifier.tried_name(scope)
        if name is None:
            if self._verifier.fetches_keys:
                return await run_in_threadpool(self._verifier.find, scope)
            return self._verifier.find(scope)
        address = address_of(scope)
        if wait_s := self._sign_in.attempts.take(name, address):
            return too_often(wait_s)
        found = await run_in_threadpool(self._verifier.find, scope)
        if isinstance(found, Caller):
            self._sign_in.attempts.succeed(name, address)
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
            detail = "You are signed in, but have no role here. The administrator of this page can give you one."
            await Refusal(403, "Not allowed", detail)(scope, *channel)
            return
        if self._verifier.has_users and not found.is_attempt and wants_html(scope):
            query = scope.get("query_string", b"").decode("ascii", "replace")
            place = inner_path(scope) + (f"?{query}" if query else "")
            target = {"next": place} if scope["method"] in READS and place != "/" else {}
            await redirect(scope, SIGN_IN, **target)(scope, *channel)
            return
        realm = 'Basic realm="Kiqbridge", charset="UTF-8"'
        way = {"WWW-Authenticate": realm if self._verifier.has_users else "Bearer"}
        unverified = Refusal(401, "Sign in", "You are not signed in.", way)
        await unverified(scope, *channel)


def protections(security: Security, *, by: str) -> list[Middleware]:
    """The middlewares, the outermost first.

    Args:
        security: what they do.
        by: in whose name every user acts, if none is verified.

    Raises:
        ConfigError: the secret is too short.
    """
    key = security.auth.secret
    if key is not None and len(key) < MIN_KEY_BYTES:
        raise ConfigError(
            f"web_secret: {len(key)} bytes can be guessed; write {MIN_KEY_BYTES} or more, such as what "
            "`openssl rand -base64 33` prints"
        )
    sessions = Sessions(key or secrets.token_bytes(MIN_KEY_BYTES), security.session_s)
    return [
        Middleware(middleware.Layer, middleware.trusted_proxies(security.proxies)),
        Middleware(middleware.Layer, middleware.security_headers),
        Middleware(middleware.Layer, middleware.faults),
        Middleware(middleware.Layer, middleware.known_hosts(security.hosts)),
        Middleware(middleware.Layer, middleware.body_limit(security.max_body_bytes)),
        Middleware(Gate, security=security, sessions=sessions, by=by),
    ]


def too_often(wait_s: float) -> Refusal:
    """The answer to what comes too often."""
    seconds = int(wait_s) + 1
    detail = f"Wait {seconds} s, then try again."
    return Refusal(429, "Too often", detail, {"Retry-After": str(seconds)})


def address_of(scope: Scope) -> str:
    """The caller's address; that of the proxy, unless the proxy is trusted."""
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


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
    host = headers.get("host", "")
    if origin in (f"http://{host}", f"https://{host}"):
        return ""
    return f"Origin is {shown(origin)}, and the host {shown(host)}"
