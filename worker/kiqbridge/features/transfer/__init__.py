"""Queues and sets on their way between servers: read or taken from one, kept in a file, put into another.

`kiqbridge export` and `kiqbridge restore` call it. Bytes, scores and order stay as they are, also those
of other clients. What jobs need besides their text goes with them. Each step can be repeated after a kill at any moment.
It must never change a job, remove one that is not safely written, or put one in twice.
"""

from kiqbridge.feature import Feature, Verb

_ACTS = "act on jobs, queues and processes"

FEATURE = Feature(
    package=__name__,
    calls={"save_jobs": "saving:save_jobs"},
    verbs=[
        Verb("export", "write queues and sets into a file", "command", _ACTS),
        Verb("restore", "put an export into queues and sets", "command", _ACTS),
    ],
)
