"""For what Rails enqueues or performs with Active Job: the types of its arguments, and its jobs (docs/rails.md)."""

from kiqbridge.client.rails import GlobalID, RailsJob, Range, Symbol, current_job
from kiqbridge.client.remote import RemoteActiveJob

__all__ = ["GlobalID", "RailsJob", "Range", "RemoteActiveJob", "Symbol", "current_job"]
