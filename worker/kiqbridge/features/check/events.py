"""What is wrong with the events of the enqueue function, though nothing refuses it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kiqbridge.errors import did_you_mean
from kiqbridge.features.check.rights import OPEN, accepts, may
from kiqbridge.schedule.template_view import Event, View, at
from kiqbridge.schedule.yaml_nodes import Problem


class Fault(NamedTuple):
    """What is wrong, and the property whose line says so; none: the event's own."""

    text: str
    about: str = ""


Faults = Iterator[Fault]

_READ: Final = {
    "SQS": ("sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"),
    "DynamoDB": ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
    "Kinesis": (
        *("kinesis:DescribeStream", "kinesis:DescribeStreamSummary", "kinesis:GetRecords"),
        *("kinesis:GetShardIterator", "kinesis:ListShards"),
    ),
}
_INVOKE: Final = "lambda:InvokeFunction"
_SEND: Final = "sqs:SendMessage"
_KINDS: Final = {
    "AWS::SQS::Queue": "SQS",
    "AWS::DynamoDB::Table": "DynamoDB",
    "AWS::Kinesis::Stream": "Kinesis",
}
_SOURCE: Final = {"SQS": "Queue", "DynamoDB": "Stream", "Kinesis": "Stream"}
# AWS Lambda, "Using Lambda with Amazon SQS": at least six times the function's timeout.
_TIMEOUTS_TO_WAIT: Final = 6
_LARGEST_BATCH_WITHOUT_WINDOW: Final = 10
_EVENTS: Final = "events.amazonaws.com"
_MOST_ATTEMPTS: Final = 185  # EventBridge Scheduler's own limit
_SAMPLE: Final = "Sample"
"""So begins the Description of the rule that SampleSchedules is for."""
_SCHEDULE_PROPERTIES: Final = frozenset(
    {
        *("DeadLetterConfig", "Description", "EndDate", "FlexibleTimeWindow", "GroupName", "Input"),
        *("KmsKeyArn", "Name", "OmitName", "PermissionsBoundary", "RetryPolicy", "RoleArn"),
        *("ScheduleExpression", "ScheduleExpressionTimezone", "StartDate", "State"),
    }
)
_EVENT_TYPES: Final = frozenset(
    {
        *_READ,
        "ScheduleV2",
        "Schedule",
        "EventBridgeRule",
        "CloudWatchEvent",
        "SNS",
        "S3",
        "Api",
        "HttpApi",
    }
)


def event_problems(view: View, mapped: frozenset[str] | None) -> Iterator[Problem]:
    """All of a template.

    Args:
        view: the template.
        mapped: sources that mappings take; None = each.
    """
    for name, function in view.enqueue_functions():
        for text in _function_faults(function):
            yield view.problem(view.line_of(name), name, text)
        for event in (*view.events(name), *_mappings(view, name)):
            for text, about in _event_faults(view, event, function, mapped):
                yield view.problem(event.line_of(about), event.where, text)
        yield from _standalone(view, name)


def _function_faults(function: Mapping[str, Any]) -> Iterator[str]:
    if str(function.get("ReservedConcurrentExecutions", "")) == "0":
        yield (
            "ReservedConcurrentExecutions is 0, so that Lambda refuses each invocation and nothing is enqueued: "
            "leave ReservedConcurrency empty, or give 1 or more"
        )
    url = function.get("FunctionUrlConfig")
    if isinstance(url, Mapping) and url.get("AuthType") != "AWS_IAM":
        yield OPEN
    for name, value in function.items():
        if isinstance(value, Mapping) and value.get("Type") in _EVENT_TYPES:
            yield f"{name} is an event outside of Events, which never fires: indent it below Events"


def _event_faults(
    view: View, event: Event, function: Mapping[str, Any], mapped: frozenset[str] | None
) -> Faults:
    if event.kind in _READ:
        yield from _source_faults(view, event, function)
    elif event.kind in ("HttpApi", "Api"):
        yield from _api_faults(view, event)
    elif event.kind in ("EventBridgeRule", "CloudWatchEvent"):
        yield from _rule_faults(view, event)
    elif event.kind == "SNS":
        queue = at(event.properties, "RedrivePolicy", "deadLetterTargetArn")
        if queue and not accepts(view, queue, "sns.amazonaws.com", event.properties.get("Topic")):
            yield Fault(_not_accepted("sns.amazonaws.com", "its Topic"), "RedrivePolicy")
    elif event.kind == "ScheduleV2":
        yield from _schedule_faults(view, event, function)
    elif event.kind == "S3" and mapped is not None and "s3" not in mapped:
        yield Fault(
            "an event of S3 is no job, and no mapping takes it, so that each one is refused: write a mapping with "
            "match: {source: s3} into mappings.yml"
        )


def _source_faults(view: View, event: Event, function: Mapping[str, Any]) -> Faults:
    properties = event.properties
    if properties.get("FunctionResponseTypes") != ["ReportBatchItemFailures"]:
        yield Fault(
            "Lambda does not look at which records failed, so that what is refused is lost: write "
            "FunctionResponseTypes: [ReportBatchItemFailures]",
            "FunctionResponseTypes",
        )
    arn, role = properties.get(_SOURCE[event.kind]), function.get("Role")
    if event.kind == "SQS":
        yield from _queue_faults(properties, view.resource(arn), function)
    else:
        for name in ("BisectBatchOnFunctionError", "MaximumRetryAttempts"):
            if name not in properties:
                yield Fault(f"one bad record holds up its shard until it expires: write {name}")
        destination = at(properties, "DestinationConfig", "OnFailure", "Destination")
        if destination is None:
            yield Fault("what is given up is lost: write DestinationConfig with OnFailure")
        elif view.resource(destination) is not None and not may(view, role, _SEND, destination):
            yield Fault(
                f"its function may not send to the destination OnFailure: allow {_SEND} in its role"
            )
    if view.resource(arn) is not None:
        missing = [action for action in _READ[event.kind] if not may(view, role, action, arn)]
        if missing:
            yield Fault(
                f"its function may not {', '.join(missing)}, so that nothing is delivered: allow it in its role"
            )


def _queue_faults(
    properties: Mapping[str, Any], queue: Mapping[str, Any] | None, function: Mapping[str, Any]
) -> Faults:
    window = properties.get("MaximumBatchingWindowInSeconds", 0)
    batch = properties.get("BatchSize", _LARGEST_BATCH_WITHOUT_WINDOW)
    if isinstance(batch, int) and batch > _LARGEST_BATCH_WITHOUT_WINDOW and not window:
        yield Fault(
            f"BatchSize {batch} needs a MaximumBatchingWindowInSeconds of 1 or more", "BatchSize"
        )
    if queue is None:
        return
    timeout, visible_after = function.get("Timeout", 3), queue.get("VisibilityTimeout", 30)
    if (
        isinstance(timeout, int)
        and isinstance(visible_after, int)
        and visible_after < _TIMEOUTS_TO_WAIT * timeout
    ):
        yield Fault(
            f"VisibilityTimeout {visible_after} of its queue is less than six times the function's Timeout {timeout}, "
            f"so that messages come twice: write {_TIMEOUTS_TO_WAIT * timeout} or more",
            "Queue",
        )
    if "RedrivePolicy" not in queue:
        yield Fault(
            "a message that always fails comes back for ever: give its queue a RedrivePolicy",
            "Queue",
        )
    if queue.get("FifoQueue") and window:
        yield Fault(
            "a FIFO queue has no batching window: leave MaximumBatchingWindowInSeconds out", "Queue"
        )


def _api_faults(view: View, event: Event) -> Faults:
    reference = event.properties.get("ApiId", event.properties.get("RestApiId"))
    api = view.resource(reference) or view.shared.get(event.kind, {})
    own = event.properties.get("Auth", {})
    if event.kind == "Api" and own.get("ApiKeyRequired"):
        return
    authorizer = own.get("Authorizer", api.get("Auth", {}).get("DefaultAuthorizer"))
    is_elsewhere = reference is not None and view.resource(reference) is None
    if not is_elsewhere and authorizer in (None, "NONE"):
        yield Fault(
            "anybody on the internet may call it: write a DefaultAuthorizer under Auth of its API, such as AWS_IAM "
            "with EnableIamAuthorizer (infra/examples/http_api.yaml)"
        )


def _rule_faults(view: View, event: Event) -> Faults:
    for name in ("InputPath", "Input"):
        if name in event.properties:
            yield Fault(
                f"{name} takes away what the event is identified by, so that a repeated delivery enqueues twice and "
                f"no mapping finds it: leave {name} out, and take the part in args of a mapping",
                name,
            )
    if "DeadLetterConfig" not in event.properties:
        yield Fault(
            "an event that cannot be delivered within a day is lost: write DeadLetterConfig"
        )
    queue, rule = at(event.properties, "DeadLetterConfig", "Arn"), event.where.replace(".", "")
    if queue and not accepts(
        view, queue, _EVENTS, {"Fn::GetAtt": [rule, "Arn"]}
    ):  # as SAM names it
        yield Fault(_not_accepted(_EVENTS, f"!GetAtt {rule}.Arn"), "DeadLetterConfig")


def _not_accepted(service: str, source: str) -> str:
    return (
        f"its dead-letter queue accepts nothing of it, and SAM writes no AWS::SQS::QueuePolicy for a queue given by ARN: "
        f"write a statement for {service} with ArnEquals aws:SourceArn: {source}"
    )


def _schedule_faults(view: View, event: Event, function: Mapping[str, Any]) -> Faults:
    properties, role = event.properties, event.properties.get("RoleArn")
    for name in sorted(properties.keys() - _SCHEDULE_PROPERTIES):
        yield Fault(
            f"{name} is no property of a ScheduleV2 event"
            f"{did_you_mean(name, sorted(_SCHEDULE_PROPERTIES), ': leave it out')}",
            name,
        )
    if "DeadLetterConfig" not in properties:
        yield Fault(
            "a tick that cannot be delivered is lost: write DeadLetterConfig, as the other rules have it"
        )
    if "RoleArn" not in properties:
        yield Fault(
            "SAM makes a role for it that may not send to the dead-letter queue, so that a tick that cannot be "
            "delivered is lost: write RoleArn: !GetAtt ScheduleRole.Arn"
        )
    elif "ScheduleGroup" in view.resources and "GroupName" not in properties:
        yield Fault(
            "it is in the default group, whose schedules ScheduleRole does not trust, so that it never fires: write "
            "GroupName: !Ref ScheduleGroup"
        )
    queue = at(properties, "DeadLetterConfig", "Arn")
    if queue and not may(view, role, _SEND, queue):
        yield Fault(
            f"its role may not send to its dead-letter queue: allow {_SEND} in it", "RoleArn"
        )
    name, alias = event.where.partition(".")[0], function.get("AutoPublishAlias")
    targets: list[object] = [{"Fn::GetAtt": [name, "Arn"]}]
    if alias:  # as SAM names it
        targets = [{"Fn::Sub": f"${{{name}.Arn}}:{each}"} for each in (alias, "*")]
        targets.append({"Ref": f"{name}Alias{alias}"})
    if not any(may(view, role, _INVOKE, each) for each in targets):
        yield Fault(
            f"its role may not invoke it, so that it never fires: allow {_INVOKE} on {targets[-1]}",
            "RoleArn",
        )
    attempts = at(properties, "RetryPolicy", "MaximumRetryAttempts")
    if isinstance(attempts, int) and attempts > _MOST_ATTEMPTS:
        yield Fault(
            f"MaximumRetryAttempts {attempts} is refused by the deployment: write {_MOST_ATTEMPTS} or less",
            "RetryPolicy",
        )
    state = event.nodes.get("State")
    if (
        state is not None
        and "SampleSchedules" in str(state.node.value)
        and not str(properties.get("Description", "")).startswith(_SAMPLE)
    ):
        yield Fault(
            "it follows SampleSchedules, which turns the sample off, and with it this rule: leave State out",
            "State",
        )


def _standalone(view: View, function: str) -> Iterator[Problem]:
    """Schedules of Scheduler that are resources, so that nothing of ours reads them."""
    for name, resource in view.resources.items():
        target = resource["Properties"].get("Target")
        if resource.get("Type") == "AWS::Scheduler::Schedule" and at(target, "Arn") == {
            "Fn::GetAtt": [function, "Arn"]
        }:
            text = (
                "a schedule outside of the function's Events is not checked, not published, and not fired by "
                "make up: write it as an event of Type ScheduleV2"
            )
            yield view.problem(view.line_of(name), name, text)


def _mappings(view: View, function: str) -> Iterator[Event]:
    """Event sources of a function that are resources, as if they stood in its Events."""
    for name, resource in view.resources.items():
        own = resource["Properties"]
        source = view.name_of(own.get("EventSourceArn"))
        kind = _KINDS.get(str(view.resources[source].get("Type"))) if source else None
        if view.name_of(own.get("FunctionName")) == function and kind is not None:
            properties = {**own, _SOURCE[kind]: own["EventSourceArn"]}
            line = view.line_of(name)
            yield Event(
                where=name, name=name, kind=kind, properties=properties, nodes={}, line=line
            )
