"""The doctor: what is wrong with Redis, with the jobs in it, with the workers and with a template, and what to do.

`kiqbridge doctor` and the page /doctor call it. `examination.examine` looks at a running system, `examine_template` at a
file. It must never change anything, nor look at more than a bounded number of keys and jobs.
"""

from kiqbridge.feature import Feature, Tab, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb(
            "doctor",
            "find what is wrong with Redis, jobs and workers",
            "command",
            group="look at what goes on",
        )
    ],
    pages="page:routes",
    tabs=[Tab("/doctor", "Doctor", "Insight", after="/metrics", key="o")],
)
