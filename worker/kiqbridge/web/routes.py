"""All paths of the application, the screens in the order of the navigation."""

from typing import Final

from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from kiqbridge.web.context import FOLDER
from kiqbridge.web.pages import health, job, job_sets, queue, queues

ROUTES: Final[list[BaseRoute]] = [
    *queues.ROUTES,
    *queue.ROUTES,
    *job_sets.ROUTES,
    *job.ROUTES,
    *health.ROUTES,
    Mount("/static", StaticFiles(directory=FOLDER / "static"), name="static"),
]
