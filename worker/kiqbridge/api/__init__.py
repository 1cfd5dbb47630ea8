"""The operator's API: look at queues, sets, processes and counts, and act on jobs, in Sidekiq's words.

The command line, the web page, the terminal and users' own code call it. It reads what anybody wrote,
Ruby included, and raises for none of it; each action is atomic and audited. It must never run a job,
nor hold more than a page of a set in memory.
"""

from kiqbridge.api.filters import Filter
from kiqbridge.api.metrics import (
    ClassCounts,
    Counts,
    JobMetrics,
    TopJobs,
    job_metrics,
    top_jobs,
)
from kiqbridge.api.operator import Operator, default_operator, open_operator
from kiqbridge.api.percentiles import Histogram, bucket_label
from kiqbridge.api.processes import Process, ProcessSet, Work, WorkSet
from kiqbridge.api.queues import Queue, QueuedJob
from kiqbridge.api.record import JobRecord
from kiqbridge.api.sets import DeadSet, JobSet, Page, RetrySet, ScheduledSet, SortedEntry
from kiqbridge.api.stats import History, QueueStats, Stats, fetch_history

__all__ = [
    "ClassCounts",
    "Counts",
    "DeadSet",
    "Filter",
    "Histogram",
    "History",
    "JobMetrics",
    "JobRecord",
    "JobSet",
    "Operator",
    "Page",
    "Process",
    "ProcessSet",
    "Queue",
    "QueueStats",
    "QueuedJob",
    "RetrySet",
    "ScheduledSet",
    "SortedEntry",
    "Stats",
    "TopJobs",
    "Work",
    "WorkSet",
    "bucket_label",
    "default_operator",
    "fetch_history",
    "job_metrics",
    "open_operator",
    "top_jobs",
]
