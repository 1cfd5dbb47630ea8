"""All paths of the application, the screens in the order of the navigation."""

from typing import Final

from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from kiqbridge.web.context import FOLDER
from kiqbridge.web.pages import (
    audit,
    busy,
    doctor,
    health,
    job,
    job_sets,
    metrics,
    now,
    processes,
    prometheus,
    queue,
    queues,
    schedules,
    sources,
)

ROUTES: Final[list[BaseRoute]] = [
    *now.ROUTES,
    *queues.ROUTES,
    *queue.ROUTES,
    *job_sets.ROUTES,
    *job.ROUTES,
    *busy.ROUTES,
    *schedules.ROUTES,
    *metrics.ROUTES,
    *processes.ROUTES,
    *doctor.ROUTES,
    *audit.ROUTES,
    *sources.ROUTES,
    *prometheus.ROUTES,
    *health.ROUTES,
    Mount("/static", StaticFiles(directory=FOLDER / "static"), name="static"),
]
