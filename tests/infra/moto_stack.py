"""A template as far as moto can create it, with what it cannot left out by name and not silently.

moto's CloudFormation skips types that it does not know, with a warning that nobody reads, and stumbles
over references to them. Here they are taken out before, and whatever refers to one gets an ARN
that names it.
"""

import copy
from typing import Any

UNKNOWN_TO_MOTO = {
    "AWS::ElastiCache::ParameterGroup",
    "AWS::ElastiCache::ReplicationGroup",
    "AWS::ElastiCache::SubnetGroup",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::SQS::QueuePolicy",
    "AWS::Scheduler::Schedule",
    "AWS::Scheduler::ScheduleGroup",
    "AWS::SecretsManager::Secret",
}
STAND_IN = "arn:aws:left-out:eu-west-1:123456789012:"


NO_VALUE = {"Ref": "AWS::NoValue"}


def creatable(template: dict, *, holding: frozenset[str] = frozenset()) -> tuple[dict, set[str]]:
    """Return the template without what moto does not know, and the logical ids left out.

    An item of a list that may be AWS::NoValue stays None in moto: whether it is there is decided
    here, by the conditions said to be `holding`.
    """
    left_out = {
        name
        for name, resource in template["Resources"].items()
        if resource["Type"] in UNKNOWN_TO_MOTO
    }
    reduced = {
        # moto does not decide Rules.
        section: content
        for section, content in copy.deepcopy(template).items()
        if section != "Rules"
    }
    kept = {
        name: resource for name, resource in reduced["Resources"].items() if name not in left_out
    }
    reduced["Resources"] = _replace(kept, left_out, holding)
    reduced["Outputs"] = _replace(reduced["Outputs"], left_out, holding)
    return reduced, left_out


def _replace(node: Any, left_out: set[str], holding: frozenset[str]) -> Any:
    if isinstance(node, list):
        decided = [_decide(item, holding) for item in node]
        return [_replace(item, left_out, holding) for item in decided if item != NO_VALUE]
    if not isinstance(node, dict):
        return node
    if set(node) == {"Ref"} and node["Ref"] in left_out:
        return STAND_IN + node["Ref"]
    if set(node) == {"Fn::GetAtt"} and node["Fn::GetAtt"][0] in left_out:
        return STAND_IN + node["Fn::GetAtt"][0]
    replaced = {}
    for key, value in node.items():
        if key == "Fn::If":  # its branches are no list: AWS::NoValue may stay there
            replaced[key] = [_replace(branch, left_out, holding) for branch in value]
        else:
            replaced[key] = _replace(value, left_out, holding)
    return replaced


def _decide(item: Any, holding: frozenset[str]) -> Any:
    if isinstance(item, dict) and set(item) == {"Fn::If"} and NO_VALUE in item["Fn::If"]:
        condition, then, otherwise = item["Fn::If"]
        return then if condition in holding else otherwise
    return item
