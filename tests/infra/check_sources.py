"""What a translated template must have so that each source of events delivers, no more than it must.

check_template.py calls it. No linter knows these rules:

1. a queue or stream reports each record that failed, waits long enough, gives up into a queue, and the
   role of the function may read it;
2. HTTP is never open to everybody;
3. whoever may invoke the function or send to a queue is named by the resource that it is;
4. no address or password stands in the variables of a function.
"""

import json
from collections.abc import Iterator
from typing import Any

from kiqbridge.aws.template.events import READ_STREAM, READ_TABLE, RECEIVE

READ = {
    "AWS::SQS::Queue": RECEIVE,
    "AWS::DynamoDB::Table": READ_TABLE,
    "AWS::Kinesis::Stream": READ_STREAM,
}
# AWS Lambda, "Using Lambda with Amazon SQS": at least six times the function's timeout.
TIMEOUTS_TO_WAIT = 6
LARGEST_BATCH_WITHOUT_WINDOW = 10
WITH_POLICY = ("AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy")


def source_findings(translated: dict) -> list[str]:
    """What is wrong with the sources of a translated template."""
    resources = translated["Resources"]
    checks = {
        "AWS::Lambda::EventSourceMapping": mapping_faults,
        "AWS::Lambda::Url": url_faults,
        "AWS::ApiGatewayV2::Api": api_faults,
        "AWS::Lambda::Permission": permission_faults,
        **dict.fromkeys(WITH_POLICY, policy_faults),
    }
    findings = [
        f"{name}: {fault}"
        for name, resource in resources.items()
        if resource["Type"] in checks
        for fault in checks[resource["Type"]](resource["Properties"], resources)
    ]
    return [*findings, *secret_findings(translated)]


def mapping_faults(mapping: dict, resources: dict) -> Iterator[str]:
    if mapping.get("FunctionResponseTypes") != ["ReportBatchItemFailures"]:
        yield (
            "Lambda does not look at which records failed, and takes all of a batch as done: write "
            "FunctionResponseTypes: [ReportBatchItemFailures]"
        )
    function = resources[mapping["FunctionName"]["Ref"]]["Properties"]
    arn = mapping["EventSourceArn"]
    source = resources.get(arn["Fn::GetAtt"][0]) if "Fn::GetAtt" in arn else None
    if source is None:
        return
    if source["Type"] == "AWS::SQS::Queue":
        yield from queue_faults(mapping, source["Properties"], function)
    else:
        yield from stream_faults(mapping, resources, function)
    missing = set(READ[source["Type"]]) - allowed_on(arn, role_of(function, resources))
    if missing:
        yield f"its function may not {', '.join(sorted(missing))}: allow it in the function's role"


def queue_faults(mapping: dict, queue: dict, function: dict) -> Iterator[str]:
    timeout, visible_after = function.get("Timeout", 3), queue.get("VisibilityTimeout", 30)
    if visible_after < TIMEOUTS_TO_WAIT * timeout:
        yield (
            f"VisibilityTimeout {visible_after} of its queue is less than six times the function's Timeout "
            f"{timeout}: messages come twice; write {TIMEOUTS_TO_WAIT * timeout} or more"
        )
    if "RedrivePolicy" not in queue:
        yield "a message that always fails comes back for ever: give its queue a RedrivePolicy"
    window = mapping.get("MaximumBatchingWindowInSeconds", 0)
    batch = mapping.get("BatchSize", LARGEST_BATCH_WITHOUT_WINDOW)
    if queue.get("FifoQueue") and window:
        yield "a FIFO queue has no batching window: leave MaximumBatchingWindowInSeconds out"
    if batch > LARGEST_BATCH_WITHOUT_WINDOW and not window:
        yield f"BatchSize {batch} needs a MaximumBatchingWindowInSeconds of 1 or more"


def stream_faults(mapping: dict, resources: dict, function: dict) -> Iterator[str]:
    for name in ("BisectBatchOnFunctionError", "MaximumRetryAttempts"):
        if name not in mapping:
            yield f"one bad record holds up its shard until it expires: write {name}"
    destination = mapping.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
    if destination is None:
        yield "what is given up is lost: write DestinationConfig with OnFailure"
    elif "sqs:SendMessage" not in allowed_on(destination, role_of(function, resources)):
        yield "its function may not send to the destination OnFailure: allow sqs:SendMessage"


def role_of(function: dict, resources: dict) -> dict:
    return resources[function["Role"]["Fn::GetAtt"][0]]["Properties"]


def allowed_on(arn: object, role: dict) -> set[str]:
    """The actions that a role's own policies allow on a resource, whatever condition they are behind."""
    return {
        action
        for policy in role.get("Policies", [])
        for branch in policy.get("Fn::If", [None, policy])[1:]
        if "PolicyDocument" in branch
        for statement in branch["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow" and arn in as_list(statement["Resource"])
        for action in as_list(statement["Action"])
    }


def url_faults(url: dict, _resources: dict) -> Iterator[str]:
    if url.get("AuthType") != "AWS_IAM":
        yield "anybody on the internet may enqueue: write AuthType: AWS_IAM"


def api_faults(api: dict, _resources: dict) -> Iterator[str]:
    for path, methods in api.get("Body", {}).get("paths", {}).items():
        for method, operation in methods.items():
            if not any(entry for entry in operation.get("security", []) if entry != {"NONE": []}):
                yield (
                    f"anybody on the internet may {method.upper()} {path}: write a DefaultAuthorizer "
                    "under Auth, such as AWS_IAM with EnableIamAuthorizer"
                )


def permission_faults(permission: dict, _resources: dict) -> Iterator[str]:
    if permission.get("FunctionUrlAuthType") == "NONE" or permission["Principal"] == "*":
        yield "anybody may invoke the function: name a principal and AWS_IAM"
    elif str(permission["Principal"]).endswith(".amazonaws.com") and not {
        "SourceArn",
        "SourceAccount",
    } & set(permission):
        yield "this service may invoke the function for any account: write SourceArn"


def policy_faults(policy: dict, _resources: dict) -> Iterator[str]:
    for statement in policy["PolicyDocument"]["Statement"]:
        if statement["Effect"] != "Allow" or "Service" not in statement["Principal"]:
            continue
        sources = [
            source
            for operator in statement.get("Condition", {}).values()
            for key, value in operator.items()
            if key.lower() == "aws:sourcearn"
            for source in as_list(value)
        ]
        service = statement["Principal"]["Service"]
        if not sources:
            yield f"{service} may use it for anybody: write a Condition with aws:SourceArn"
        for source in sources:
            # Names of alarms are free, so they have no attribute to refer to before they are made.
            if "*" in json.dumps(source) and service != "cloudwatch.amazonaws.com":
                yield (
                    f"{json.dumps(source)} is wider than the stack (another one's name may begin like it): "
                    "write !GetAtt of the resource"
                )


def secret_findings(translated: dict) -> list[str]:
    """Variables of functions that show a secret to whoever may read the function's configuration."""
    hidden = {
        name
        for name, parameter in translated.get("Parameters", {}).items()
        if parameter.get("NoEcho") in (True, "true")
    }
    return [
        f"{name}: whoever may read its configuration reads {variable}: pass the ARN of a secret, and read "
        "it at run time"
        for name, resource in translated["Resources"].items()
        if resource["Type"] == "AWS::Lambda::Function"
        for variable, value in resource["Properties"]
        .get("Environment", {})
        .get("Variables", {})
        .items()
        if "resolve:secretsmanager" in json.dumps(value) or references(value) & hidden
    ]


def references(node: Any) -> set[str]:
    """The names that Ref names below a node."""
    if isinstance(node, list):
        return set().union(*map(references, node))
    if not isinstance(node, dict):
        return set()
    own = {node["Ref"]} if isinstance(node.get("Ref"), str) else set()
    return own.union(*map(references, node.values()))


def as_list(value: Any) -> list:
    return value if isinstance(value, list) else [value]
