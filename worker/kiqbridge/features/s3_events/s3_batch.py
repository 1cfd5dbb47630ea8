"""S3 Batch Operations: each task is an object of the manifest, and is answered by a result code.

The identity is the operation's job and the task. A task that failed because Redis could not be reached is
answered `TemporaryFailure`, so that S3 repeats it; one that is refused, `PermanentFailure`.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote_plus

from kiqbridge.aws.record import Answering, Delivery, Record, Result
from kiqbridge.aws.sources import reading
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.runtime.redaction import shorten

_LONGEST_RESULT: Final = 1_000
"""Characters of a result's text; the completion report of S3 cuts longer ones."""


def read(event: Mapping[str, Any]) -> Delivery:
    """A record for each task.

    Raises:
        EventError: it has no tasks, or no ids by which to answer.
    """
    tasks = event["tasks"]
    if not isinstance(tasks, list) or not tasks:
        raise EventError(f"tasks: {shorten(tasks)} is not a list with at least one task")
    operation = reading.text_at(reading.mapping_at(event, "job", ""), "id", "job")
    return Delivery(
        source="s3-batch",
        records=[
            _record(event, task, operation, f"tasks[{index}]") for index, task in enumerate(tasks)
        ],
        answering=Answering.EACH,
        answer=lambda results: {
            "invocationSchemaVersion": event["invocationSchemaVersion"],
            "treatMissingKeysAs": "PermanentFailure",
            "invocationId": event.get("invocationId"),
            "results": [_result(each) for each in results],
        },
    )


def _result(result: Result) -> dict[str, str]:
    code, text = "Succeeded", ", ".join(job.jid for job in result.jobs)
    if result.error is not None:
        is_refused = isinstance(result.error, EventError | PayloadError)
        code = "PermanentFailure" if is_refused else "TemporaryFailure"
        text = str(result.error)
    return {
        "taskId": result.record.item or "",
        "resultCode": code,
        "resultString": text[:_LONGEST_RESULT],
    }


def _record(event: Mapping[str, Any], given: object, operation: str, where: str) -> Record:
    task = reading.mapping_or_empty(given)
    try:
        identifier = reading.text_at(task, "taskId", where)
        key = unquote_plus(reading.text_at(task, "s3Key", where))
    except EventError as error:
        item = reading.text_or_none(task.get("taskId"))
        return Record(source="s3-batch", event=event, where=where, item=item, error=error)
    # Version 1.0 of the schema has an ARN, 2.0 the name.
    bucket = str(task.get("s3Bucket") or task.get("s3BucketArn") or "").rpartition(":")[2]
    return Record(
        source="s3-batch",
        event={**event, "tasks": [{**task, "s3Key": key}]},
        where=where,
        origin=f"s3:{bucket}" if bucket else "",
        facets=reading.facets_of(bucket=bucket, key=key, operation=operation),
        identity=reading.of_service("s3-batch", operation, identifier),
        item=identifier,
    )
