"""Now: whether all is well, else the worst facts with what to do; then counts, throughput, what comes, who died."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.api import (
    DeadSet,
    Fact,
    Facts,
    History,
    ScheduleSet,
    ScheduleView,
    SortedEntry,
    TopJobs,
    Verdict,
    fetch_facts,
    fetch_history,
    judge,
)
from kiqbridge.web.context import View, render, view_of
from kiqbridge.web.pages.metrics import FRESH_S, fetch_top, throughput

WORST: Final = 3
MORE: Final = 50
"""So many more facts are folded below the worst; the others are counted."""
NEXT: Final = 5
DEATHS: Final = 5
SCHEDULES_FRESH_S: Final = 10.0
_MINUTE_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What the screen shows besides its plot.

    Attributes:
        facts: the state.
        verdict: what is wrong with it.
        today: what was processed and failed on this UTC day.
        deaths: the last jobs that died.
        upcoming: the schedules that fire next.
    """

    facts: Facts
    verdict: Verdict
    today: History
    deaths: Sequence[SortedEntry]
    upcoming: Sequence[ScheduleView]

    @property
    def queues(self) -> int:
        """How many there are."""
        return len(self.facts.queues)

    @property
    def waiting(self) -> int:
        """Jobs in all queues."""
        return sum(queue.size for queue in self.facts.queues)

    @property
    def latency_s(self) -> float:
        """Seconds for which the oldest job of all queues has waited; negative if all are enqueued in the future."""
        return max((queue.latency_s for queue in self.facts.queues), default=0.0)

    @property
    def busy(self) -> int:
        """Jobs that run."""
        return sum(process.busy for process in self.facts.processes)

    @property
    def threads(self) -> int:
        """Jobs that could run at once."""
        return sum(process.concurrency for process in self.facts.processes)


def show(request: Request) -> Response:
    """The first screen."""
    view = view_of(request)
    now = view.read(("now",), lambda: fetch(view))

    def draw() -> tuple[float, str]:
        top = fetch_top(view, "1h")
        return rate_per_minute(top), _plot(top)

    rate, plot = view.read(("plot of now",), draw, FRESH_S)
    return render(
        request,
        "now.html",
        link=partial(_link, view),
        now=now,
        worst=now.verdict.worst(WORST),
        more=now.verdict.facts[WORST : WORST + MORE],
        rest=max(0, len(now.verdict.facts) - WORST - MORE),
        rate=rate,
        plot=plot,
    )


def _link(view: View, fact: Fact) -> str:
    """Where more is shown."""
    return f"{view.base}{fact.link}"


def _plot(top: TopJobs) -> str:
    if not top.classes:
        return ""
    return throughput(top, list(top.classes.values()), title="Executions in the last hour")


def fetch(view: View) -> Now:
    """All of it; what fires next is read less often, since each expression is computed."""
    facts = fetch_facts(view.operator)
    schedules = view.read(
        ("next schedules",), lambda: ScheduleSet(view.operator).fetch(last=1), SCHEDULES_FRESH_S
    )
    return Now(
        facts=facts,
        verdict=judge(facts),
        today=fetch_history(1, operator=view.operator),
        deaths=DeadSet(view.operator).page(1, DEATHS).rows,
        upcoming=[each for each in schedules if each.next_at is not None][:NEXT],
    )


def rate_per_minute(top: TopJobs) -> float:
    """Executions a minute in the last five whole minutes, as workers measured them."""
    buckets = top.buckets[-6:-1]
    done = sum(
        each.series[at].executions
        for each in top.classes.values()
        for at in buckets
        if at in each.series
    )
    return done * _MINUTE_S / (len(buckets) * top.bucket_s) if buckets else 0.0


ROUTES: Final = [Route("/", show)]
