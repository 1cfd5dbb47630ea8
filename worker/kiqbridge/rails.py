"""For declared jobs that perform what Rails enqueued with Active Job (docs/rails.md)."""

from kiqbridge.client.rails import RailsJob, current_job

__all__ = ["RailsJob", "current_job"]
