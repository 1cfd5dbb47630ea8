"""Batches: how far each is; of one its tree, its steps, and the jobs that are pending or have failed; cancel it."""

from dataclasses import replace
from typing import Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.errors import BatchError
from kiqbridge.features.batches.overview import (
    WHICH,
    Members,
    MemberState,
    Which,
    cancel_batch,
    cancelling,
    count_batches,
    describe,
    list_batches,
    read_batch,
    read_members,
)
from kiqbridge.web.context import redirect, render, view_of
from kiqbridge.web.guard import requires
from kiqbridge.web.pages.listing import number_of

PER_PAGE: Final = 50
_ROWS_FRESH_S: Final = 3.0


def routes() -> list[Route]:
    """The pages."""
    return [
        Route("/batches", show_all),
        Route("/batches/{bid}", show),
        Route("/batches/{bid}", act, methods=["POST"]),
    ]


def show_all(request: Request) -> Response:
    """A page of them, those that have not succeeded first."""
    view, query = view_of(request), request.query_params
    which: Which = next((each for each in WHICH if each == query.get("show")), "all")
    number, client = number_of(query.get("page", ""), 1), view.operator.client
    return render(
        request,
        "batches.html",
        page=view.read(
            ("batches", which, number), lambda: list_batches(client, number, PER_PAGE, which)
        ),
        counts=view.read(("batches", "counts"), lambda: count_batches(client)),
        which=which,
    )


def show(request: Request) -> Response:
    """One of them."""
    view, query = view_of(request), request.query_params
    client, bid = view.operator.client, request.path_params["bid"]
    batch = view.read(("batch", bid), lambda: read_batch(client, bid))
    if batch is None:
        raise HTTPException(
            404,
            f"There is no batch {bid} (any more): it is kept for 30 days after its success, else for 180 days.",
        )
    status = batch.status
    state: MemberState | None = next(
        (each for each in ("failed", "pending", "done") if each == query.get("state")), None
    )
    cursor = query.get("cursor", "")
    if not cursor.isdecimal():
        cursor = ""
    states = (state,) if state else ()

    def load() -> Members:
        members = read_members(client, status, states, cursor)
        return replace(members, rows=describe(view.operator, batch, members.rows))

    members = view.read(("batch", bid, state, cursor), load, _ROWS_FRESH_S)
    return render(
        request,
        "batch.html",
        batch=batch,
        cancelling=cancelling,
        members=members,
        state=state,
        cursor=cursor,
    )


@requires("operator")
def act(request: Request, form: FormData) -> Response:
    """Cancel it."""
    bid = request.path_params["bid"]
    if form.get("action") != "cancel":
        raise HTTPException(400, "The form asks for no known action; there is cancel.")
    try:
        cancel_batch(view_of(request).operator, bid)
    except BatchError as error:
        raise HTTPException(404, str(error)) from None
    return redirect(
        request,
        f"/batches/{bid}",
        notice=f"Batch {bid} is cancelled: within about 5 s no further job of it begins. Jobs that run go on.",
    )
