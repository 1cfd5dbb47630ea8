"""The parameters Shards and ShardSecretArns: what they hold, who gets them, what the roles may read."""

import re

import pytest
from infra import check_template
from infra.decided import refused
from samtranslator.yaml_helper import yaml_parse

SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:"
ROLES = {"EnqueueRole", "MinuteFunctionsRole", "WebRole", "WorkerTaskRole"}


def read(path):
    return yaml_parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def root():
    return read(check_template.TEMPLATE)


@pytest.fixture(scope="module")
def worker_stack():
    return read(check_template.TEMPLATE.parent / "infra" / "worker_service.yaml")


def test_shards_take_the_place_of_the_address(root, worker_stack):
    given = root["Resources"]["WorkerServiceStack"]["Properties"]["Parameters"]
    task = worker_stack["Resources"]["WorkerTaskDefinition"]["Properties"]
    [container] = task["ContainerDefinitions"]
    conditional = [each["Fn::If"][:2] for each in container["Environment"] if "Fn::If" in each]
    variables = root["Globals"]["Function"]["Environment"]["Variables"]

    entry = {"Name": "KIQBRIDGE_SHARDS", "Value": {"Ref": "Shards"}}
    assert ["HasShards", entry] in conditional
    assert variables["KIQBRIDGE_SHARDS"]["Fn::If"][:2] == ["HasShards", {"Ref": "Shards"}]
    assert {name: given[name] for name in ("Shards", "ShardSecretArns")} == {
        name: {"Ref": name} for name in ("Shards", "ShardSecretArns")
    }


@pytest.mark.parametrize(
    ("name", "text", "is_taken"),
    [
        ("Shards", "", True),
        ("Shards", '{"a": {"url": "rediss://host:6379/0", "queues": ["*"]}}', True),
        ("Shards", '{"a": {"url": "rediss://:password@host/0", "queues": ["*"]}}', False),
        ("Shards", "rediss://host:6379/0", False),
        ("ShardSecretArns", "", True),
        ("ShardSecretArns", f"{SECRET}a-AbCdEf,{SECRET}b-AbCdEf", True),
        ("ShardSecretArns", f"{SECRET}*", False),
        ("ShardSecretArns", f"{SECRET}a-AbCdEf,*", False),
    ],
)
def test_shards_hold_no_password_and_no_pattern_of_secrets(
    root, worker_stack, name, text, is_taken
):
    patterns = [each["Parameters"][name]["AllowedPattern"] for each in (worker_stack, root)]

    assert [re.fullmatch(pattern, text) is not None for pattern in patterns] == [is_taken] * 2


def test_each_role_that_reaches_redis_may_read_the_secrets_of_shards_alone(root, worker_stack):
    found = {}
    for template in (worker_stack, root):
        for role, resource in template["Resources"].items():
            for each in resource.get("Properties", {}).get("Policies", []):
                condition, policy, _ = each.get("Fn::If", ("", each, None))
                if policy["PolicyName"] == "ReadShardSecrets":
                    [statement] = policy["PolicyDocument"]["Statement"]
                    found[role] = (condition, statement["Action"], statement["Resource"])

    right = ("HasShardSecrets", "secretsmanager:GetSecretValue")
    secrets = {"Fn::Split": [",", {"Ref": "ShardSecretArns"}]}
    assert set(found) == ROLES
    assert set(map(str, found.values())) == {str((*right, secrets))}


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({"Shards": "{...}"}, set()),
        ({"Shards": "{...}", "ShardSecretArns": SECRET}, set()),
        ({"RedisUrlSecretArn": SECRET}, set()),
        ({}, {"OneRedis"}),
        ({"Shards": "{...}", "RedisUrlSecretArn": SECRET}, {"NoOtherRedisBesideShards"}),
        ({"RedisUrlSecretArn": SECRET, "ShardSecretArns": SECRET}, {"ShardsForSecrets"}),
    ],
)
def test_its_rules_know_shards(worker_stack, given, rules):
    assert refused(worker_stack, **given) == rules
