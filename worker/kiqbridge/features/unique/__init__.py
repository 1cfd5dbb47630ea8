"""Unique jobs: one of a class with the same arguments waits at a time, or waits and runs (docs/how_to/flow.md).

For jobs that would only do again what another one does anyway. `@job(unique=Unique(…))` asks for it: the push of such a job
takes a lock, in the script that writes it; where no job has it, nothing of it is loaded. It must never run two jobs under
one lock, nor keep a lock whose job is gone.
"""

from kiqbridge.feature import Feature, Tab, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb(
            "lock",
            "list locks of unique jobs, and free one",
            "command",
            group="act on jobs, queues and processes",
        )
    ],
    pages="page:routes",
    tabs=[Tab("/locks", "Locks", "Flow", after="/limiters", key="k")],
    begins={"lock": "locks:ask_lock"},
    consequences="locks:unlock",
    effects=["unlock"],
    open_jobs="locks",
    examines="doctor",
)
