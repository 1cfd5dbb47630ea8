"""Mistakes that users make in the template of an app, and what `kiqbridge check` says of each."""

import re

import pytest
from support.jobs import own_declarations

from kiqbridge import Job, job
from kiqbridge.client.registry import Registry, definition_of
from kiqbridge.dev.scaffold.app_files import App, app_files
from kiqbridge.features.check.command import check_template
from kiqbridge.features.check.inputs import Application

RULE = """        Hello:
          Type: ScheduleV2
          Properties:
            ScheduleExpression: cron(30 8 ? * MON-FRI *)
            ScheduleExpressionTimezone: Europe/Paris
            FlexibleTimeWindow: {Mode: "OFF"}
            GroupName: !Ref ScheduleGroup
            OmitName: true
            RoleArn: !GetAtt ScheduleRole.Arn
            RetryPolicy: {MaximumRetryAttempts: 20, MaximumEventAgeInSeconds: 14400}
            DeadLetterConfig: {Arn: !GetAtt EnqueueDeadLetterQueue.Arn}
            Input: !Sub >-
              {"class": "Greeting", "queue": "default", "args": ["Ada"],
              "tick": {"schedule": "${AWS::StackName}/Hello", "at": "<aws.scheduler.scheduled-time>"}}

"""
FILES = app_files(App(name="shop"))
BASE = (
    FILES["template.yaml"]
    .replace("- [DailyReport, !Ref", "- [DailyReport, Greeting, !Ref")
    .replace("- [low, !Ref", "- [low, default, !Ref")
)
FIRST = "        DailyReport:\n          Type: ScheduleV2"
RESOURCE = "  # The package and what it needs"
TICK = """,
              "tick": {"schedule": "${AWS::StackName}/Hello", "at": "<aws.scheduler.scheduled-time>"}}"""


def with_rule(rule=RULE, *, event="", resource=""):
    text = BASE.replace(FIRST, f"{rule}{event}{FIRST}", 1)
    return text.replace(RESOURCE, f"{resource}{RESOURCE}", 1)


def rule(old, new):
    assert old in RULE
    return with_rule(RULE.replace(old, new, 1))


def source(kind, *lines, resource=""):
    properties = "".join(f"            {line}\n" for line in lines)
    event = f"        Source:\n          Type: {kind}\n          Properties:\n{properties}\n"
    return with_rule(event=event, resource=resource)


def cron(new):
    return rule("cron(30 8 ? * MON-FRI *)", new)


def both(old, new, allowed, instead):
    text = rule(old, new)
    assert allowed in text
    return text.replace(allowed, instead, 1)


CLASSIC = (
    re.sub(r"            (Flex|Group|Omit|Role|ScheduleExpressionT).*\n", "", RULE)
    .replace("ScheduleV2", "Schedule")
    .replace("ScheduleExpression:", "Schedule:")
)
QUEUE = "  OrdersQueue:\n    Type: AWS::SQS::Queue\n    Properties: {VisibilityTimeout: 30}\n\n"
BUCKET = "  UploadsBucket:\n    Type: AWS::S3::Bucket\n\n"
TABLE = """  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      StreamSpecification: {StreamViewType: NEW_IMAGE}

"""
EXTRA = """  Extra:
    Type: AWS::Scheduler::Schedule
    Properties:
      ScheduleExpression: every 5 minutes
      FlexibleTimeWindow: {Mode: "OFF"}
      Target:
        Arn: !GetAtt EnqueueFunction.Arn
        RoleArn: !GetAtt ScheduleRole.Arn
        Input: '{"class": "Nope", "args": []}'

"""
PERMISSION = """  Permission:
    Type: AWS::Lambda::Permission
    Properties:
      Action: lambda:InvokeFunction
      FunctionName: !Ref EnqueueFunction
      Principal: sns.amazonaws.com

"""
URL = """  Url:
    Type: AWS::Lambda::Url
    Properties: {AuthType: NONE, TargetFunctionArn: !GetAtt EnqueueFunction.Arn}

"""
ZONE, NAME, ADA = "Europe/Paris", '"Greeting"', '["Ada"]'
QUEUE_NAME = '"queue": "default"'
FUNCTION = "      EventInvokeConfig:\n        MaximumRetryAttempts: 2"
SCHEDULE_ROLE = """              - {Effect: Allow, Action: sqs:SendMessage, Resource: !GetAtt EnqueueDeadLetterQueue.Arn}
"""
CODE = "      CodeUri: lambdas/enqueue\n"
PLACEHOLDER = "<aws.scheduler.scheduled-time>"
# Mistake → the template, and a part of what is said of it.
MISTAKES = {
    "five fields": (cron("cron(30 8 * * MON-FRI)"), "cron"),
    "both day fields": (cron("cron(30 8 * * MON-FRI *)"), "cron"),
    "minute 61": (cron("cron(61 8 ? * MON-FRI *)"), "61"),
    "rate of 1 minutes": (cron("rate(1 minutes)"), "rate"),
    "30 February": (cron("cron(0 8 30 2 ? *)"), "never fires"),
    "no tick": (rule(TICK, "}"), "no tick"),
    "class not allowed": (rule(NAME, '"Greting"'), "'Greting' is not allowed"),
    "class that no job has": (
        both(NAME, '"Greting"', "DailyReport, Greeting,", "DailyReport, Greting,"),
        "no job 'Greting'",
    ),
    "comma behind the last": (rule('["Ada"],', '["Ada",],'), "not JSON"),
    "placeholder misspelt": (
        rule(PLACEHOLDER, "<aws.scheduler.schedule-time>"),
        "does not fill in",
    ),
    "placeholder without brackets": (rule(PLACEHOLDER, PLACEHOLDER[1:-1]), "tick.at"),
    "zone misspelt": (rule(ZONE, "Europe/Pariss"), "Europe/Pariss"),
    "zone abbreviated": (rule(ZONE, "CEST"), "CEST"),
    "no RoleArn": (
        rule("            RoleArn: !GetAtt ScheduleRole.Arn\n", ""),
        "write RoleArn",
    ),
    "no DeadLetterConfig": (
        rule("            DeadLetterConfig: {Arn: !GetAtt EnqueueDeadLetterQueue.Arn}\n", ""),
        "write DeadLetterConfig",
    ),
    "queue misspelt": (rule(QUEUE_NAME, '"queue": "defualt"'), "'defualt' is not allowed"),
    "queue that is allowed, not served": (
        both(QUEUE_NAME, '"queue": "mails"', "[low, default,", "[low, mails,"),
        "serves the queue 'mails'",
    ),
    "no !Sub": (rule("Input: !Sub >-", "Input: >-"), "write it after !Sub"),
    "Input as YAML": (rule("Input: !Sub >-", "Input:"), "Input"),
    "tick of another rule": (rule("/Hello", "/DailyReport"), "tick.schedule"),
    "dedupe_key beside tick": (
        rule('["Ada"],', '["Ada"], "dedupe_key": "x",'),
        "dedupe_key stands beside tick",
    ),
    "execution-id as dedupe_key": (
        rule(TICK, ', "dedupe_key": "<aws.scheduler.execution-id>"}'),
        "no tick",
    ),
    "queue with a blank": (rule(QUEUE_NAME, '"queue": "de fault"'), "de fault"),
    "args as an object": (rule(ADA, '{"name": "Ada"}'), "list of arguments"),
    "option misspelt": (rule('["Ada"],', '["Ada"], "rety": 5,'), "did you mean retry"),
    "too few arguments": (rule(ADA, "[]"), "args do not fit Greeting"),
    "too many arguments": (rule(ADA, '["Ada", true, 3]'), "args do not fit Greeting"),
    "OFF without quotes": (rule('Mode: "OFF"', "Mode: OFF"), "OFF as false"),
    "State of the samples": (
        rule("OmitName: true\n", "OmitName: true\n            State: !Ref SampleSchedules\n"),
        "leave State out",
    ),
    "no GroupName": (
        rule("            GroupName: !Ref ScheduleGroup\n            OmitName: true\n", ""),
        "write GroupName",
    ),
    "200 attempts": (rule("Attempts: 20,", "Attempts: 200,"), "185 or less"),
    "two rules of one name": (with_rule(RULE + RULE), "twice"),
    "rule outside of Events": (with_rule(re.sub("(?m)^  ", "", RULE)), "indent it below Events"),
    "tick of a classic Schedule": (with_rule(CLASSIC), "use Type: ScheduleV2"),
    "ScheduleExpresion": (
        rule("ScheduleExpression:", "ScheduleExpresion:"),
        "did you mean ScheduleExpression",
    ),
    "ScheduleTimezone": (
        rule("ScheduleExpressionTimezone", "ScheduleTimezone"),
        "ScheduleTimezone is no property",
    ),
    "at in the past": (cron("at(2020-01-31T09:00:00)"), "never fires"),
    "at with Z": (cron("at(2027-01-31T09:00:00Z)"), "at("),
    "SQS with defaults": (
        source("SQS", "Queue: !GetAtt OrdersQueue.Arn", resource=QUEUE),
        "write FunctionResponseTypes",
    ),
    "InputPath of a bus' rule": (
        source("EventBridgeRule", "Pattern: {source: [shop.orders]}", "InputPath: $.detail"),
        "leave InputPath out",
    ),
    "another namespace": (
        with_rule().replace("KIQBRIDGE_NAMESPACE: !Ref Namespace", "KIQBRIDGE_NAMESPACE: myapp"),
        "KIQBRIDGE_NAMESPACE is 'myapp'",
    ),
    "queue that WorkerQueues lacks": (
        both(QUEUE_NAME, '"queue": "reports"', "[low, default,", "[low, reports,"),
        "serves the queue 'reports'",
    ),
    "open function URL": (
        with_rule().replace(
            FUNCTION, f"      FunctionUrlConfig: {{AuthType: NONE}}\n{FUNCTION}", 1
        ),
        "AuthType: AWS_IAM",
    ),
    "schedule that is a resource": (with_rule(resource=EXTRA), "as an event of Type ScheduleV2"),
    "CodeUri in another form": (
        rule(PLACEHOLDER, "<aws.scheduler.schedule-time>").replace(
            "CodeUri: lambdas/enqueue", "CodeUri: ./lambdas/enqueue/"
        ),
        "does not fill in",
    ),
    "S3 without a mapping": (
        source("S3", "Bucket: !Ref UploadsBucket", "Events: s3:ObjectCreated:*", resource=BUCKET),
        "write a mapping",
    ),
    "table's stream with defaults": (
        source("DynamoDB", "Stream: !GetAtt Table.StreamArn", resource=TABLE),
        "write FunctionResponseTypes",
    ),
    "HttpApi without an authorizer": (
        source("HttpApi", "Path: /jobs", "Method: post"),
        "write a DefaultAuthorizer",
    ),
    "MONDAY": (cron("cron(30 8 ? * MONDAY *)"), "MONDAY"),
    "weekday 0": (cron("cron(30 8 ? * 0 *)"), "cron"),
    "event source that is a resource": (
        with_rule().replace("FunctionResponseTypes: [ReportBatchItemFailures]", "Enabled: true"),
        "SpillMapping: Lambda does not look",
    ),
    "secret in a variable": (
        with_rule().replace("[HasIam, !Ref RedisIamUrl", "[HasIam, !Ref RedisUrl"),
        "reads REDIS_URL",
    ),
    "schedules that may not send dead letters": (
        with_rule().replace(SCHEDULE_ROLE, "", 1),
        "its role may not send to its dead-letter queue",
    ),
    "alias that the schedules may not invoke": (
        with_rule().replace(CODE, f"{CODE}      AutoPublishAlias: live\n", 1),
        "allow lambda:InvokeFunction on {'Ref': 'EnqueueFunctionAliaslive'}",
    ),
    "role with all rights": (
        with_rule().replace("Action: lambda:InvokeFunction", 'Action: "lambda:*"', 1),
        "name each action",
    ),
    "topic whose dead letters are not accepted": (
        source(
            "SNS",
            "Topic: !Ref Topic",
            "RedrivePolicy: {deadLetterTargetArn: !GetAtt EnqueueDeadLetterQueue.Arn}",
            resource="  Topic: {Type: AWS::SNS::Topic}\n\n",
        ),
        "a statement for sns.amazonaws.com",
    ),
    "topics of any account may invoke": (
        with_rule(resource=PERMISSION),
        "may invoke the function for any account",
    ),
    "URL that is a resource": (with_rule(resource=URL), "AuthType: AWS_IAM"),
    "number for a text": (rule(ADA, "[5]"), "argument name of Greeting is integer"),
}


@pytest.fixture(scope="module")
def application():
    registry = Registry()
    with own_declarations():

        @job(name="Greeting")
        def greet(name: str, loud: bool = False) -> None: ...

        class DailyReport(Job):
            def perform(self, day_offset: int = 1) -> None: ...

        for each in (greet, DailyReport):
            registry.register(definition_of(each))
    return Application(registry=registry, queues=frozenset({"default", "low"}), namespace="")


@pytest.fixture
def said_of(application, tmp_path):
    def said_of(text):
        for name in ("lambdas/enqueue/mappings.yml", "template.yaml"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(FILES[name] if name != "template.yaml" else text, encoding="utf-8")
        return check_template(path, {}, application)

    return said_of


def test_of_a_rule_without_a_mistake_nothing_is_said(said_of):
    assert said_of(with_rule()) == []


def test_a_job_of_a_rails_application_has_a_queue_of_its_own(said_of):
    text = with_rule().replace("Greeting", "HardJob").replace(QUEUE_NAME, '"queue": "rails"')

    assert said_of(text.replace("[low, default,", "[low, rails,")) == []


@pytest.mark.parametrize(("text", "part"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_its_line(said_of, text, part):
    assert text != with_rule()

    lines = said_of(text)

    assert any(part in line and re.search(r"template\.yaml:\d+", line) for line in lines), lines


def test_a_reserved_concurrency_of_zero_and_an_alias_that_no_rule_trusts_are_named(
    said_of, application, tmp_path
):
    said_of(with_rule().replace(CODE, f"{CODE}      AutoPublishAlias: live\n", 1))
    mappings = tmp_path / "lambdas/enqueue/mappings.yml"
    mappings.write_text(
        "allow: [{source: direct, classes: ['*'], queues: ['*'], ticks: ['*']}]\n"
        "mappings:\n- {match: {buckt: x}, class: Greeting, args: [a]}\n",
        encoding="utf-8",
    )
    template = tmp_path / "template.yaml"

    [misspelt] = check_template(template, {"ReservedConcurrency": "0"}, application)[:1]
    mappings.write_text(mappings.read_text("utf-8").replace("buckt", "bucket"), encoding="utf-8")
    *aliases, zero = check_template(template, {"ReservedConcurrency": "0"}, application)[:3]

    assert "did you mean bucket?" in misspelt
    assert len(aliases) == 2
    assert all("invoked as 'live', may enqueue nothing" in each for each in aliases)
    assert "leave ReservedConcurrency empty" in zero
