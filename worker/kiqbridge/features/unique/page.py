"""Locks of unique jobs: which job owns each; free it."""

from typing import Final

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.features.unique.overview import HeldLock, free_lock, freeing, list_locks
from kiqbridge.web.context import redirect, render, view_of
from kiqbridge.web.guard import requires
from kiqbridge.web.pages.listing import number_of

PER_PAGE: Final = 50
_CLASS_FRESH_S: Final = 5.0


def routes() -> list[Route]:
    """The page."""
    return [Route("/locks", show), Route("/locks", act, methods=["POST"])]


def show(request: Request) -> Response:
    """A page of them."""
    view, query = view_of(request), request.query_params
    number, job_class = (
        number_of(query.get("page", ""), 1),
        query.get("q", "").strip().removeprefix("class:"),
    )
    page = view.read(
        ("locks", number, job_class),
        lambda: list_locks(view.operator, number, PER_PAGE, job_class),
        _CLASS_FRESH_S if job_class else 1.0,
    )
    search = {"path": "/locks", "what": "locks", "q": job_class, "hint": "a class"}
    return render(
        request, "locks.html", page=page, job_class=job_class, search=search, freeing=freeing
    )


@requires("operator")
def act(request: Request, form: FormData) -> Response:
    """Free those that the form names, each with its owner."""
    operator = view_of(request).operator
    pairs = list(zip(form.getlist("name"), form.getlist("jid"), strict=True))
    freed = sum(free_lock(operator, HeldLock(str(name), str(jid), 0.0)) for name, jid in pairs)
    said = "is freed" if freed else "was free before, or another job owns it"
    notice = (
        f"Lock {pairs[0][0]} {said}."
        if len(pairs) == 1
        else f"{freed} of {len(pairs)} locks are freed."
    )
    return redirect(request, "/locks", notice=notice)
