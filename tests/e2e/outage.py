"""Redis is away while sources deliver: everything is performed once it is back, and nothing twice."""

import json
import time
import uuid
from collections import Counter
from typing import Final

from botocore.exceptions import ClientError
from e2e.performers import job_for
from e2e.report import Line
from e2e.sources import invoke, publish_event, publish_to, send_message
from e2e.stage import Stage
from support.servers import ServerProcess
from support.waiting import wait_until

OUTAGE: Final = "Redis away, 4 sources"
JOBS_OF_EACH: Final = 5
SOURCES: Final = {
    # By the names in the function's log. With a key: a push whose reply was lost is otherwise an error, since nobody knows what became of it.
    "direct": lambda stage, job, marker: invoke(stage, {**job, "dedupe_key": marker}, "Event"),
    "bus": publish_event("shop.orders", "ShopBus"),
    "sns": publish_to("NoticesTopic", "kind=job"),
    "sqs": send_message,
}
BACK_S: Final = 60
"""Until all is performed: a spilled message comes back every two seconds here, two minutes in AWS."""


def play_outage(stage: Stage, server: ServerProcess) -> Line:
    """Freeze the server, let four sources deliver, wait for the spill queue, and thaw it."""
    name, run = OUTAGE, uuid.uuid4().hex[:8]
    markers = [
        f"away/{each}/{performer}/{index}/{run}"
        for each in SOURCES
        for performer in stage.performers.names
        for index in range(JOBS_OF_EACH)
    ]
    began = time.time()
    try:
        server.pause()
        try:
            for marker in markers:
                _, source, performer, *_ = marker.split("/")
                SOURCES[source](stage, job_for(performer, marker), marker)
            wait_until(
                lambda: spilled(stage, began).keys() >= SOURCES.keys(),
                60,
                lambda: f"a spilled event of each source; so far {spilled(stage, began)}",
            )
        finally:
            server.resume()
        back = time.time()
        wait_until(
            lambda: performed_of(stage, run) >= set(markers),
            BACK_S,
            lambda: (
                f"{len(markers)} jobs performed; missing {sorted(set(markers) - performed_of(stage, run))}"
            ),
        )
        last = time.time() - back
        count = sum(spilled(stage, began).values())
        # A second one of any of them would come with the next deliveries of the queue.
        wait_until(lambda: not waiting(stage, "SpillQueue"), 30, "an empty spill queue")
        counts = {marker: len(stage.performers.performed(marker=marker)) for marker in markers}
        twice = [marker for marker, count in counts.items() if count != 1]
        assert not twice, f"performed twice: {twice}"
    except (AssertionError, ClientError) as error:
        return Line(source=name, outcome="FAILED", remark=f"{error}; {stage.refusals(began)}")
    return Line(
        source=name,
        outcome="ok",
        delivered=f"{len(markers)} of {len(markers)}",
        performed_by=", ".join(stage.performers.names),
        ms=f"{last * 1000:.0f}",
        remark=f"{count} events of all 4 spilled; each job once; ms after the server's return",
    )


def spilled(stage: Stage, since: float) -> Counter[str]:
    """Events of each source that the function sent to the spill queue, by its log."""
    lines = [line for line in stage.function_log(since) if '"outcome":"spilled"' in line]
    return Counter(json.loads(line)["source"] for line in lines)


def waiting(stage: Stage, queue: str) -> int:
    """Messages of a queue, visible and in flight."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    answer = stage.client("sqs").get_queue_attributes(
        QueueUrl=stage.resources[queue], AttributeNames=names
    )
    return sum(int(answer["Attributes"][name]) for name in names)


def performed_of(stage: Stage, run: str) -> set[str]:
    """Markers of this run that were performed."""
    markers = (entry["args"][0] for entry in stage.performers.performed() if entry["args"])
    return {marker for marker in markers if isinstance(marker, str) and marker.endswith(run)}
