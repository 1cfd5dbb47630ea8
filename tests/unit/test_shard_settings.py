"""The setting `shards`, from a file and from the environment."""

import json

import pytest

from kiqbridge.config.merge import merge
from kiqbridge.config.redis_access import access_of
from kiqbridge.config.shards import ShardSettings, shards
from kiqbridge.errors import ConfigError

MAIN = {"url": "redis://one/0", "queues": ["*"]}


def test_a_mapping_and_its_json_are_the_same():
    both = {"mail": {"url": "redis://:secret@two/1", "queues": ["mail", "mail-*"]}, "main": MAIN}

    assert shards(both, "file") == shards(json.dumps(both), "KIQBRIDGE_SHARDS")
    assert [each.name for each in shards(both, "file")] == ["mail", "main"]


def test_nothing_is_no_shards():
    assert shards({}, "default") == shards("", "KIQBRIDGE_SHARDS") == ()


def test_one_glob_needs_no_list():
    assert shards({"main": {"url": "redis://one", "queues": "*"}}, "file")[0].queues == ("*",)


def test_an_address_is_not_shown():
    [shard] = shards({"main": {"url": "redis://:hunter2@one", "queues": ["*"]}}, "file")

    assert "hunter2" not in repr(shard)


def test_a_provider_names_the_variable_with_the_address():
    [shard] = shards({"main": {"provider": "MAIN_REDIS", "queues": ["*"]}}, "file")

    assert access_of(shard, {"MAIN_REDIS": "redis://one/3"}).url == "redis://one/3"
    with pytest.raises(ConfigError, match="main: provider names MAIN_REDIS, which is not set"):
        access_of(shard, {})


def test_a_secret_has_the_address():
    [shard] = shards({"main": {"secret_arn": "arn:x", "queues": ["*"]}}, "file")

    access = access_of(shard, {"AWS_REGION": "eu-west-1"})

    assert (access.secret_arn, access.region) == ("arn:x", "eu-west-1")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", "no JSON (from here)"),
        ("[]", "list is not a mapping"),
        (7, "int is not a mapping"),
        ({"a b": MAIN}, "a b in here: a name of a shard consists of letters"),
        ({"main": "redis://one"}, "main in here: holds no url and queues"),
        ({"main": {"url": "redis://one"}}, "queues is no list of globs"),
        ({"main": {"url": "redis://one", "queues": []}}, "queues is no list of globs"),
        ({"main": {"url": "redis://one", "queues": [7]}}, "queues is no list of globs"),
        ({"main": {"queues": ["*"]}}, "nothing holds the address"),
        ({"main": {**MAIN, "provider": "X"}}, "url and provider both hold the address"),
        ({"main": {"url": 7, "queues": ["*"]}}, "url is no text"),
        ({"main": {**MAIN, "weight": 3}}, "weight is no setting of a shard; these are url"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(value, message):
    with pytest.raises(ConfigError) as refused:
        shards(value, "here")

    assert message in str(refused.value)


def test_no_message_holds_what_may_be_a_password():
    with pytest.raises(ConfigError) as refused:
        shards('{"main": {"url": "redis://:secret@one', "KIQBRIDGE_SHARDS")

    assert "secret" not in str(refused.value)


def test_the_worker_has_them_from_file_and_environment():
    from_file = merge(file={"shards": {"main": MAIN}}, environ={}, flags={})
    environ = {"KIQBRIDGE_SHARDS": json.dumps({"other": MAIN})}
    from_both = merge(file={"shards": {"main": MAIN}}, environ=environ, flags={})

    assert from_file.shards == (ShardSettings(name="main", url="redis://one/0", queues=("*",)),)
    assert [each.name for each in from_both.shards] == ["other"]
    assert merge(environ={}, flags={}).shards == ()


OTHER = {"url": "redis://two/0", "queues": ["*"]}
TWO = {"mail": {**MAIN, "queues": ["mail"]}, "rest": OTHER}


def worker(environ=None, **content):
    return merge(file={"shards": TWO, **content}, environ=environ or {}, flags={})


@pytest.mark.parametrize(
    ("environ", "served"),
    [
        ({}, ("mail", "rest")),
        ({"KIQBRIDGE_SHARD": "rest"}, ("rest",)),
        ({"KIQBRIDGE_SHARD": "rest, mail"}, ("mail", "rest")),
    ],
)
def test_a_worker_serves_all_shards_or_those_that_are_named(environ, served):
    assert worker(environ).served == served
    assert merge(environ={}, flags={}).served == ()


def test_a_process_has_the_address_of_its_shard():
    config = worker()

    assert config.on_shard("rest").redis.url == "redis://two/0"
    assert config.redis.url == MAIN["url"]


def test_a_provider_is_looked_up_when_the_settings_are_read():
    given = {"mail": {"provider": "MAIL_URL", "queues": ["*"]}}
    config = merge(file={"shards": given}, environ={"MAIL_URL": "redis://mail/3"}, flags={})

    assert config.redis.url == "redis://mail/3"
    with pytest.raises(ConfigError, match="MAIL_URL, which is not set"):
        merge(file={"shards": given}, environ={}, flags={})


@pytest.mark.parametrize(
    ("content", "environ", "source"),
    [
        ({}, {"KIQBRIDGE_SHARD": "nowhere"}, "KIQBRIDGE_SHARD"),
        ({"capsules": {"a": {"queues": ["b"], "shard": "nowhere"}}}, {}, "capsule a"),
    ],
)
def test_a_shard_that_does_not_exist_is_refused_with_the_names(content, environ, source):
    with pytest.raises(ConfigError) as refused:
        worker(environ, **content)

    assert "'nowhere' is not one of the shards" in str(refused.value)
    assert source in str(refused.value)
    assert "the shards are mail, rest" in str(refused.value)


def test_without_shards_none_can_be_chosen():
    with pytest.raises(ConfigError, match="shards names none"):
        merge(environ={"KIQBRIDGE_SHARD": "mail"}, flags={})


def test_an_empty_mapping_in_the_environment_takes_the_place_of_all_that_the_file_says_of_shards():
    file = {
        "shards": {"mail": {"url": "redis://mail:1/0", "queues": ["mail"]}},
        "capsules": {"a": {"queues": ["mail"], "shard": "mail"}},
    }

    config = merge(file=file, environ={"KIQBRIDGE_SHARDS": "{}"}, flags={})

    assert (config.shards, config.served) == ((), ())
    assert [each.shard for each in config.capsules] == [""]
    with pytest.raises(ConfigError, match="shards names none"):
        merge(file=file, environ={"KIQBRIDGE_SHARDS": "{}", "KIQBRIDGE_SHARD": "mail"}, flags={})
