"""Makes the application: one Redis, one role for everybody unless `guard` knows better, all screens."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from kiqbridge import seams
from kiqbridge.api import Operator, open_operator
from kiqbridge.errors import KiqbridgeError, PayloadError, RedisUnavailable
from kiqbridge.runtime.redaction import Redactor
from kiqbridge.web.auth import Auth
from kiqbridge.web.cache import Cache
from kiqbridge.web.context import FOLDER, Site, render
from kiqbridge.web.gate import protections
from kiqbridge.web.guard import Endpoint, Role, parse_role
from kiqbridge.web.pages import (
    audit,
    busy,
    job,
    job_sets,
    live,
    metrics,
    monitoring,
    now,
    processes,
    queues,
    schedules,
    search,
    sources,
)
from kiqbridge.web.pages.listing import looks_through
from kiqbridge.web.searches import Searches, searching
from kiqbridge.web.security import Security, read_security


def _post(path: str, endpoint: Endpoint) -> Route:
    return Route(path, endpoint, methods=["POST"])


_OWN: Final[list[BaseRoute]] = [
    Route("/", now.show),
    Route("/queues", queues.show_all),
    Route("/queues/{name:path}", searching(queues.show, looks_through)),
    _post("/queues/{name:path}", queues.post),
    *(route for screen in job_sets.SCREENS.values() for route in job_sets.routes(screen)),
    Route("/search", searching(search.show)),
    Route("/live", live.stream),
    Route("/jobs/{jid:path}", searching(job.show)),
    _post("/jobs/{jid:path}", job.act),
    Route("/busy", busy.show),
    Route("/schedules", schedules.show),
    _post("/schedules/act", schedules.act),
    Route("/schedules/{name:path}", schedules.show_one),
    Route("/metrics", metrics.show),
    Route("/metrics/{job_class:path}", metrics.show_class),
    _post("/metrics/{job_class:path}", metrics.post),
    Route("/processes", processes.show),
    _post("/processes/act", processes.act),
    _post("/processes/act-on-all", processes.act_on_all),
    _post("/processes/dump-threads", processes.dump_threads),
    Route("/audit", audit.show),
    Route("/sources", sources.show),
    Route("/healthz", monitoring.health),
    Mount("/static", StaticFiles(directory=FOLDER / "static"), name="static"),
]
ENVIRONMENT_VARIABLES = ("APP_ENV", "RAILS_ENV", "RACK_ENV")
TITLES: Mapping[int, str] = {
    400: "This cannot be read",
    403: "Not allowed",
    404: "Not found",
    405: "Not by this method",
    413: "Too large",
    429: "Too often",
    500: "An error of this page",
    502: "Redis refused",
    503: "Not now",
}


def routes() -> list[BaseRoute]:
    """All pages, those of features included."""
    return [*_OWN, *(route for make in seams.found("pages") for route in make())]


def create_app(
    redis_url: str | None = None,
    *,
    role: Role | None = None,
    operator: Operator | None = None,
    auth: Auth | None = None,
    security: Security | None = None,
    environment: str | None = None,
    redactor: Redactor | None = None,
) -> Starlette:
    """The web page as an ASGI application; can be mounted under any path of another one.

    Args:
        redis_url: address of Redis; default from the settings, as for `Client`.
        role: what every user may do: `viewer` (the default) looks, `operator` acts on jobs, `admin` also stops
            processes and clears queues. With `auth` the highest role of a user; default: no limit.
        operator: an existing operator instead of `redis_url`.
        auth: how callers are verified; default by the settings, in which none is.
        security: all else that protects the page; default by the settings (KIQBRIDGE_WEB_…).
        environment: shown in the header; default from APP_ENV, RAILS_ENV or RACK_ENV.
        redactor: which arguments are hidden from viewers; default by the setting `redact`.

    Raises:
        ConfigError: a wrong role or address; names it.
    """
    if role is not None:
        parse_role(role, "the argument role")
    safe = security or read_security(os.environ)
    safe = replace(safe, role=role or safe.role, auth=auth or safe.auth)
    whose = operator or open_operator(redis_url)
    app = Starlette(
        routes=routes(),
        middleware=protections(safe, by=whose.by),
        exception_handlers={HTTPException: _answer_http_error, KiqbridgeError: _answer_our_error},
    )
    app.state.site = Site(
        operator=replace(whose, via="web"),
        environment=_environment() if environment is None else environment,
        redactor=redactor or safe.redactor,
        hides_from=safe.hides_from,
        hides_args_from=safe.hides_args_from,
        cache=Cache(),
        searches=Searches(),
        streams=live.Streams(),
    )
    return app


def _environment() -> str:
    return next((os.environ[name] for name in ENVIRONMENT_VARIABLES if os.environ.get(name)), "")


def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    answer = _error_page(request, error.status_code, error.detail)
    answer.headers.update(error.headers or {})
    return answer


def _answer_our_error(request: Request, error: Exception) -> Response:
    if isinstance(error, RedisUnavailable):
        return _error_page(request, 503, str(error), "Redis does not answer")
    return _error_page(request, 400 if isinstance(error, PayloadError) else 502, str(error))


def _error_page(request: Request, status: int, detail: str, title: str = "") -> Response:
    title = title or TITLES.get(status, "This did not work")
    return render(request, "error.html", status, title=title, detail=detail)
