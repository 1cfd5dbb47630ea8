"""Publishing the schedules of a stack: newer replaces older, never the reverse, unless on purpose."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from kiqbridge.errors import ConfigError, RedisRefused
from kiqbridge.features.publishing.function import publish_manifest, stands
from kiqbridge.store.manifests import read_manifests
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

KEYS = Keys()
JOB = {"class": "Report", "args": []}


def manifest(version, *, digest=None, **schedules):
    """A manifest whose schedules are given by their expressions."""
    documents = {
        name: value
        if isinstance(value, dict)
        else {"expression": value, "jobs": [JOB], "origin": "template"}
        for name, value in schedules.items()
    }
    return {
        "version": version,
        "hash": digest or json.dumps(documents, sort_keys=True),
        "schedules": documents,
    }


def published(redis):
    return {
        name.decode(): json.loads(text)
        for name, text in sorted(redis.hgetall("kb:schedules").items())
    }


def publish(pool, made, *, stack="shop", by="test", **options):
    return publish_manifest(pool, KEYS, made, stack=stack, by=by, **options)


def test_the_schedules_of_a_manifest_are_published_under_the_name_of_the_stack(pool, redis):
    made = manifest(100, Nightly="cron(0 3 * * ? *)", Hourly="rate(1 hour)")

    done = publish(pool, made, by="lambda:1")

    assert (done.outcome, done.standing, done.schedules, done.removed) == ("published", None, 2, 0)
    found = published(redis)
    assert list(found) == ["shop/Hourly", "shop/Nightly"]
    since = found["shop/Nightly"].pop("since")
    assert found["shop/Nightly"] == made["schedules"]["Nightly"]
    [standing] = read_manifests(pool, KEYS).values()
    assert (standing.version, standing.hash, standing.by) == (100, made["hash"], "lambda:1")
    assert set(standing.names) == set(found)
    assert standing.published_at == since


def test_the_name_of_the_stack_stands_in_the_jobs(pool, redis):
    job = {"class": "Report", "args": ["${AWS::StackName}-bucket"]}

    publish(
        pool,
        manifest(1, A={"expression": "rate(1 hour)", "jobs": [job], "origin": "template"}),
        stack="prod-shop",
    )

    assert published(redis)["prod-shop/A"]["jobs"][0]["args"] == ["prod-shop-bucket"]


def test_a_manifest_that_stands_is_recognized_and_not_written_again(pool, redis):
    made = manifest(100, A="rate(1 hour)")
    assert not stands(pool, KEYS, "shop", made)
    publish(pool, made)
    before = redis.hgetall("kb:manifests"), redis.hgetall("kb:schedules")

    assert stands(pool, KEYS, "shop", made)
    assert publish(pool, made, by="another").outcome == "unchanged"
    assert (redis.hgetall("kb:manifests"), redis.hgetall("kb:schedules")) == before


def test_a_newer_version_replaces_and_removes_what_is_no_more_but_nothing_of_others(pool, redis):
    publish(pool, manifest(100, A="rate(1 hour)", B="rate(2 hours)"))
    publish(pool, manifest(7, A="rate(1 day)"), stack="other")
    redis.hset("kb:schedules", "mine", '{"expression":"* * * * *","origin":"dynamic"}')

    done = publish(pool, manifest(200, B="rate(3 hours)"))

    assert (done.outcome, done.standing, done.removed) == ("published", 100, 1)
    assert list(published(redis)) == ["mine", "other/A", "shop/B"]
    assert published(redis)["shop/B"]["expression"] == "rate(3 hours)"


def test_a_dynamic_schedule_that_has_the_name_of_a_former_one_stays(pool, redis):
    publish(pool, manifest(100, A="rate(1 hour)"))
    redis.hset("kb:schedules", "shop/A", '{"expression":"* * * * *","origin":"dynamic"}')

    assert publish(pool, manifest(200)).removed == 0
    assert list(published(redis)) == ["shop/A"]
    assert read_manifests(pool, KEYS)["shop"].names == ()


def test_an_older_version_writes_nothing(pool, redis):
    publish(pool, manifest(200, A="rate(1 hour)"))
    before = redis.hgetall("kb:manifests"), redis.hgetall("kb:schedules")

    done = publish(pool, manifest(100, B="rate(1 hour)"))

    assert (done.outcome, done.standing) == ("older", 200)
    assert (redis.hgetall("kb:manifests"), redis.hgetall("kb:schedules")) == before


def test_a_newer_version_of_the_same_content_is_noted_so_that_one_between_is_older(pool, redis):
    publish(pool, manifest(100, A="rate(1 hour)"))

    assert publish(pool, manifest(300, A="rate(1 hour)")).outcome == "unchanged"
    assert publish(pool, manifest(200, B="rate(1 hour)")).outcome == "older"
    assert list(published(redis)) == ["shop/A"]


class TestRollback:
    def test_on_purpose_an_older_one_replaces_and_is_recorded(self, pool, redis):
        publish(pool, manifest(200, B="rate(1 hour)"))

        done = publish(pool, manifest(100, A="rate(1 hour)"), rollback=True)

        assert (done.outcome, done.standing, done.removed) == ("rolled back", 200, 1)
        assert list(published(redis)) == ["shop/A"]
        assert read_manifests(pool, KEYS)["shop"].rolled_back_from == 200

    def test_what_was_rolled_back_does_not_come_back_by_a_cold_start(self, pool, redis):
        newer = manifest(200, B="rate(1 hour)")
        publish(pool, newer)
        publish(pool, manifest(100, A="rate(1 hour)"), rollback=True)

        assert publish(pool, newer).outcome == "older"
        assert publish(pool, manifest(150, C="rate(1 hour)")).outcome == "older"
        assert list(published(redis)) == ["shop/A"]
        assert publish(pool, manifest(201, C="rate(1 hour)")).outcome == "published"
        assert list(published(redis)) == ["shop/C"]
        assert read_manifests(pool, KEYS)["shop"].rolled_back_from is None

    def test_asking_for_it_where_nothing_is_newer_is_a_plain_publication(self, pool):
        assert publish(pool, manifest(100, A="rate(1 hour)"), rollback=True).outcome == "published"


class TestSince:
    """From when the ticks of a schedule are expected."""

    def test_it_stays_while_the_schedule_is_due_at_the_same_times(self, pool, redis):
        publish(pool, manifest(100, A="rate(1 hour)"))
        document = published(redis)["shop/A"] | {"since": 1234}
        redis.hset("kb:schedules", "shop/A", json.dumps(document))

        job = {"class": "Other", "args": []}
        changed = {"expression": "rate(1 hour)", "jobs": [job], "origin": "template"}
        publish(pool, manifest(200, A=changed))

        assert published(redis)["shop/A"]["since"] == 1234
        assert published(redis)["shop/A"]["jobs"] == [job]

    @pytest.mark.parametrize(
        "change",
        [
            {"expression": "rate(2 hours)"},
            {"timezone": "Asia/Tokyo"},
            {"enabled": False},
            {"start": "2027-01-01T00:00:00Z"},
        ],
    )
    def test_it_begins_anew_when_that_changes(self, pool, redis, change):
        plain = {"expression": "rate(1 hour)", "jobs": [JOB], "origin": "template"}
        publish(pool, manifest(100, A=plain))
        redis.hset("kb:schedules", "shop/A", json.dumps(published(redis)["shop/A"] | {"since": 7}))

        publish(pool, manifest(200, A=plain | change))

        assert published(redis)["shop/A"]["since"] > 7


def test_of_many_that_publish_at_once_the_newest_stands(redis_url, redis):
    pools = [RedisPool(redis_url) for _ in range(8)]

    def start(number):
        return publish(pools[number % 8], manifest(number + 1, **{f"S{number}": "rate(1 hour)"}))

    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(start, range(40)))

    assert list(published(redis)) == ["shop/S39"]
    assert {each.outcome for each in done} <= {"published", "older"}
    for each in pools:
        each.close()


def test_an_entry_that_cannot_be_read_is_replaced(pool, redis):
    redis.hset("kb:manifests", "shop", "no JSON")
    redis.hset("kb:schedules", "shop/A", "neither")

    assert read_manifests(pool, KEYS) == {}
    assert publish(pool, manifest(1, A="rate(1 hour)")).outcome == "published"
    assert list(published(redis)) == ["shop/A"]


@pytest.mark.parametrize("stack", ["", "a/b", "-x", "x" * 129])
def test_what_is_no_name_of_a_stack_is_refused(pool, redis, stack):
    with pytest.raises(ConfigError, match="no name of a CloudFormation stack"):
        publish(pool, manifest(1), stack=stack)
    assert not redis.exists("kb:manifests")


@pytest.mark.parametrize(
    "broken", [{}, {"version": 1, "hash": "x", "schedules": 3}, {"version": "v"}]
)
def test_what_is_no_manifest_is_refused(pool, redis, broken):
    with pytest.raises(ConfigError, match="manifest: it cannot be read"):
        publish(pool, broken)
    assert not redis.exists("kb:manifests")


def test_a_foreign_key_is_left_as_it_is(pool, redis):
    redis.set("kb:schedules", "mine")

    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        publish(pool, manifest(1, A="rate(1 hour)"))
    assert redis.get("kb:schedules") == b"mine"
    assert not redis.exists("kb:manifests")
