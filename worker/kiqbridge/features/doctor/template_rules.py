"""Rules about the functions, queues, tasks and roles of a template."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from kiqbridge.api.verdict import Finding, Rule
from kiqbridge.api.wording import listed
from kiqbridge.features.doctor.finding import counted
from kiqbridge.features.doctor.template_model import (
    Model,
    Resource,
    alternatives,
    at,
    items_of,
    mapping_of,
    numbers_of,
    texts_of,
)
from kiqbridge.schedule.cloudformation import NO_VALUE

TIMES: Final = 6
"""As AWS advises: a batch may be throttled and tried again within the visibility timeout."""
DEFAULT_TIMEOUT_S: Final = 3
DEFAULT_VISIBILITY_S: Final = 30
LEAST_TIMEOUT_S: Final = 10
"""Three seconds to connect, three to wait for an answer, and a second try."""
STOP_S: Final = 30
"""ECS' own StopTimeout."""
WORKER_TIMEOUT_S: Final = 25
TO_GIVE_BACK_S: Final = 5
RUNTIMES: Final = frozenset({"python3.11", "python3.12", "python3.13", "python3.14"})
ARCHITECTURES: Final = frozenset({"arm64", "x86_64"})

_ASYNCHRONOUS: Final = frozenset(
    {"ScheduleV2", "Schedule", "SNS", "S3", "EventBridgeRule", "CloudWatchEvent", "IoTRule"}
)
_WITH_DEAD_LETTERS: Final = frozenset({"ScheduleV2", "Schedule", "EventBridgeRule"})
_STREAMS: Final = frozenset({"Kinesis", "DynamoDB"})

WITHOUT_ARN: Final = (
    "ec2:",
    "ecr:GetAuthorizationToken",
    "xray:",
    "ssmmessages:",
    "cloudwatch:PutMetricData",
    "logs:DescribeLogGroups",
)
"""Beginnings of actions that AWS allows on all resources only."""

_ROLES: Final = ("AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
_FUNCTION: Final = "AWS::Serverless::Function"
_WIDE: Final = ("AdministratorAccess", "PowerUserAccess", "FullAccess")

_rule: Final = partial(Rule, area="template", command="sam deploy")

VISIBILITY: Final = _rule(
    id="visibility-timeout",
    reports=f"SQS queues whose visibility timeout is less than {TIMES} times the Timeout of the function",
    why="a message comes again while the function still works at it, and its receives are used up by throttling",
    do=f"set VisibilityTimeout of the queue to {TIMES} times the function's Timeout",
)
DEAD_LETTER: Final = _rule(
    id="dead-letter",
    reports="a function, schedule, queue or stream whose failed events are kept nowhere",
    why="AWS gives up after some attempts, and the job was never enqueued: no log or metric of yours shows it",
    do="name a dead-letter queue there, or set MaximumRetryAttempts: 0 where the next event does the same",
)
RESERVED: Final = _rule(
    id="reserved-concurrency",
    reports="an enqueue function without ReservedConcurrentExecutions, or with 0",
    why="a burst takes the concurrency of the account and all connections of Redis; with 0 nothing is enqueued",
    do="set ReservedConcurrentExecutions, such as 20; a parameter may leave it empty",
)
ROUTES: Final = _rule(
    id="vpc-endpoints",
    reports="functions in a VPC whose template makes neither endpoints nor a NAT gateway",
    why="a function in a VPC has no internet: it cannot read its secret, nor spill into SQS, and times out",
    do="make endpoints for secretsmanager (or ssm) and sqs (infra/endpoints.yaml), or a NAT gateway; ignore "
    "the rule if the subnets have one",
)
FUNCTION_TIMEOUT: Final = _rule(
    id="function-timeout",
    reports=f"functions with a Timeout below {LEAST_TIMEOUT_S} s",
    why="the function is killed before it sees that Redis is away, so that it neither spills nor reports",
    do=f"set Timeout to {LEAST_TIMEOUT_S} s or more, better 20",
)
REDIS_TLS: Final = _rule(
    id="redis-tls",
    reports="an address redis:// in a function or task; an ElastiCache without TransitEncryptionEnabled",
    why="jobs, their arguments and the password cross the network as they are",
    do="write rediss://, and TransitEncryptionEnabled: true",
)
ALARMS: Final = _rule(
    id="alarms",
    reports="a template with functions of Kiqbridge and no alarm",
    why="no alarm reports dead letters, failed ticks and queues that grow",
    do="nest infra/observability.yaml (CreateObservability=true), or write alarms (infra/README.md)",
)
RUNTIME: Final = _rule(
    id="runtime",
    reports="functions with another Runtime or architecture than Kiqbridge is built for",
    why="the layer's compiled packages cannot be loaded: each invocation fails",
    do=f"use one of {', '.join(sorted(RUNTIMES))}, and arm64 or x86_64, as the layer was built",
)
TASK_STOP: Final = _rule(
    id="task-stop-timeout",
    reports="a worker's container whose StopTimeout ends before KIQBRIDGE_TIMEOUT_S and 5 s more",
    why="ECS kills the worker before it gives its jobs back: they wait for half a minute, and begin again",
    do="raise StopTimeout (120 at most on Fargate), or lower KIQBRIDGE_TIMEOUT_S",
)


IAM: Final = _rule(
    id="iam",
    reports="roles and functions with * among actions or resources, or with a managed policy of full access",
    why="an attacker who takes over a function or a worker can do all that it may do",
    do="name each action and each resource",
)


def check_visibility(model: Model) -> Iterator[Finding]:
    """Each queue from which a function reads."""
    short = []
    for function, source in _queue_sources(model):
        queue = model.find(source, "AWS::SQS::Queue")
        if queue is None:
            continue
        wanted = TIMES * max(numbers_of(function.properties.get("Timeout")) or [DEFAULT_TIMEOUT_S])
        has = numbers_of(queue.properties.get("VisibilityTimeout")) or [DEFAULT_VISIBILITY_S]
        if min(has) < wanted:
            short.append(f"{queue.place} has {min(has)} s, {function.name} needs {wanted} s")
    yield VISIBILITY.summed(short, "no queue is too short for its function", is_problem=True)


def check_dead_letters(model: Model) -> Iterator[Finding]:
    """Whatever fails without anybody waiting for the answer."""
    lost = []
    for function in model.ours:
        events = mapping_of(function.properties.get("Events"))
        kinds = {str(mapping_of(each).get("Type")) for each in events.values()}
        if (kinds & _ASYNCHRONOUS or _enqueues(function)) and not _keeps_failures(function):
            lost.append(f"{function.place} has no OnFailure")
        lost += [
            f"{function.place}.{name} has no {member}"
            for name, event in events.items()
            if (member := _missing_of(mapping_of(event))) is not None
        ]
    for rule in model.of("AWS::Scheduler::Schedule"):
        target = mapping_of(rule.properties.get("Target"))
        if "DeadLetterConfig" not in target and not _gives_up_at_once(target.get("RetryPolicy")):
            lost.append(f"{rule.place} has no DeadLetterConfig")
    for _, source in _queue_sources(model):
        queue = model.find(source, "AWS::SQS::Queue")
        if queue is not None and "RedrivePolicy" not in queue.properties:
            lost.append(f"{queue.place} has no RedrivePolicy")
    yield DEAD_LETTER.summed(lost, "what fails is kept", is_problem=True)


def check_reserved(model: Model) -> Iterator[Finding]:
    """Of the function that enqueues; others run once a minute, or answer people."""
    missing, none = [], []
    for function in filter(_enqueues, model.ours):
        value = function.properties.get("ReservedConcurrentExecutions", NO_VALUE)
        if value is NO_VALUE:
            missing.append(f"{function.place} has none")
        elif 0 in numbers_of(value):
            none.append(f"{function.place} has 0")
    well = "the enqueue function has its own, or a parameter for it"
    yield RESERVED.summed(none or missing, well, is_problem=bool(none))


def check_routes(model: Model) -> Iterator[Finding]:
    """A template that makes endpoints makes those that are needed, or its own tests find out."""
    inside = [each.place for each in model.ours if mapping_of(each.properties.get("VpcConfig"))]
    has_way = bool(model.of("AWS::EC2::VPCEndpoint", "AWS::EC2::NatGateway"))
    if inside and not has_way and model.unseen:
        yield ROUTES.unknown(f"templates that are not here may make them: {listed(model.unseen)}")
        return
    lost = [] if has_way else inside
    yield ROUTES.summed(lost, "functions reach the APIs of AWS, as far as the template shows")


def check_function_timeouts(model: Model) -> Iterator[Finding]:
    """Against what a call of Redis may take."""
    short = [
        f"{each.place} has {timeout} s"
        for each in model.ours
        if (timeout := min(numbers_of(each.properties.get("Timeout")) or [DEFAULT_TIMEOUT_S]))
        < LEAST_TIMEOUT_S
    ]
    yield FUNCTION_TIMEOUT.summed(short, "functions outlast a Redis that is away", is_problem=True)


def check_tls(model: Model) -> Iterator[Finding]:
    """Addresses that are written down, and servers that are made."""
    addresses = [(each, each.variables.get("REDIS_URL")) for each in model.ours]
    addresses += [(task, _variable(each, "REDIS_URL")) for task, each in _containers(model)]
    plain = [
        f"{each.place} has REDIS_URL redis://"
        for each, address in addresses
        if any(text.startswith("redis://") for text in texts_of(address))
    ]
    plain += [
        f"{each.place} has no TransitEncryptionEnabled"
        for each in model.of("AWS::ElastiCache::ReplicationGroup")
        if True not in alternatives(each.properties.get("TransitEncryptionEnabled"))
    ]
    yield REDIS_TLS.summed(
        plain, "connections to Redis have TLS, as far as the template shows", is_problem=True
    )


def check_alarms(model: Model) -> Iterator[Finding]:
    """In this template, or in one that it nests."""
    alarms = model.of("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
    if model.ours and not alarms and model.unseen:
        yield ALARMS.unknown(f"templates that are not here may make them: {listed(model.unseen)}")
    elif model.ours and not alarms:
        yield ALARMS.warning("there is no AWS::CloudWatch::Alarm")
    else:
        yield ALARMS.ok(f"{counted(len(alarms), 'alarm')}")


def check_runtimes(model: Model) -> Iterator[Finding]:
    """Of functions that are no images."""
    odd = []
    for each in model.ours:
        if "Image" in texts_of(each.properties.get("PackageType")):
            continue
        runtimes = texts_of(each.properties.get("Runtime"))
        kinds = [str(one) for one in items_of(each.properties.get("Architectures"))]
        odd += [f"{each.place} has Runtime {name}" for name in runtimes if name not in RUNTIMES]
        odd += [f"{each.place} has no Runtime"] if "Runtime" not in each.properties else []
        odd += [f"{each.place} is for {kind}" for kind in kinds if kind not in ARCHITECTURES]
    yield RUNTIME.summed(odd, "runtimes and architectures are those of Kiqbridge", is_problem=True)


def check_tasks(model: Model) -> Iterator[Finding]:
    """Containers of workers, by their variables or their command."""
    killed = []
    for task, container in _containers(model):
        timeout = max(numbers_of(_variable(container, "KIQBRIDGE_TIMEOUT_S")) or [WORKER_TIMEOUT_S])
        stop = min(numbers_of(container.get("StopTimeout")) or [STOP_S])
        if timeout + TO_GIVE_BACK_S > stop:
            killed.append(f"{task.place} stops within {timeout} s, and is killed after {stop} s")
    yield TASK_STOP.summed(killed, "workers end before they are killed", is_problem=True)


def check_permissions(model: Model) -> Iterator[Finding]:
    """All statements that allow, those behind conditions included."""
    wide = [
        f"{each.place} allows {fault}"
        for each in model.of(*_ROLES, _FUNCTION)
        for fault in _faults(each)
    ]
    yield IAM.summed(wide, "each permission names actions and resources")


def _queue_sources(model: Model) -> Iterator[tuple[Resource, Any]]:
    """Function and queue of each event source mapping of SQS, the events of SAM included."""
    for function in model.ours:
        for event in mapping_of(function.properties.get("Events")).values():
            if at(event, "Type") == "SQS":
                yield function, at(event, "Properties", "Queue")
    for mapping in model.of("AWS::Lambda::EventSourceMapping"):
        for function in model.ours:
            if model.find(mapping.properties.get("FunctionName"), function.kind) == function:
                yield function, mapping.properties.get("EventSourceArn")


def _enqueues(function: Resource) -> bool:
    code = str(function.properties.get("CodeUri", ""))
    return "KIQBRIDGE_ALLOWED_CLASSES" in function.variables or code.endswith("lambdas/enqueue")


def _keeps_failures(function: Resource) -> bool:
    config = function.properties.get("EventInvokeConfig")
    return (
        at(config, "DestinationConfig", "OnFailure") is not None
        or not {"DeadLetterQueue", "DeadLetterConfig"}.isdisjoint(function.properties)
        or _gives_up_at_once(config)
    )


def _missing_of(event: Any) -> str | None:
    """What an event of SAM lacks to keep what fails."""
    kind, properties = event.get("Type"), mapping_of(event.get("Properties"))
    if kind in _STREAMS:
        return None if "DestinationConfig" in properties else "DestinationConfig"
    if kind not in _WITH_DEAD_LETTERS or _gives_up_at_once(properties.get("RetryPolicy")):
        return None
    return None if "DeadLetterConfig" in properties else "DeadLetterConfig"


def _gives_up_at_once(policy: object) -> bool:
    return 0 in numbers_of(at(policy, "MaximumRetryAttempts"))


def _containers(model: Model) -> Iterator[tuple[Resource, Any]]:
    """The containers that run a worker."""
    for task in model.of("AWS::ECS::TaskDefinition"):
        for container in items_of(task.properties.get("ContainerDefinitions")):
            command = list(map(str, items_of(at(container, "Command"))))
            variables = items_of(at(container, "Environment"))
            names = [str(at(each, "Name")) for each in variables]
            if "kiqbridge" in command or any(name.startswith("KIQBRIDGE_") for name in names):
                yield task, mapping_of(container)


def _variable(container: Any, name: str) -> object:
    variables = items_of(container.get("Environment"))
    return next((at(each, "Value") for each in variables if at(each, "Name") == name), None)


def _faults(resource: Resource) -> Iterator[str]:
    for name in ("ManagedPolicyArns", "Policies"):
        for each in items_of(resource.properties.get(name)):
            if isinstance(each, str) and each.endswith(_WIDE):
                yield f"the managed policy {each}"
    for statement in _statements(resource):
        if statement.get("Effect") != "Allow":
            continue
        actions = [str(each) for each in items_of(statement.get("Action"))]
        wild = [action for action in actions if "*" in action]
        if wild or "NotAction" in statement:
            yield listed(wild) or "all but some actions"
        elif "*" in items_of(statement.get("Resource")) and not all(
            action.startswith(WITHOUT_ARN) for action in actions
        ):
            yield f"{listed(actions)} on every resource"


def _statements(resource: Resource) -> Iterator[Any]:
    policies = items_of(resource.properties.get("Policies"))
    # SAM takes a document itself as a policy of a function, too.
    documents = [*(at(each, "PolicyDocument") for each in policies), *policies]
    for document in [*documents, resource.properties.get("PolicyDocument")]:
        yield from map(mapping_of, items_of(at(document, "Statement")))


CHECKS: Final[Sequence[tuple[Sequence[Rule], Callable[[Model], Iterable[Finding]]]]] = (
    ((VISIBILITY,), check_visibility),
    ((DEAD_LETTER,), check_dead_letters),
    ((RESERVED,), check_reserved),
    ((ROUTES,), check_routes),
    ((FUNCTION_TIMEOUT,), check_function_timeouts),
    ((REDIS_TLS,), check_tls),
    ((ALARMS,), check_alarms),
    ((RUNTIME,), check_runtimes),
    ((TASK_STOP,), check_tasks),
    ((IAM,), check_permissions),
)
"""Rules, and the function that applies them."""
