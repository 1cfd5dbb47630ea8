"""Jobs of Rails' Active Job: the types of their arguments, and jobs that Rails performs (docs/how_to/rails.md)."""

from kiqbridge.features.active_job.perform import RailsJob, current_job
from kiqbridge.features.active_job.remote import RemoteActiveJob
from kiqbridge.features.active_job.values import GlobalID, Range, Symbol

__all__ = ["GlobalID", "RailsJob", "Range", "RemoteActiveJob", "Symbol", "current_job"]
