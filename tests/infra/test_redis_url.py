"""What looks at RedisUrl in a deployment: the code in infra/redis_url.yaml, called as CloudFormation calls it."""

import json

import boto3
import pytest
from infra import check_template
from moto import mock_aws
from samtranslator.yaml_helper import yaml_parse
from support.http_endpoint import body_of, http_endpoint, reply

STACK = check_template.TEMPLATE.parent / "infra/redis_url.yaml"
PASSWORD = "not-a-real-password"


@pytest.fixture(scope="module")
def handler():
    code = yaml_parse(STACK.read_text(encoding="utf-8"))["Resources"]["CheckFunction"]
    assert code["Properties"]["Handler"] == "index.handler"
    source = code["Properties"]["Code"]["ZipFile"]
    assert len(source) <= 4096  # CloudFormation takes no more
    module = {}
    exec(compile(source, "index.py", "exec"), module)
    return module["handler"]


@pytest.fixture(scope="module")
def cloudformation():
    """Where answers go, and what arrived there."""
    answers = []

    def answer(request):
        answers.append((request.headers.get("Content-Type"), json.loads(body_of(request))))
        reply(request, 200)

    with http_endpoint(answer) as port:
        yield f"http://127.0.0.1:{port}/answer", answers


@pytest.fixture(scope="module")
def secret():
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("AWS_DEFAULT_REGION", check_template.REGION)
        client = boto3.client("secretsmanager")
        yield client, client.create_secret(Name="redis-url", SecretString="first")["ARN"]


@pytest.fixture
def call(handler, cloudformation, secret):
    url, answers = cloudformation

    def call(
        kind="Create", address=f"rediss://:{PASSWORD}@host", plain="false", arn=secret[1], **more
    ):
        handler(
            {
                "RequestType": kind,
                "ResponseURL": url,
                "StackId": "stack",
                "RequestId": "request",
                "LogicalResourceId": "RedisUrlVersion",
                "ResourceProperties": {
                    "RedisUrl": address,
                    "AllowPlainRedis": plain,
                    "SecretArn": arn,
                },
                **more,
            },
            None,
        )
        kind, answer = answers.pop()
        assert answers == []
        # A presigned address is signed without a type of content.
        assert not kind
        assert (answer["StackId"], answer["RequestId"]) == ("stack", "request")
        assert answer["LogicalResourceId"] == "RedisUrlVersion"
        return answer

    return call


def test_each_value_of_the_secret_has_a_version_of_its_own(call, secret):
    client, arn = secret
    first = call()
    again = call("Update", PhysicalResourceId=first["PhysicalResourceId"])
    client.put_secret_value(SecretId=arn, SecretString="second")

    changed = call("Update", PhysicalResourceId=first["PhysicalResourceId"])

    assert first["Status"] == again["Status"] == changed["Status"] == "SUCCESS"
    assert first["Data"] == again["Data"] != changed["Data"]
    assert changed["Data"]["VersionId"] == client.get_secret_value(SecretId=arn)["VersionId"]
    # Another id would make CloudFormation delete the resource that it takes for the former one.
    assert changed["PhysicalResourceId"] == first["PhysicalResourceId"]


@pytest.mark.parametrize("scheme", ["redis", "redis+sentinel", "redis+cluster"])
def test_plain_redis_is_refused_unless_it_is_wanted(call, scheme):
    address = f"{scheme}://:{PASSWORD}@host"

    refused, taken = call(address=address), call(address=address, plain="true")

    assert refused["Status"] == "FAILED"
    assert "pass AllowPlainRedis=true" in refused["Reason"]
    assert PASSWORD not in json.dumps(refused)
    assert taken["Status"] == "SUCCESS"


def test_it_answers_whatever_happens_or_the_deployment_would_wait(call, capfd):
    missing = f"arn:aws:secretsmanager:{check_template.REGION}:123456789012:secret:gone-AbCdEf"

    failed = call(arn=missing)

    assert failed["Status"] == "FAILED"
    assert "ResourceNotFound" in failed["Reason"]
    assert call("Delete", arn=missing, address="redis://x")["Status"] == "SUCCESS"
    assert PASSWORD not in "".join(capfd.readouterr())


def test_the_address_is_hidden_and_its_pattern_is_that_of_the_root():
    nested = yaml_parse(STACK.read_text(encoding="utf-8"))["Parameters"]["RedisUrl"]
    root = yaml_parse(check_template.TEMPLATE.read_text(encoding="utf-8"))["Parameters"]["RedisUrl"]

    assert nested["NoEcho"] is root["NoEcho"] is True
    assert (
        nested["AllowedPattern"].replace("rediss?", "(none|rediss?", 1)[:15]
        == root["AllowedPattern"][:15]
    )
    assert "Default" not in nested
