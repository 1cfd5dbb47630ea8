"""The links at the top of each page."""

from typing import Final

LINKS: Final = (
    ("/", "Now"),
    ("/queues", "Queues"),
    ("/busy", "Busy"),
    ("/retries", "Retries"),
    ("/scheduled", "Scheduled"),
    ("/dead", "Dead"),
    ("/schedules", "Schedules"),
    ("/metrics", "Metrics"),
    ("/processes", "Processes"),
    ("/doctor", "Doctor"),
    ("/audit", "Audit"),
    ("/sources", "Sources"),
)
"""Path and label, in the order of an operator's questions."""
