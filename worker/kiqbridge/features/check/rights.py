"""Who may do what: the roles of the enqueue function and of its schedules, and who may reach it and its queues."""

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from kiqbridge.schedule.template_view import View, at
from kiqbridge.schedule.yaml_nodes import Problem

OPEN: Final = "anybody on the internet may invoke the function: write AuthType: AWS_IAM"
# Actions on things that have no ARN: an interface that does not exist yet, the registry as a whole, traces, the
# channels of ECS Exec.
_WITHOUT_ARN: Final = ("ec2:", "ecr:GetAuthorizationToken", "xray:Put", "ssmmessages:")


def right_problems(view: View) -> Iterator[Problem]:
    """What is allowed too much, of all that the enqueue function names."""
    for function, properties in view.enqueue_functions():
        for variable, line in view.secret_variables(function):
            text = f"anyone who reads its configuration reads {variable}: pass the ARN of a secret, and read it at run time"
            yield view.problem(line, function, text)
        named = json.dumps(properties, default=str)
        for name, resource in view.resources.items():
            own = resource["Properties"]
            faults: Iterator[str] = iter(())
            if view.name_of(own.get("FunctionName", own.get("TargetFunctionArn"))) == function:
                faults = _invocation_faults(own)
            elif resource.get("Type") == "AWS::IAM::Role" and f'"{name}"' in named:
                faults = (
                    text for each in _statements(view, own) for text in statement_faults(each)
                )
            elif any(f'"{view.name_of(each)}"' in named for each in _governed(own)):
                faults = _policy_faults(own)
            for text in faults:
                yield view.problem(view.line_of(name), name, text)


def may(view: View, role: object, action: str, arn: object) -> bool:
    """Whether a role allows an action on a resource; also if policies from elsewhere may do so."""
    own = view.resource(role)
    if own is None or None in map(view.resource, _managed(own)):
        return True
    return any(
        each.get("Effect") == "Allow"
        and any(fnmatchcase(action, str(glob)) for glob in as_list(each.get("Action")))
        and (arn in as_list(each.get("Resource")) or each.get("Resource") == "*")
        for each in _statements(view, own)
    )


def accepts(view: View, queue: object, service: str, source: object) -> bool:
    """Whether a service may send to a queue for one source of it; also if the queue is not of this template."""
    return view.resource(queue) is None or any(
        queue in as_list(each.get("Resource")) and source in _sources(each)
        for resource in view.resources.values()
        if resource.get("Type") == "AWS::SQS::QueuePolicy"
        for each in _own_statements(resource["Properties"])
        if each.get("Principal") == {"Service": service}
    )


def statement_faults(statement: Mapping[str, Any]) -> Iterator[str]:
    """What one statement of a policy allows beyond need."""
    if statement.get("Effect") != "Allow":
        return
    actions = [str(each) for each in as_list(statement.get("Action", "*"))]
    if any("*" in action for action in actions):
        yield f"allows {actions}: name each action"
    everything = "*" in as_list(statement.get("Resource", "*"))
    if everything and not all(action.startswith(_WITHOUT_ARN) for action in actions):
        yield f"allows {actions} on every resource: name the resource"
    if statement.get("Principal") in ("*", {"AWS": "*"}):
        yield f"allows everybody {actions}: name the principal"


def as_list(value: Any) -> list[Any]:
    """A value where one or several may stand."""
    return value if isinstance(value, list) else [value]


def _statements(view: View, role: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of a role's own policies, and of those of this template that it names."""
    policies = (*as_list(role.get("Policies", [])), *map(view.resource, _managed(role)))
    return [statement for policy in policies for statement in _own_statements(policy)]


def _own_statements(policy: object) -> list[Mapping[str, Any]]:
    found = as_list(at(policy, "PolicyDocument", "Statement"))
    return [each for each in found if isinstance(each, Mapping)]


def _managed(role: Mapping[str, Any]) -> list[Any]:
    return as_list(role.get("ManagedPolicyArns", []))


def _governed(policy: Mapping[str, Any]) -> list[Any]:
    """The queues or topics of a policy of theirs."""
    return [*as_list(policy.get("Queues", [])), *as_list(policy.get("Topics", []))]


def _invocation_faults(permission: Mapping[str, Any]) -> Iterator[str]:
    """Of a Lambda::Permission, or of a Lambda::Url."""
    principal = str(permission.get("Principal"))
    if "NONE" in (permission.get("AuthType"), permission.get("FunctionUrlAuthType")):
        yield OPEN
    elif principal == "*":
        yield "anybody may invoke the function: name a principal"
    elif principal.endswith(".amazonaws.com") and not {"SourceArn", "SourceAccount"} & set(
        permission
    ):
        yield f"{principal} may invoke the function for any account: write SourceArn"


def _policy_faults(policy: Mapping[str, Any]) -> Iterator[str]:
    for statement in _own_statements(policy):
        service, sources = at(statement, "Principal", "Service"), _sources(statement)
        if statement.get("Effect") != "Allow" or service is None:
            continue
        if not sources:
            yield f"{service} may use it for anybody: write a Condition with aws:SourceArn"
        for source in map(json.dumps, sources):
            # Names of alarms are free, so they have no attribute to refer to before they are made.
            if "*" in source and service != "cloudwatch.amazonaws.com":
                yield (
                    f"{source} is wider than the stack (another one's name may begin like it): write !GetAtt of the "
                    "resource"
                )


def _sources(statement: Mapping[str, Any]) -> list[Any]:
    return [
        source
        for operator in dict(statement.get("Condition", {})).values()
        for key, value in dict(operator).items()
        if key.lower() == "aws:sourcearn"
        for source in as_list(value)
    ]
