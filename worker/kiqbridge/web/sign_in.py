"""Signing in by a form, and out again."""

import logging
import re
import time
from typing import Final
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from kiqbridge.web.auth import MAX_NAME, Verifier, shown
from kiqbridge.web.limits import Attempts
from kiqbridge.web.plain_page import base_of, plain_page
from kiqbridge.web.sessions import Session, Sessions, is_same

logger: Final = logging.getLogger(__name__)

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"

# A path of ours: no other host (`//host`, `/\\host`), and nothing that ends a header.
_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")


class SignIn:
    """Serves both paths.

    Args:
        verifier: knows the users.
        sessions: writes the cookies.

    Attributes:
        attempts: how often a password may be tried, here and by HTTP basic authentication.
    """

    def __init__(self, verifier: Verifier, sessions: Sessions) -> None:
        self._verifier = verifier
        self._sessions = sessions
        self.attempts = Attempts()

    async def serve(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to one of them."""
        request = Request(scope, receive)
        if request.method == "POST":
            answer = await self._post(request, path)
        elif path == SIGN_IN and request.method in ("GET", "HEAD"):
            answer = self._form(request, target=_ours(request.query_params.get("next", "")))
        else:
            answer = Response("Method Not Allowed", 405, {"Allow": "POST"})
        await answer(scope, receive, send)

    def cookie(self, scope: Scope, session: Session) -> str:
        """The `Set-Cookie` header of a session."""
        left_s = max(0, int(session.ends_at - time.time()))
        return self._cookie(scope, self._sessions.write(session), left_s)

    async def _post(self, request: Request, path: str) -> Response:
        form = await request.form()
        session = self._verifier.session(request.scope)
        if session is None or not is_same(form.get("csrf"), self._sessions.token(session.id)):
            return self._form(request, problem="The form has expired. Try again.", status=403)
        if path == SIGN_OUT:
            if session.name:  # others are worth nothing, and anybody may have as many as they like
                self._sessions.end(session, time.time())
                logger.info("web: %s signed out", shown(session.name))
            answer = redirect_to(request.scope, SIGN_IN)
            answer.headers["Set-Cookie"] = self._cookie(request.scope, "", 0)
            return answer
        name, password = str(form.get("name", ""))[:MAX_NAME], str(form.get("password", ""))
        target = _ours(str(form.get("next", "")))
        address = request.client.host if request.client else "unknown"
        if wait_s := self.attempts.take(name, address):
            problem = f"Too many attempts. Wait {int(wait_s) + 1} s, then try again."
            answer = self._form(request, problem=problem, status=429, target=target)
            answer.headers["Retry-After"] = str(int(wait_s) + 1)
            return answer
        begun = await run_in_threadpool(self._verifier.sign_in, name, password)
        if begun is None:
            logger.warning("web: %s failed to sign in as %s", address, shown(name))
            problem = "Name or password is wrong."
            return self._form(request, problem=problem, status=401, target=target, name=name)
        self.attempts.succeed(name, address)
        self._sessions.end(session, time.time())
        logger.info("web: %s signed in from %s", shown(name), address)
        answer = redirect_to(request.scope, target or "/")
        answer.headers["Set-Cookie"] = self.cookie(request.scope, begun)
        return answer

    def _form(
        self,
        request: Request,
        *,
        problem: str = "",
        status: int = 200,
        target: str = "",
        name: str = "",
    ) -> Response:
        scope = request.scope
        known = self._verifier.session(scope)
        session = known or self._sessions.begin(time.time())
        page = plain_page(
            scope,
            "sign_in.html",
            title="Sign in",
            problem=problem,
            csrf=self._sessions.token(session.id),
            target=target,
            name=name,
        )
        answer = HTMLResponse(page, status)
        if known is None:
            answer.headers["Set-Cookie"] = self.cookie(scope, session)
        return answer

    def _cookie(self, scope: Scope, value: str, left_s: int) -> str:
        scheme = scope.get("scheme", "http")
        # `__Host-` needs both; without https the name has no prefix, and the base path is enough.
        secure, path = ("; Secure", "/") if scheme == "https" else ("", base_of(scope) or "/")
        return f"{self._sessions.cookie(scheme)}={value}; Path={path}; Max-Age={left_s}; HttpOnly; SameSite=Lax{secure}"


def redirect_to(scope: Scope, place: str) -> Response:
    """To a path of ours, with its query, below the base path."""
    return RedirectResponse(base_of(scope) + place, status_code=303)


def redirect(scope: Scope, path: str, **query: str) -> Response:
    """To a path of ours with such a query."""
    pairs = "&".join(f"{name}={quote(value, safe='/')}" for name, value in query.items())
    return redirect_to(scope, f"{path}?{pairs}" if pairs else path)


def _ours(place: str) -> str:
    """A place to go to after signing in, if it is one of ours, else nothing."""
    return place if _PATH.fullmatch(place) else ""
