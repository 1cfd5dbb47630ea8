"""Jobs that have ended, remembered: the last ones of each class, and in all (docs/how_to/dead_jobs.md).

For those who are asked what became of a job. `keep_done: 0` turns it off, and then a worker loads nothing of it. A thread
writes what has ended, once a second at most, and nothing while Redis is nearly full. It must never delay a job, keep an
argument, nor take more of Redis than its bounds.
"""

from kiqbridge.feature import Feature, Tab, Verb

FEATURE = Feature(
    package=__name__,
    settings=["keep_done"],
    verbs=[Verb("done", "list jobs that have ended", "command", group="look at what goes on")],
    worker="keeper:roles",
    calls={"done_classes": "reading:classes_of"},
    history="reading:part_of",
    pages="page:routes",
    tabs=[Tab("/done", "Done", "Jobs", after="/dead", key="f")],
)
