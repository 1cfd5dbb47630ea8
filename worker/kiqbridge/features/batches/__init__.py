"""Batches, groups and chains: jobs that belong together, and what is pushed when they have ended (docs/how_to/batches.md).

For those whose jobs depend on each other. Where no job is in a batch or a chain, a worker loads of it
what looks at an end, with the first end of a job under flow control. It must never count an end twice, nor begin a step twice, also when a process is killed.
"""

from kiqbridge.feature import Feature, Tab, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb(
            "batch",
            "list batches, groups and chains; show or cancel one",
            "command",
            group="act on jobs, queues and processes",
        )
    ],
    pages="page:routes",
    tabs=[Tab("/batches", "Batches", "Flow", key="t")],
    calls={"show_batch": "command:show_batch", "signature": "signatures:signature"},
    barrier="cancelled:CancelledBatches",
    values={"next": "steps:passes_value", "place": "steps:gives_result"},
    effects=[
        *("batch_make", "batch_jobs", "batch_seal", "batch_outline"),
        *("batch_end", "batch_result", "batch_results_over"),
    ],
    open_jobs="gone",
    examines="doctor",
    consequences="ends:effects_of",
    history="history:part_of",
)
