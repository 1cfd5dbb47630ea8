"""Translate template.yaml as AWS does and lint what comes out, nested templates too; part of `make check`.

cfn-lint alone reads a SAM template as it stands and sees hardly any fault in its events; after the
translation it sees them. What no linter looks at is checked here as well:

1. that no policy allows more than it must;
2. that nested templates get the parameters they ask for and have the outputs they are asked for.

Rules, sources, dead letters and rights of the function are the business of `kiqbridge check`.
"""

import functools
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from samtranslator.yaml_helper import yaml_parse

from kiqbridge.features.check.rights import as_list, statement_faults

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


def resources_of(action: str, policies: list) -> list:
    return [
        resource
        for statement in statements(policies)
        if statement["Effect"] == "Allow" and action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    ]


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
    return [*lint(translated), *permission_findings(translated)]


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
