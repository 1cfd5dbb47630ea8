"""What runs at this moment, as the heartbeat publishes it (protocol §10.4)."""

from typing import NamedTuple


class UnitOfWork(NamedTuple):
    """A running job: its queue, its text as fetched, and when it began (epoch seconds)."""

    queue: str
    text: bytes
    run_at: float
