"""Translate template.yaml as AWS does and lint what comes out; part of `make check`.

cfn-lint alone reads a SAM template as it stands and sees hardly any fault in its events; after the
translation it sees them. Two things no linter looks at are checked here as well: that whoever hands
dead letters over may write to their queue. Expressions, zones and Inputs are the business of
`python -m kiqbridge.template`.
"""

import json
import os
import sys
from pathlib import Path

import cfnlint.api
from cfnlint.config import ManualArgs
from samtranslator.model.exceptions import InvalidDocumentException
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
REGION = "eu-west-1"
# Translation asks AWS for code that was uploaded and for these ARNs; both are only copied.
UPLOADED = "s3://bucket/key"
LOCAL_CODE = {
    "AWS::Serverless::Function": "CodeUri",
    "AWS::Serverless::LayerVersion": "ContentUri",
    "AWS::Serverless::Application": "Location",
}
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
    os.environ.setdefault("AWS_DEFAULT_REGION", REGION)
    template = yaml_parse(source)
    for resource in template["Resources"].values():
        code = LOCAL_CODE.get(resource["Type"])
        if code in resource.get("Properties", {}):
            resource["Properties"][code] = UPLOADED
    return Translator(MANAGED_POLICIES, Parser()).translate(template, parameter_values={})


def lint(translated: dict) -> list[str]:
    found = cfnlint.api.lint(json.dumps(translated), config=ManualArgs(regions=[REGION]))
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
                f"{name}: SAM writes no AWS::SQS::QueuePolicy for a queue given by ARN: write it"
                for target in properties["Targets"]
                if "DeadLetterConfig" in target
                and not accepts_events(resources, target["DeadLetterConfig"]["Arn"])
            ]
    return findings


def policies_of(resources: dict, role_arn: object) -> list:
    """Inline policies of a role of this template; a role from elsewhere shows none."""
    role, _ = role_arn.get("Fn::GetAtt", ("", "")) if isinstance(role_arn, dict) else ("", "")
    return resources.get(role, {}).get("Properties", {}).get("Policies", [])


def statements(policies: list) -> list[dict]:
    """All statements of inline policies, those behind an Fn::If included."""
    found = []
    for policy in policies:
        _, then, otherwise = policy.get("Fn::If", (None, policy, {}))
        found += [
            statement
            for branch in (then, otherwise)
            if "PolicyDocument" in branch
            for statement in branch["PolicyDocument"]["Statement"]
        ]
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


def accepts_events(resources: dict, queue: dict) -> bool:
    """Whether some queue policy lets EventBridge rules send to this queue."""
    return any(
        queue in as_list(statement["Resource"])
        and statement["Principal"] == {"Service": "events.amazonaws.com"}
        for resource in resources.values()
        if resource["Type"] == "AWS::SQS::QueuePolicy"
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]
    )


def main(arguments: list[str]) -> int:
    path = Path(arguments[0]) if arguments else TEMPLATE
    try:
        translated = translate(path.read_text(encoding="utf-8"))
    except InvalidDocumentException as error:
        causes = [cause.message for cause in error.causes] or [error.message]
        findings = [f"SAM cannot translate it: {cause}" for cause in causes]
    else:
        findings = lint(translated) + dead_letter_findings(translated)
    for finding in findings:
        print(f"error: {path.name} (translated): {finding}")
    if not findings:
        print(
            f"{path.name}: {len(translated['Resources'])} resources after translation, no findings"
        )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
