"""Parameters that do not fit together are refused by the template's Rules, before anything is made."""

import pytest
from infra import check_template
from infra.decided import refused
from samtranslator.yaml_helper import yaml_parse

URL = {"RedisUrl": "rediss://host"}
SECRET = {"RedisUrlSecretArn": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:redis-AbCdEf"}
SSM = {"RedisSsmParameter": "/myapp/redis"}
IAM_URL = {"RedisIamUrl": "rediss://host:6379/0"}
IAM = {**IAM_URL, "RedisIamUser": "app", "RedisIamCache": "jobs"}
SUBNETS = {"SubnetIds": "subnet-12345678,subnet-87654321"}
VPC = {**SUBNETS, "VpcId": "vpc-12345678"}
GROUP = {"SecurityGroupIds": "sg-12345678"}
REDIS = {"CreateRedis": "true"}
NETWORK = {"CreateNetwork": "true"}
ENDPOINTS = {"CreateVpcEndpoints": "true", "VpcCidr": "10.0.0.0/16"}
FROM_ZERO = {"WorkerCount": "0", "WorkerMaxCount": "3"}
WORKER = {"CreateWorkerService": "true", "WorkerImageUri": "registry.example/worker:1"}


@pytest.fixture(scope="module")
def template():
    return yaml_parse(check_template.TEMPLATE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "given",
    [
        URL,
        SECRET,
        SSM,
        IAM,
        {**URL, **SUBNETS, **GROUP},
        {**REDIS, **VPC},
        {**REDIS, **NETWORK},
        {**REDIS, **NETWORK, **WORKER},
        {**REDIS, **NETWORK, **WORKER, "Size": "small"},
        {**REDIS, **VPC, **ENDPOINTS},
        {**URL, **VPC, **GROUP, **ENDPOINTS, **WORKER},
        {**URL, **VPC, **GROUP, **WORKER, "WorkerExec": "true"},
        {**URL, **VPC, **GROUP, **WORKER, "WorkerCount": "0"},
        {**URL, **VPC, **GROUP, **WORKER, **FROM_ZERO, "CreateMonitor": "true"},
    ],
    ids="+".join,
)
def test_parameters_that_fit_together_are_taken(template, given):
    assert refused(template, **given) == set()


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({}, "OneRedis"),
        ({**URL, **SECRET}, "OneRedis"),
        ({**URL, **REDIS, **VPC}, "OneRedis"),
        ({**SECRET, **REDIS, **VPC}, "OneRedis"),
        ({**URL, **SSM}, "NoOtherRedisBesideSsm"),
        ({**SECRET, **SSM}, "NoOtherRedisBesideSsm"),
        ({**SSM, **REDIS, **VPC}, "NoOtherRedisBesideSsm"),
        ({**URL, **IAM}, "NoOtherRedisBesideIam"),
        (IAM_URL, "IamUserAndCache"),
        ({**URL, "RedisIamUser": "app"}, "IamUserAndCache"),
        ({**URL, **SUBNETS}, "SecurityGroupsForSubnets"),
        (REDIS, "NetworkForRedis"),
        ({**REDIS, "VpcId": "vpc-12345678"}, "NetworkForRedis"),
        ({**REDIS, **SUBNETS}, "NetworkForRedis"),
        ({**REDIS, **NETWORK, **VPC}, "OneNetwork"),
        ({**URL, **NETWORK}, "OneNetwork"),
        ({**URL, "Size": "small"}, "SmallShop"),
        ({**REDIS, **NETWORK, "Size": "small", "CreateSpillFifoQueue": "true"}, "SmallShop"),
        ({**URL, **ENDPOINTS}, "NetworkForEndpoints"),
        ({**URL, **VPC, **GROUP, "CreateVpcEndpoints": "true"}, "NetworkForEndpoints"),
        ({**URL, **WORKER}, "NetworkAndImageForWorker"),
        ({**URL, **VPC, **GROUP, "CreateWorkerService": "true"}, "NetworkAndImageForWorker"),
        ({**URL, **VPC, **GROUP, **WORKER, **FROM_ZERO}, "MonitorForZeroWorkers"),
        ({**URL, "WorkerExec": "true", "WorkerReadOnlyRoot": "true"}, "ExecOrReadOnly"),
    ],
    ids=lambda given: given if isinstance(given, str) else "+".join(given) or "nothing",
)
def test_others_are_refused_by_the_rule_that_says_why(template, given, rule):
    assert refused(template, **given) == {rule}


def test_every_rule_says_what_to_give(template):
    for rule in template["Rules"].values():
        for assertion in rule["Assertions"]:
            assert set(assertion["AssertDescription"].split(" ")) & {"Give", "needs", "leave"}


def test_no_rule_needs_a_function_that_rules_do_not_have():
    """A Rule is decided before parameters are split, joined or cut: AWS refuses a template that tries."""
    text = check_template.TEMPLATE.read_text(encoding="utf-8")
    rules = text[text.index("\nRules:\n") : text.index("\nConditions:\n")]

    assert {word for word in rules.split() if word.startswith(("!", "[!"))} <= {
        *("!And", "!Or", "!Not", "!Equals", "!Ref"),
        *("[!Not", "[!Equals", "[!Ref"),
    }
