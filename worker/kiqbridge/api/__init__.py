"""The operator's API: look at queues, sets, processes and counts, and act on jobs, in Sidekiq's words.

The command line, the web page and users' own code call it. It reads what anybody wrote,
Ruby included, and raises for none of it; each action is atomic and audited. It must never run a job,
nor hold more than a page of a set in memory.
"""

from typing import TYPE_CHECKING, Any

from kiqbridge.api.actions import Action, Applied
from kiqbridge.api.audit import AuditEntry, read_audit, record_audit
from kiqbridge.api.counts import Counts
from kiqbridge.api.facts import Facts, fetch_facts
from kiqbridge.api.filters import Filter
from kiqbridge.api.history import history_of
from kiqbridge.api.in_flight import HeldJob, Suspects, fetch_in_flight, fetch_suspects
from kiqbridge.api.job_list import Page
from kiqbridge.api.life import Attempt, End, Event, JobHistory, Relative, Wait
from kiqbridge.api.memory import KindOfKeys, MemoryByKind, fetch_memory_by_kind
from kiqbridge.api.metrics import (
    ClassCounts,
    JobMetrics,
    TopJobs,
    class_histograms,
    complete_until,
    job_metrics,
    top_jobs,
)
from kiqbridge.api.operator import Operator, default_operator, open_operator
from kiqbridge.api.percentiles import Histogram, bucket_label
from kiqbridge.api.processes import Process, ProcessSet
from kiqbridge.api.queue_rates import QueueRates, fetch_queue_rates
from kiqbridge.api.queues import Queue, QueuedJob
from kiqbridge.api.schedules import Occurrence, ScheduleSet, ScheduleView
from kiqbridge.api.sets import DeadSet, JobSet, RetrySet, ScheduledSet, SortedEntry
from kiqbridge.api.sources import Guard, Sources, fetch_sources
from kiqbridge.api.stats import History, QueueStats, Stats, fetch_history
from kiqbridge.api.verdict import Fact, Limits, Verdict
from kiqbridge.api.verdict_rules import fetch_verdict, judge
from kiqbridge.api.whereabouts import Found, find_job
from kiqbridge.api.works import Work, WorkSet
from kiqbridge.client.job_handle import JobStatus
from kiqbridge.engine.inflight.incarnations import search_unregistered
from kiqbridge.wire.job_record import JobRecord

if TYPE_CHECKING:
    from kiqbridge.features.iterable.progress import Iteration, fetch_iterations

_OF_FEATURES: dict[str, str] = {
    "Iteration": "kiqbridge.features.iterable.progress",
    "fetch_iterations": "kiqbridge.features.iterable.progress",
}
"""Names that features bring: the module of each."""

__all__ = [
    "Action", "Applied", "Attempt", "AuditEntry", "ClassCounts", "Counts", "DeadSet", "End",
    "Event", "Fact", "Facts", "Filter", "Found", "Guard", "HeldJob", "Histogram", "History",
    "Iteration", "JobHistory", "JobMetrics", "JobRecord", "JobSet", "JobStatus", "KindOfKeys",
    "Limits", "MemoryByKind", "Occurrence", "Operator", "Page", "Process", "ProcessSet", "Queue",
    "QueueRates", "QueueStats", "QueuedJob", "Relative", "RetrySet", "ScheduleSet", "ScheduleView",
    "ScheduledSet", "SortedEntry", "Sources", "Stats", "Suspects", "TopJobs", "Verdict", "Wait",
    "Work", "WorkSet", "bucket_label", "class_histograms", "complete_until", "default_operator",
    "fetch_facts", "fetch_history", "fetch_in_flight", "fetch_iterations", "fetch_memory_by_kind",
    "fetch_queue_rates", "fetch_sources", "fetch_suspects", "fetch_verdict", "find_job",
    "history_of", "job_metrics", "judge", "open_operator", "read_audit", "record_audit",
    "search_unregistered", "top_jobs",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if (home := _OF_FEATURES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - its name shall not be one of this package

    return getattr(import_module(home), name)
