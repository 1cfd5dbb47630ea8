"""What Redis does not take now waits in a queue of SQS, and comes back by itself; dead letters are replayed by hand.

For those whose events must not wait for AWS to deliver them again, or would not. The enqueue function loads it where a
spill queue is set; elsewhere it costs nothing. It must never enqueue twice what it may have enqueued, nor what the
function's allow-lists refuse.
"""

from kiqbridge.feature import Feature, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb(
            "spill",
            "show, drain and replay jobs that could not be enqueued",
            "command",
            group="act on jobs, queues and processes",
            has_fleet=False,
        )
    ],
    pusher="pusher:spilling",
    source="source:show",
)
