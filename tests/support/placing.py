"""Placing dynamic schedules once, as a process does that does not stay."""

from kiqbridge import Client
from kiqbridge.features.dynamic.placing import HORIZON_S, Placer, PlacingReport
from kiqbridge.store.redis_connection import RedisConnection


def place_due(
    client: Client,
    connection: RedisConnection | None = None,
    *,
    by: str,
    now: float | None = None,
    horizon_s: float = HORIZON_S,
) -> PlacingReport:
    """Evaluate all of them, see `Placer`; by default on the connections of the client."""
    placer = Placer(client, client.keys, by=by, horizon_s=horizon_s)
    return placer.place(client.pool if connection is None else connection, now)
