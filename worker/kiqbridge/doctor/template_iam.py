"""The rule about how much the roles of a template may do."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from kiqbridge.doctor.finding import Finding, Rule, listed
from kiqbridge.doctor.template_model import Model, Resource, items_of, mapping_of

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

IAM: Final = Rule(
    id="iam",
    area="template",
    reports="roles and functions that are allowed actions with * , every resource, or a managed policy with full "
    "access",
    why="whoever gets hold of a function or a worker gets hold of all that it may do",
    action="name each action and each resource",
)


def check_permissions(model: Model) -> Iterator[Finding]:
    """All statements that allow, those behind conditions included."""
    wide = [
        f"{each.place} allows {fault}"
        for each in model.of(*_ROLES, _FUNCTION)
        for fault in _faults(each)
    ]
    yield (
        IAM.warning(listed(wide)) if wide else IAM.ok("each permission names actions and resources")
    )


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
    documents = [mapping_of(each).get("PolicyDocument") for each in policies]
    # SAM takes a document itself as a policy of a function, too.
    documents += [each for each in policies if "Statement" in mapping_of(each)]
    for document in [*documents, resource.properties.get("PolicyDocument")]:
        for statement in items_of(mapping_of(document).get("Statement")):
            yield mapping_of(statement)


CHECKS: Final[Sequence[tuple[Sequence[Rule], Callable[[Model], Iterable[Finding]]]]] = (
    ((IAM,), check_permissions),
)
"""Rules, and the function that applies them."""
