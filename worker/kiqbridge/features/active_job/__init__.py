"""Active Job: what Rails enqueues is performed here, and what is enqueued here Rails performs (docs/how_to/rails.md, protocol §17).

For applications beside Rails. Nothing of it is loaded before the first such job. It must never guess at an argument: what it
cannot read or write is refused.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(
    package=__name__,
    calls={
        "parse_active_job": "form:parse",
        "active_job_arguments": "perform:written",
        "perform_active_job": "perform:perform_of",
    },
)
