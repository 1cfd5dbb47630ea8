"""Other libraries' ways of declaring and enqueuing jobs, for code that moves here by changing its import.

Users import `kiqbridge.compat.celery`; nothing else here imports it. It must never hide that something is missing:
what has no counterpart is refused with what to write in its place.
"""
