"""Every effect on Redis: connections that retry and reconnect, the scripts, the wire profile.

The client, the in-flight lists and the engine call it. It must never decide what becomes of a job.
"""

from kiqbridge.store import lean_redis  # noqa: F401 - before any module of redis-py
