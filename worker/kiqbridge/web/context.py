"""What every page needs: for which user it is shown, from where it is read, and how its URLs are made."""

import contextlib
import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote, urlencode
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from kiqbridge import __version__, seams
from kiqbridge.api import Operator, acts
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.errors import RedisRefused
from kiqbridge.feature import Tab
from kiqbridge.runtime.redaction import Redactor
from kiqbridge.store.pauses import Kind, Pause
from kiqbridge.web import shown
from kiqbridge.web.cache import FRESH_S, Cache
from kiqbridge.web.guard import Role, allows, csrf_token
from kiqbridge.web.searches import Searches
from kiqbridge.web.sessions import seal, unseal

FOLDER: Final = Path(__file__).parent
TABS: Final = (
    Tab("/queues", "Queues", "Jobs", key="q"),
    Tab("/busy", "Busy", "Jobs", key="b"),
    Tab("/retries", "Retries", "Jobs", key="r"),
    Tab("/scheduled", "Scheduled", "Jobs", key="s"),
    Tab("/dead", "Dead", "Jobs", key="d"),
    Tab("/schedules", "Schedules", "Flow", key="c"),
    Tab("/processes", "Processes", "Fleet", key="p"),
    Tab("/sources", "Sources", "Fleet", key="e"),
    Tab("/metrics", "Metrics", "Insight", key="m"),
    Tab("/audit", "Audit", "Insight", key="a"),
)
"""In the order of an operator's questions; those of features stand between them."""
ZONE_COOKIE: Final = "kiqbridge_zone"
THEME_COOKIE: Final = "kiqbridge_theme"
THEMES: Final = ("light", "dark")
NOTICE_COOKIE: Final = "kiqbridge_notice"
SOURCES_FRESH_S: Final = 60.0
_OF_SOURCES: Final = (
    ForFunctions.mappings,
    ForFunctions.spill_queue_url,
    ForFunctions.spill_fifo_queue_url,
)
NOTICE_S: Final = 60
"""For so long the cookie waits for the page that shows it."""
MAX_NOTICE: Final = 300

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What one application holds, the same for all requests; `request.app.state.site`.

    Attributes:
        operator: whose Redis is shown.
        environment: name of the deployment, such as `production`; empty = not shown.
        redactor: hides arguments by their names; None = shows all to all.
        hides_from: whether it does so for a role.
        hides_args_from: whether a role sees no arguments at all.
        cache: reads that many viewers share.
        searches: bounds what looks through many jobs.
        streams: the pages that are sent live.
    """

    operator: Operator
    environment: str
    redactor: Redactor | None
    hides_from: Callable[[Role], bool]
    hides_args_from: Callable[[Role], bool]
    cache: Cache
    searches: Searches
    streams: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One request, as the screens see it.

    Attributes:
        site: the application.
        operator: acts in the name of who asks.
        role: what they may do.
        base: path under which the application is mounted, without a slash at its end.
        now: epoch seconds, one for the whole page.
        zone: in which absolute times are shown.
        zone_name: its name, such as `UTC` or `Europe/Paris`.
        theme: `light`, `dark`, or empty: as the viewer's system.
    """

    site: Site
    operator: Operator
    role: Role
    base: str
    now: float
    zone: tzinfo
    zone_name: str
    theme: str

    @property
    def redactor(self) -> Redactor | None:
        """Hides arguments from those who may not see them; None = shows all."""
        return self.site.redactor if self.site.hides_from(self.role) else None

    @property
    def hides_args(self) -> bool:
        """Whether who asks sees no arguments at all."""
        return self.site.hides_args_from(self.role)

    @property
    def hides_some(self) -> bool:
        """Whether anything of a payload is hidden from who asks."""
        return self.redactor is not None or self.hides_args

    def may(self, role: Role) -> bool:
        """Whether who asks may do what needs this role."""
        return allows(self.role, role)

    def moment(self, text: str) -> datetime | None:
        """What a field for date and time holds, on the viewer's clock; None if it is empty.

        Raises:
            HTTPException: 400, it is no such moment.
        """
        if not text:
            return None
        try:
            found = datetime.fromisoformat(text)
            found.timestamp()
        except (ValueError, OverflowError):
            raise HTTPException(
                400, f"{text!r} is no date and time, such as 2026-11-22T18:05."
            ) from None
        return found if found.tzinfo else found.replace(tzinfo=self.zone)

    def paused(self, kind: Kind) -> Mapping[str, Pause]:
        """Name → its pause, of the queues or the classes that are paused; none where the server refuses to say."""
        with contextlib.suppress(RedisRefused):
            pauses = self.read(("pauses",), self.operator.pauses)
            return {each.name: each for each in pauses if each.kind == kind}
        return {}

    def read(self, key: Hashable, load: Callable[[], Value], fresh_s: float = FRESH_S) -> Value:
        """What `load` reads, at most once in `fresh_s` seconds for all viewers; the key names all it depends on."""
        return self.site.cache.get(key, load, fresh_s)


def view_of(request: Request) -> View:
    """For which user and how this request is answered; made once for a request."""
    known: View | None = getattr(request.state, "view", None)
    if known is not None:
        return known
    site: Site = request.app.state.site
    zone_name, zone = _zone(unquote(request.cookies.get(ZONE_COOKIE, "")))
    theme = request.cookies.get(THEME_COOKIE, "")
    view = View(
        site=site,
        operator=replace(site.operator, by=request.state.by, via="web"),
        role=request.state.role,
        base=request.scope.get("root_path", "").rstrip("/"),
        now=time.time(),
        zone=zone,
        zone_name=zone_name,
        theme=theme if theme in THEMES else "",
    )
    request.state.view = view
    return view


def url(request: Request, path: str, **query: object) -> str:
    """The address of a page of this application: below its base path, the path's parts quoted.

    Args:
        request: the one that is answered.
        path: from the application's root, such as `/queues/mail`; not yet quoted.
        query: parameters; None and empty ones are left out. A name may end in `_`, as `class_`.
    """
    base = request.scope.get("root_path", "").rstrip("/")
    given = [
        (name.rstrip("_"), str(value))
        for name, value in query.items()
        if value not in (None, "", False)
    ]
    pairs = urlencode([(name, _quotable(value)) for name, value in given])
    place = base + quote(_quotable(path), safe="/:@-._~")
    return f"{place}?{pairs}" if pairs else place


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page; its template sees `values`, `view`, `csrf`, `url(path, **query)` and the filters of `shown`."""
    view = view_of(request)
    text = (
        build_templates()
        .get_template(template)
        .render(
            view=view,
            request=request,
            path=request.url.path.removeprefix(view.base) or "/",
            csrf=csrf_token(request),
            notice=_notice(request),
            has_sources=status == HTTPStatus.OK and _has_sources(view),
            url=lambda path, **query: url(request, path, **query),
            **values,
        )
    )
    # A lone surrogate must not take down a page, wherever it comes from.
    answer = HTMLResponse(text.encode("utf-8", "replace"), status_code=status)
    if NOTICE_COOKIE in request.cookies:
        answer.delete_cookie(NOTICE_COOKIE, path=view.base or "/")
    return answer


def _has_sources(view: View) -> bool:
    """Whether anything is to be seen on the page Sources."""
    if any(read(each, os.environ) for each in _OF_SOURCES):
        return True
    keys = view.operator.keys
    with contextlib.suppress(RedisRefused):
        load = partial(
            view.operator.pool.run, ("HLEN", keys.manifests), ("ZCARD", keys.guards_until)
        )
        return any(view.read(("has sources",), load, SOURCES_FRESH_S))
    return True


def _quotable(text: str) -> bytes:
    """Lone surrogates stand for bytes that are no UTF-8, and are quoted as these; others come from JSON."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def redirect(request: Request, path: str, *, notice: str = "", **query: object) -> Response:
    """The answer to a POST: back to a page, which shows one sentence about what was done.

    What was read before is forgotten, so that the page shows the effect. The sentence is in a cookie that is signed with
    the token of the session: in the address anybody could write it, and send the link to somebody.
    """
    view = view_of(request)
    view.site.cache.clear()
    answer = RedirectResponse(url(request, path, **query), status_code=303)
    if notice:
        text = notice[:MAX_NOTICE].encode("utf-8", "replace")
        answer.set_cookie(
            NOTICE_COOKIE,
            seal(csrf_token(request).encode(), "notice", text),
            max_age=NOTICE_S,
            path=view.base or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",
        )
    return answer


def _notice(request: Request) -> str:
    """What the POST before this page has done; empty if the cookie is not of this session."""
    sealed = request.cookies.get(NOTICE_COOKIE, "")
    text = unseal(csrf_token(request).encode(), "notice", sealed) if sealed else None
    return (text or b"").decode("utf-8", "replace")


@cache
def build_templates() -> Environment:
    """The pages' environment: everything is escaped, an unknown name is an error; compiled once in a process."""
    templates = Environment(
        loader=FileSystemLoader([FOLDER / "templates", *(each.folder for each in seams.shipped())]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters.update(shown.FILTERS)
    groups = navigation()
    paths = tuple(tab.path for tabs in groups.values() for tab in tabs)
    templates.globals.update(version=__version__, navigation=groups, can=acts)
    templates.tests["served"] = lambda link: link.startswith(paths)
    templates.filters["page_name"] = lambda link: next(
        tab.label for tabs in groups.values() for tab in tabs if link.startswith(tab.path)
    )
    return templates


def navigation() -> Mapping[str, Sequence[Tab]]:
    """The tabs of all pages but Now, by group."""
    tabs = list(TABS)
    for tab in (tab for each in seams.shipped() for tab in each.tabs):
        before = next((each for each in tabs if each.path == tab.after), tabs[-1])
        group = tab.group or before.group
        place = tabs.index(before) + 1 if before.group == group else len(tabs)
        tabs.insert(place, tab._replace(group=group))
    return {
        group: [tab for tab in tabs if tab.group == group]
        for group in dict.fromkeys(tab.group for tab in tabs)
    }


def _zone(name: str) -> tuple[str, tzinfo]:
    if not name or name == "UTC":
        return "UTC", UTC
    try:
        return name, ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, or no name of a zone at all
        return "UTC", UTC
