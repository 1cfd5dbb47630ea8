"""Jobs of classes that no process declares which may take them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kiqbridge.api.processes import Process
from kiqbridge.api.record import JobRecord
from kiqbridge.client.rails import performed_class
from kiqbridge.wire.names import shown

RETRY = "retry"
NOT_FOUND = "uninitialized constant"
"""How the message of the error begins with which workers of both languages refuse such a job."""


def unknown_classes(
    jobs: Iterable[tuple[str, JobRecord]], processes: Sequence[Process]
) -> Mapping[str, int]:
    """`CLASS in PLACE` → how many of these jobs are of a class that is not declared where they would be performed.

    Args:
        jobs: where each lies (`queue NAME`, `retry`, `schedule`), and what it says.
        processes: those that live. One that does not say what it declares, as Ruby's, may know any class.
    """
    serving: dict[str, list[Process]] = {}
    for each in processes:
        for queue in each.queues:
            serving.setdefault(queue, []).append(each)
    found: Counter[str] = Counter()
    for place, job in jobs:
        if not job.job_class:
            continue
        name = performed_class(job.item)
        failed = place == RETRY and job.error_message.startswith(NOT_FOUND)
        takers = [each.declared for each in serving.get(job.queue, ())]
        nobody = bool(takers) and all(known is not None and name not in known for known in takers)
        if failed or nobody:
            found[f"{shown(name)} in {shown(place)}"] += 1
    return found
