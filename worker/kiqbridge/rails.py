"""For what Rails enqueues or performs with Active Job: the types of its arguments, and its jobs (docs/rails.md)."""

from kiqbridge.client.job import RemoteActiveJob
from kiqbridge.client.rails import GlobalID, RailsJob, Range, Symbol, current_job

__all__ = ["GlobalID", "RailsJob", "Range", "RemoteActiveJob", "Symbol", "current_job"]
