"""What the settings say about Redis together, and which of them exclude each other."""

import pytest

from kiqbridge import Client
from kiqbridge.config.environment import read_access
from kiqbridge.config.merge import merge
from kiqbridge.config.redis_access import RedisAccess
from kiqbridge.errors import ConfigError

ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:redis-AbCdEf"


def test_the_environment_is_read():
    environ = {
        "REDIS_URL": "rediss://host",
        "REDIS_SECRET_ARN": ARN,
        "AWS_REGION": "eu-west-1",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "PATH": "/bin",
    }

    access = read_access(environ)

    assert (access.url, access.url_is_default) == ("rediss://host", False)
    assert access.secret_arn == ARN
    assert access.aws == {"AWS_REGION": "eu-west-1", "AWS_SECRET_ACCESS_KEY": "s3cret"}
    assert "s3cret" not in repr(access)


def test_a_worker_reads_the_same():
    environ = {"REDIS_SSM_PARAMETER": "/redis", "AWS_DEFAULT_REGION": "eu-west-1"}

    config = merge(environ=environ, flags={})

    assert config.redis == read_access(environ)
    assert config.redis.url_is_default
    assert config.redis.region == "eu-west-1"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        (
            {"REDIS_SECRET_ARN": ARN, "REDIS_SSM_PARAMETER": "/redis"},
            "REDIS_SECRET_ARN and REDIS_SSM_PARAMETER are set",
        ),
        (
            {"REDIS_SECRET_ARN": ARN, "REDIS_IAM_USER": "app", "REDIS_IAM_CACHE": "jobs"},
            "REDIS_SECRET_ARN and REDIS_IAM_USER are set",
        ),
        ({"REDIS_IAM_USER": "app"}, "REDIS_IAM_USER is set and REDIS_IAM_CACHE is not"),
        ({"REDIS_IAM_CACHE": "jobs"}, "REDIS_IAM_CACHE is set and REDIS_IAM_USER is not"),
    ],
)
def test_settings_that_exclude_each_other(environ, words):
    with pytest.raises(ConfigError, match=words):
        read_access(environ)


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (RedisAccess(url="", secret_arn="redis"), "its region is not known"),
        (RedisAccess(url="", ssm_parameter="/redis"), "its region is not known"),
        (
            RedisAccess(url="rediss://host", iam_user="app", iam_cache="jobs"),
            "REDIS_IAM_USER: the region is not known",
        ),
        (
            RedisAccess(url="redis://host", iam_user="app", iam_cache="jobs"),
            "only sent over TLS",
        ),
        (
            RedisAccess(url="redis://127.0.0.1.example", iam_user="app", iam_cache="jobs"),
            "only sent over TLS",
        ),
        (
            RedisAccess(url="rediss://:s3cret@host", iam_user="app", iam_cache="jobs"),
            "leave user and password out",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_opened(access, words):
    with pytest.raises(ConfigError, match=words) as refusal:
        Client(access)

    assert "s3cret" not in str(refusal.value)


def test_the_region_of_an_arn_is_enough():
    assert "secret:redis-AbCdEf" in repr(Client(RedisAccess(url="", secret_arn=ARN)))


def test_an_address_in_code_goes_before_the_environment(monkeypatch):
    monkeypatch.setenv("REDIS_SECRET_ARN", ARN)

    assert "redis://elsewhere" in repr(Client("redis://elsewhere"))
    assert "secret:redis-AbCdEf" in repr(Client())
