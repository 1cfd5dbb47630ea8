"""Pages that need no Redis: refusals before a request reaches a screen, and the sign-in form."""

import json
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kiqbridge.runtime.records import dataclass
from kiqbridge.web.context import build_templates


@dataclass(slots=True, eq=False)
class Refusal:
    """The answer to a request that goes no further: a page for browsers, JSON for programs.

    Attributes:
        status: of HTTP.
        title: two or three words.
        detail: what is wrong and what to do, in sentences.
        headers: further ones.
    """

    status: int
    title: str
    detail: str
    headers: Mapping[str, str] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        if wants_html(scope):
            text = plain_page(scope, "plain.html", title=self.title, detail=self.detail)
            kind = "text/html"
        else:
            text = json.dumps({"error": self.title, "detail": self.detail})
            kind = "application/json"
        answer = Response(text, self.status, self.headers, media_type=kind)
        await answer(scope, receive, send)


def plain_page(scope: Scope, template: str, **values: object) -> str:
    """A page out of a template that needs no Redis and no session."""
    page: str = build_templates().get_template(template).render(base=base_of(scope), **values)
    return page


def wants_html(scope: Scope) -> bool:
    """Whether a browser asks for a page."""
    return "text/html" in Headers(scope=scope).get("accept", "")


def base_of(scope: Scope) -> str:
    """The path under which the application is mounted, without a slash at its end."""
    return str(scope.get("root_path", "")).rstrip("/")


def inner_path(scope: Scope) -> str:
    """The path from the application's own root."""
    path, base = str(scope["path"]), base_of(scope)
    if path != base and not path.startswith(f"{base}/"):
        return path  # a server that takes the base off itself
    return path[len(base) :] or "/"
