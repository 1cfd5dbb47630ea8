"""The doctor: what is wrong with Redis, with the jobs in it, with the workers and with a template, and what to do.

`kiqbridge doctor` and the page /doctor call it. `examine` looks at a running system, `examine_template`
at a file. It must never change anything, nor look at more than a bounded number of keys and jobs.
"""

from kiqbridge.operate.doctor.examination import CATALOGUE, examine, examine_template
from kiqbridge.operate.doctor.finding import AREAS, Area, Finding, Rule, Selection, Status

__all__ = [
    "AREAS",
    "CATALOGUE",
    "Area",
    "Finding",
    "Rule",
    "Selection",
    "Status",
    "examine",
    "examine_template",
]
