"""What CloudFormation decides before it makes anything: Rules and Conditions, over given parameters."""

from typing import Any


def decide(node: Any, parameters: dict, conditions: dict | None = None) -> bool:
    """Whether an assertion or a condition holds.

    Rules know Equals, And, Or, Not and Ref (AWS CloudFormation, "Rule functions"); Conditions refer to
    each other besides. Any other function is a KeyError: nobody has decided it as AWS does.
    """
    [(name, arguments)] = node.items()
    if name == "Condition":
        return decide((conditions or {})[arguments], parameters, conditions)
    if name == "Fn::Equals":
        left, right = (_value(side, parameters) for side in arguments)
        return str(left) == str(right)
    decided = [decide(argument, parameters, conditions) for argument in arguments]
    return {"Fn::And": all, "Fn::Or": any, "Fn::Not": lambda values: not values[0]}[name](decided)


def _value(node: Any, parameters: dict) -> Any:
    return parameters[node["Ref"]] if isinstance(node, dict) else node


def refused(template: dict, **given: str) -> set[str]:
    """The rules that refuse these parameters, the others at their defaults."""
    parameters = {
        name: parameter.get("Default") for name, parameter in template["Parameters"].items()
    }
    parameters |= given
    return {
        name
        for name, rule in template["Rules"].items()
        if "RuleCondition" not in rule or decide(rule["RuleCondition"], parameters)
        if not all(decide(entry["Assert"], parameters) for entry in rule["Assertions"])
    }
