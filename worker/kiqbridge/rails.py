"""For what Rails enqueues or performs with Active Job: the types of its arguments, and its jobs (docs/rails.md)."""

from kiqbridge.client.job import RemoteActiveJob
from kiqbridge.client.rails import RailsJob, current_job
from kiqbridge.wire.active_job_values import GlobalID, Range, Symbol

__all__ = ["GlobalID", "RailsJob", "Range", "RemoteActiveJob", "Symbol", "current_job"]
