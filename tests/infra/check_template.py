"""Translate template.yaml as AWS does and lint what comes out, nested templates too; part of `make check`.

cfn-lint alone reads a SAM template as it stands and sees hardly any fault in its events; after the
translation it sees them. What no linter looks at is checked here as well:

1. that whoever hands dead letters over may write to their queue;
2. that no policy allows more than it must;
3. that nested templates get the parameters they ask for and have the outputs they are asked for.

Expressions, zones and Inputs are the business of `python -m kiqbridge.schedule.check`.
"""

import functools
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from samtranslator.yaml_helper import yaml_parse

sys.path.insert(0, str(Path(__file__).parents[1]))
from infra.check_sources import source_findings

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
REGION = "eu-west-1"
# Translation asks AWS for code that was uploaded and for these ARNs; both are only copied.
UPLOADED = "s3://bucket/key"
LOCAL_CODE = {
    "AWS::Serverless::Function": "CodeUri",
    "AWS::Serverless::LayerVersion": "ContentUri",
    "AWS::Serverless::Application": "Location",
}
UPLOADED_TEMPLATE = "https://bucket.s3.amazonaws.com/key"
NESTED = "AWS::CloudFormation::Stack"
SUBSTITUTED_ATTRIBUTE = re.compile(r"\$\{(\w+)\.([\w.]+)\}")
# Actions on things that have no ARN: an interface that does not exist yet, the registry as a whole, traces, the
# channels of ECS Exec.
WITHOUT_ARN = ("ec2:", "ecr:GetAuthorizationToken", "xray:Put", "ssmmessages:")
MANAGED_POLICIES = {
    name: f"arn:aws:iam::aws:policy/service-role/{name}"
    for name in (
        "AWSLambdaBasicExecutionRole",
        "AWSLambdaVPCAccessExecutionRole",
        "AWSLambdaSQSQueueExecutionRole",
        "AWSXrayWriteOnlyAccess",
    )
}


def translate(source: str) -> dict:
    return translate_parsed(yaml_parse(source))


def translate_parsed(template: dict) -> dict:
    """What AWS makes of a template whose intrinsic functions are in their long form; it is changed."""
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    os.environ.setdefault("AWS_DEFAULT_REGION", REGION)
    for resource in template["Resources"].values():
        code = LOCAL_CODE.get(resource["Type"])
        if code in resource.get("Properties", {}):
            resource["Properties"][code] = UPLOADED
        if resource["Type"] == NESTED:
            resource["Properties"]["TemplateURL"] = UPLOADED_TEMPLATE
    return Translator(MANAGED_POLICIES, Parser()).translate(template, parameter_values={})


def function_properties(template: dict, name: str) -> dict:
    """Properties of a function of a template as it was written, with those of Globals."""
    shared = template["Globals"]["Function"]
    own = template["Resources"][name]["Properties"]
    variables = {
        **shared["Environment"]["Variables"],
        **own.get("Environment", {}).get("Variables", {}),
    }
    return {**shared, **own, "Environment": {"Variables": variables}}


def lint(translated: dict) -> list[str]:
    return lint_text(json.dumps(translated))


@functools.cache
def lint_text(text: str) -> list[str]:
    import cfnlint.api  # a second, and most processes of the tests lint nothing
    from cfnlint.config import ManualArgs

    found = cfnlint.api.lint(text, config=ManualArgs(regions=[REGION]))
    return [f"{'/'.join(map(str, match.path or []))}: {match}" for match in found]


def dead_letter_findings(translated: dict) -> list[str]:
    """Tell which schedules and rules may not write to their dead-letter queue."""
    resources = translated["Resources"]
    findings = []
    for name, resource in resources.items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Scheduler::Schedule":
            queue = properties["Target"].get("DeadLetterConfig", {}).get("Arn")
            policies = policies_of(resources, properties["Target"]["RoleArn"])
            if queue and queue not in resources_of("sqs:SendMessage", policies):
                findings.append(f"{name}: its role may not send to its dead-letter queue")
        elif resource["Type"] == "AWS::Events::Rule":
            findings += [
                f"{name}: SAM writes no AWS::SQS::QueuePolicy for a queue given by ARN: write a statement "
                f"for events.amazonaws.com with ArnEquals aws:SourceArn: !GetAtt {name}.Arn"
                for target in properties["Targets"]
                if "DeadLetterConfig" in target
                and not accepts_events(resources, target["DeadLetterConfig"]["Arn"], name)
            ]
    return findings


def policies_of(resources: dict, role_arn: object) -> list:
    """Inline policies of a role of this template; a role from elsewhere shows none."""
    role, _ = role_arn.get("Fn::GetAtt", ("", "")) if isinstance(role_arn, dict) else ("", "")
    return resources.get(role, {}).get("Properties", {}).get("Policies", [])


def statements(policies: list) -> list[dict]:
    """All statements of policies, those behind an Fn::If included."""
    return [
        statement
        for policy in branches(policies)
        for statement in branches(policy["PolicyDocument"]["Statement"])
    ]


def branches(items: list) -> list[dict]:
    """The items of a list, in the place of an Fn::If all that it may be."""
    found = []
    for item in items:
        alternatives = item["Fn::If"][1:] if "Fn::If" in item else [item]
        found += [each for each in alternatives if each != {"Ref": "AWS::NoValue"}]
    return found


def as_list(value: object) -> list:
    return value if isinstance(value, list) else [value]


def resources_of(action: str, policies: list) -> list:
    return [
        resource
        for statement in statements(policies)
        if statement["Effect"] == "Allow" and action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    ]


def accepts_events(resources: dict, queue: dict, rule: str) -> bool:
    """Whether some queue policy lets this rule of EventBridge send to this queue."""
    return any(
        queue in as_list(statement["Resource"])
        and statement["Principal"] == {"Service": "events.amazonaws.com"}
        and {"Fn::GetAtt": [rule, "Arn"]}
        in as_list(statement["Condition"]["ArnEquals"]["aws:SourceArn"])
        for resource in resources.values()
        if resource["Type"] == "AWS::SQS::QueuePolicy"
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]
    )


def permission_findings(template: dict) -> list[str]:
    """Tell which policies allow more than they must."""
    findings = []
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        own = [properties] if "PolicyDocument" in properties else []
        found = statements([*properties.get("Policies", []), *own])
        for statement in found:
            findings += [f"{name}: {fault}" for fault in statement_faults(statement)]
        # Which managed policies a worker's jobs need, only a parameter can tell.
        managed = json.dumps(properties.get("ManagedPolicyArns", []))
        if resource["Type"] == "AWS::IAM::Role" and "arn:" in managed:
            findings.append(f"{name}: a managed policy allows more than is needed: {managed}")
    return findings


def statement_faults(statement: dict) -> Iterator[str]:
    if statement["Effect"] != "Allow":
        return
    actions = as_list(statement.get("Action", "*"))
    if any("*" in action for action in actions):
        yield f"allows {actions}: name each action"
    everything = "*" in as_list(statement.get("Resource", "*"))
    if everything and not all(action.startswith(WITHOUT_ARN) for action in actions):
        yield f"allows {actions} on every resource: name the resource"
    if statement.get("Principal") in ("*", {"AWS": "*"}):
        yield f"allows everybody {actions}: name the principal"


def nested_templates(template: dict, folder: Path) -> dict[str, Path]:
    """Logical id and file of each nested stack of a template as it was written."""
    return {
        name: folder / resource["Properties"]["TemplateURL"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == NESTED
    }


def nested_findings(template: dict, folder: Path) -> list[str]:
    """Tell where a template and the templates it nests do not fit together."""
    findings = []
    for name, path in nested_templates(template, folder).items():
        if not path.is_file():
            findings.append(f"{name}: there is no {path}")
            continue
        nested = yaml_parse(path.read_text(encoding="utf-8"))
        declared = nested.get("Parameters", {})
        given = template["Resources"][name]["Properties"].get("Parameters", {})
        required = {key for key, parameter in declared.items() if "Default" not in parameter}
        findings += [
            f"{name}: {path.name} has no parameter {key}" for key in given - declared.keys()
        ]
        findings += [f"{name}: {path.name} needs {key}" for key in required - given.keys()]
        outputs = {f"Outputs.{output}" for output in nested.get("Outputs", {})}
        findings += [
            f"{name}: {path.name} has no {attribute}"
            for resource, attribute in attributes_of(template)
            if resource == name and attribute not in outputs
        ]
    return findings


def attributes_of(node: object) -> Iterator[tuple[str, str]]:
    """All (resource, attribute) pairs that Fn::GetAtt, or ${Resource.Attribute} in Fn::Sub, asks for below a node."""
    if isinstance(node, list):
        for item in node:
            yield from attributes_of(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "Fn::GetAtt":
                resource, _, attribute = (
                    value.partition(".") if isinstance(value, str) else (value[0], "", value[1])
                )
                yield resource, attribute
                continue
            if key == "Fn::Sub":
                yield from SUBSTITUTED_ATTRIBUTE.findall(as_list(value)[0])
            yield from attributes_of(value)


def sam_findings(source: str) -> list[str]:
    """Findings of a SAM template, but for the templates that it nests."""
    return parsed_findings(yaml_parse(source))


def parsed_findings(template: dict) -> list[str]:
    from samtranslator.model.exceptions import InvalidDocumentException

    try:
        translated = translate_parsed(template)
    except InvalidDocumentException as error:
        causes = [cause.message for cause in error.causes] or [error.message]
        return [f"SAM cannot translate it: {cause}" for cause in causes]
    return [
        *lint(translated),
        *dead_letter_findings(translated),
        *permission_findings(translated),
        *source_findings(translated),
    ]


def findings_of(path: Path) -> dict[str, list[str]]:
    """Findings of a SAM template and of each template it nests, under a heading for each."""
    source = path.read_text(encoding="utf-8")
    written = yaml_parse(source)
    found = {
        f"{path.name} (translated)": [
            *sam_findings(source),
            *nested_findings(written, path.parent),
        ]
    }
    for nested in nested_templates(written, path.parent).values():
        if nested.is_file():
            text = nested.read_text(encoding="utf-8")
            heading = str(nested.relative_to(path.parent))
            found[heading] = [*lint_text(text), *permission_findings(yaml_parse(text))]
    return found


def main(arguments: list[str]) -> int:
    found = findings_of(Path(arguments[0]) if arguments else TEMPLATE)
    for heading, findings in found.items():
        for finding in findings:
            print(f"error: {heading}: {finding}")
        if not findings:
            print(f"{heading}: no findings")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
