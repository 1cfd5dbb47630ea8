"""Limiters: how much of each is taken, who holds it, who waits for it; reset one."""

from typing import Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.features.limiters.overview import (
    list_limiters,
    read_limiter,
    reset_limiter,
    resetting,
)
from kiqbridge.features.limiters.store import KINDS
from kiqbridge.web.context import redirect, render, view_of
from kiqbridge.web.guard import requires
from kiqbridge.web.pages.listing import number_of

PER_PAGE: Final = 50


def routes() -> list[Route]:
    """The pages."""
    return [
        Route("/limiters", show_all),
        Route("/limiters/{kind}/{name:path}", show),
        Route("/limiters/{kind}/{name:path}", act, methods=["POST"]),
    ]


def show_all(request: Request) -> Response:
    """A page of them, the last used first."""
    view = view_of(request)
    number = number_of(request.query_params.get("page", ""), 1)
    page = view.read(("limiters", number), lambda: list_limiters(view.operator, number, PER_PAGE))
    return render(request, "limiters.html", page=page)


def show(request: Request) -> Response:
    """One of them."""
    view, (kind, name) = view_of(request), _named(request)
    limiter = view.read(("limiter", kind, name), lambda: read_limiter(view.operator, kind, name))
    if limiter is None:
        raise HTTPException(
            404, f"There is no limiter {kind} {name}: it was not entered within the last day."
        )
    return render(
        request, "limiter.html", limiter=limiter, state=limiter.state, resetting=resetting
    )


@requires("operator")
def act(request: Request, form: FormData) -> Response:
    """Reset it."""
    kind, name = _named(request)
    if form.get("action") != "reset":
        raise HTTPException(400, "The form asks for no known action; there is reset.")
    is_reset = reset_limiter(view_of(request).operator, kind, name)
    said = "is reset: all of it is free" if is_reset else "was free already"
    return redirect(request, f"/limiters/{kind}/{name}", notice=f"Limiter {kind} {name} {said}.")


def _named(request: Request) -> tuple[str, str]:
    kind, name = request.path_params["kind"], request.path_params["name"]
    if kind not in KINDS:
        raise HTTPException(404, f"There are no limiters of the kind {kind}.")
    return kind, name
