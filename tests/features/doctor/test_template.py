"""The doctor's rules about templates: each fault gives one finding, and what ships has none."""

import json
from pathlib import Path

import pytest

from kiqbridge.api.verdict import Status
from kiqbridge.commands import cli
from kiqbridge.features.doctor.examination import CATALOGUE, examine_template

ROOT = Path(__file__).parents[3]
GOOD = """
Transform: AWS::Serverless-2016-10-31
Parameters:
  Url: {Type: String, Default: "rediss://valkey.example.com:6379"}
Conditions:
  IsOn: !Equals [a, b]
Globals:
  Function:
    Runtime: python3.13
    Architectures: [arm64]
Resources:
  Enqueue:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: lambdas/enqueue
      Timeout: 20
      ReservedConcurrentExecutions: 20
      VpcConfig: {SubnetIds: [subnet-1], SecurityGroupIds: [sg-1]}
      Environment:
        Variables: {REDIS_URL: !Ref Url, KIQBRIDGE_ALLOWED_CLASSES: Report}
      EventInvokeConfig:
        DestinationConfig:
          OnFailure: {Type: SQS, Destination: !GetAtt Dead.Arn}
      Policies:
        - Statement:
            - {Effect: Allow, Action: sqs:SendMessage, Resource: !GetAtt Dead.Arn}
            - {Effect: Allow, Action: [ec2:CreateNetworkInterface], Resource: "*"}
      Events:
        Nightly:
          Type: ScheduleV2
          Properties:
            ScheduleExpression: cron(0 3 * * ? *)
            ScheduleExpressionTimezone: Europe/Paris
            DeadLetterConfig: {Arn: !GetAtt Dead.Arn}
            Input: !Sub |-
              {"class": "Report", "args": [],
               "tick": {"schedule": "${AWS::StackName}/Nightly", "at": "<aws.scheduler.scheduled-time>"}}
        Orders:
          Type: SQS
          Properties: {Queue: !GetAtt Orders.Arn}
        Clicks:
          Type: Kinesis
          Properties:
            Stream: arn:aws:kinesis:eu-west-1:123456789012:stream/clicks
            DestinationConfig: {OnFailure: {Destination: !GetAtt Dead.Arn}}
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 120
      RedrivePolicy: {deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 5}
  Dead:
    Type: AWS::SQS::Queue
  Spilled:
    Type: AWS::Lambda::EventSourceMapping
    Condition: IsOn
    Properties: {FunctionName: !Ref Enqueue, EventSourceArn: !GetAtt Spill.Arn}
  Spill:
    Type: AWS::SQS::Queue
    Condition: IsOn
    Properties:
      VisibilityTimeout: !If [IsOn, 150, 120]
      RedrivePolicy: {deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 9}
  EachMinute:
    Type: AWS::Scheduler::Schedule
    Properties:
      ScheduleExpression: rate(1 minute)
      Target: {Arn: !GetAtt Enqueue.Arn, RetryPolicy: {MaximumRetryAttempts: 0}}
  Endpoint:
    Type: AWS::EC2::VPCEndpoint
    Properties: {ServiceName: com.amazonaws.eu-west-1.sqs}
  Alarm:
    Type: AWS::CloudWatch::Alarm
  Valkey:
    Type: AWS::ElastiCache::ReplicationGroup
    Properties: {TransitEncryptionEnabled: true}
  Role:
    Type: AWS::IAM::Role
    Properties:
      Policies:
        - !If
          - IsOn
          - PolicyDocument: {Statement: [{Effect: Allow, Action: s3:GetObject, Resource: "arn:aws:s3:::b/*"}]}
          - !Ref AWS::NoValue
        - PolicyDocument: {Statement: [{Effect: Deny, Action: "s3:*", Resource: "*"}]}
  Worker:
    Type: AWS::ECS::TaskDefinition
    Properties:
      ContainerDefinitions:
        - Command: [kiqbridge, worker]
          StopTimeout: 120
          Environment: [{Name: KIQBRIDGE_TIMEOUT_S, Value: 110}, {Name: REDIS_URL, Value: !Ref Url}]
"""

BROKEN = [
    ("VisibilityTimeout: 120\n", "", "visibility-timeout", "Orders has 30 s, Enqueue needs 120 s"),
    ("!If [IsOn, 150, 120]", "!If [IsOn, 150, 60]", "visibility-timeout", "Spill has 60 s"),
    ("EventInvokeConfig:", "NotThat:", "dead-letter", "Enqueue has no OnFailure"),
    ("            DeadLetterConfig: {Arn: !GetAtt Dead.Arn}\n", "", "dead-letter", "Enqueue.Nightly has no"),
    ("            DestinationConfig: {OnFailure", "            Other: {OnFailure", "dead-letter", "Enqueue.Clicks"),
    ("      RedrivePolicy: {deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 9}\n", "", "dead-letter", "Spill has no"),
    ("MaximumRetryAttempts: 0", "MaximumRetryAttempts: 3", "dead-letter", "EachMinute has no DeadLetterConfig"),
    ("      ReservedConcurrentExecutions: 20\n", "", "reserved-concurrency", "Enqueue has none"),
    ("ReservedConcurrentExecutions: 20", "ReservedConcurrentExecutions: 0", "reserved-concurrency", "Enqueue has 0"),
    ("Type: AWS::EC2::VPCEndpoint", "Type: AWS::EC2::Subnet", "vpc-endpoints", "Enqueue"),
    ("      Timeout: 20\n", "", "function-timeout", "Enqueue has 3 s"),
    ("rediss://", "redis://", "redis-tls", "Enqueue has REDIS_URL redis://, "),
    ("{TransitEncryptionEnabled: true}", "{}", "redis-tls", "Valkey has no TransitEncryptionEnabled"),
    ("Type: AWS::CloudWatch::Alarm", "Type: AWS::CloudWatch::Dashboard", "alarms", "no AWS::CloudWatch::Alarm"),
    ("Runtime: python3.13", "Runtime: python3.9", "runtime", "has Runtime python3.9"),
    ("Architectures: [arm64]", "Architectures: [arm]", "runtime", "is for arm"),
    ("    Runtime: python3.13\n", "", "runtime", "has no Runtime"),
    ("StopTimeout: 120", "Essential: true", "task-stop-timeout", "is killed after 30 s"),
    ("Action: s3:GetObject", 'Action: "s3:*"', "iam", "Role allows s3:*"),
    ('Resource: "arn:aws:s3:::b/*"', 'Resource: "*"', "iam", "Role allows s3:GetObject on every resource"),
    ("Action: sqs:SendMessage, Resource: !GetAtt Dead.Arn", "Action: sqs:SendMessage, Resource: '*'", "iam", "Enqueue allows"),
    ("      Policies:\n        - !If", "      ManagedPolicyArns: [arn:aws:iam::aws:policy/AmazonS3FullAccess]\n      Policies:\n        - !If", "iam", "AmazonS3FullAccess"),
    ("Type: ScheduleV2\n", "Type: Schedule\n", "template", "has UTC only"),
    ("cron(0 3 * * ? *)", "cron(0 3 30 2 ? *)", "never-fires", "Nightly"),
    ("cron(0 3 * * ? *)", "cron(0 3 * * *)", "template", "Enqueue.Nightly"),
]  # fmt: skip
UNZONED = """
        Daily:
          Type: ScheduleV2
          Properties:
            ScheduleExpression: cron(0 9 * * ? *)
            DeadLetterConfig: {Arn: x}
            Input: !Sub |-
              {"class": "Report", "args": [1],
               "tick": {"schedule": "${AWS::StackName}/Daily", "at": "<aws.scheduler.scheduled-time>"}}
        Orders:"""


def wrong(path, **more):
    found = [each for each in examine_template(path, **more) if each.status is not Status.OK]
    for each in found:
        assert each.why, each
        assert each.do, each
    return found


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "template.yaml"
    path.write_text(GOOD)
    return path


def test_a_good_template_has_no_finding(template):
    assert wrong(template) == []
    assert {each.rule for each in examine_template(template)} == {
        rule.id for rule in CATALOGUE.values() if rule.area == "template"
    }


@pytest.mark.parametrize(
    "path",
    [
        "template.yaml",
        *(
            str(each.relative_to(ROOT))
            for each in sorted(ROOT.glob("infra/*.yaml"))
            if each.name != "functions.yaml"  # its endpoints are the root's
        ),
    ],
)
def test_what_ships_has_no_finding(path):
    assert wrong(ROOT / path) == []


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: f"{case[2]}: {case[3]}")
def test_each_fault_is_one_finding(template, case):
    before, after, rule, what = case
    assert GOOD.count(before) >= 1
    template.write_text(GOOD.replace(before, after, 1))

    found = wrong(template)

    assert [each.rule for each in found] == [rule], found
    assert what in found[0].what


def test_a_local_time_without_a_zone_is_found_unless_a_comment_switches_that_off(template):
    template.write_text(GOOD.replace("\n        Orders:", UNZONED, 1))
    [finding] = wrong(template)
    assert finding.rule == "local-time"
    assert "Daily" in finding.what
    assert "ScheduleExpressionTimezone: Europe/Paris" in finding.do
    unzoned = UNZONED.replace("Daily:", "Daily: # lint: ignore KB104", 1)
    template.write_text(GOOD.replace("\n        Orders:", unzoned, 1))
    assert wrong(template) == []


NESTED = "  Nested:\n    Type: AWS::CloudFormation::Stack\n    Properties: {{TemplateURL: {}}}\n"


def test_what_a_template_nests_is_looked_at_and_itself_read_once(template):
    nested = "Resources: {Cache: {Type: AWS::ElastiCache::ReplicationGroup, Properties: {}}}"
    (template.parent / "infra").mkdir()
    (template.parent / "infra" / "redis.yaml").write_text(nested)
    template.write_text(GOOD + NESTED.format("infra/redis.yaml"))
    [finding] = wrong(template)
    assert finding.what == "infra/redis.yaml:1 Cache has no TransitEncryptionEnabled"
    template.write_text(GOOD + NESTED.format("template.yaml"))
    assert wrong(template) == []


def test_what_is_nested_and_not_here_may_hold_what_is_missing(template):
    bare = GOOD.replace("AWS::CloudWatch::Alarm", "X").replace("AWS::EC2::VPCEndpoint", "X")
    template.write_text(bare + NESTED.format("https://b/x.yaml"))
    assert [(each.rule, each.status.value) for each in wrong(template)] == [
        ("vpc-endpoints", "unknown"),
        ("alarms", "unknown"),
    ]


@pytest.mark.parametrize("text", ["{", "a: [", "- a", "\x00", "Resources: {A: {Type: !Foo x}}"])
def test_what_is_no_template_or_no_file_is_one_finding(template, text):
    template.write_text(text)
    assert {each.rule for each in wrong(template)} <= {"template"}
    template.unlink()
    [finding] = wrong(template)
    assert finding.rule == "template"
    assert "cannot be read" in finding.what


def test_the_command_needs_neither_redis_nor_aws(template, capsys, monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    assert cli.main(["doctor", "--template", str(template), "--strict"]) == 0
    assert capsys.readouterr().out.startswith("all is well")

    words = ["doctor", "--template", str(template), "--json"]
    assert cli.main([*words, "--parameter", "Url=redis://x:6379"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["template"] == str(template)
    assert [each["rule"] for each in answer["findings"] if each["status"] == "problem"] == [
        "redis-tls"
    ]
