"""The dead set is kept within its bounds by the worker that leads: counted, logged, archived; nothing in silence."""

import json
import time

import boto3
import pytest
from moto import mock_aws
from support.waiting import wait_until

from kiqbridge.commands import cli
from kiqbridge.features.dead_letters import trim as dead_trim
from kiqbridge.features.dead_letters.trim import (
    AT_ONCE,
    GATHER_S,
    ArchiveFailed,
    DeadArchive,
    DeadTrim,
)
from kiqbridge.features.transfer import file
from kiqbridge.wire.dead_bounds import DeadBounds, dropped_in, fleet_bounds
from kiqbridge.wire.keys import Keys

DAY_S = 86_400


def text(number, job_class="Mail"):
    return json.dumps({"class": job_class, "args": [number], "jid": f"j{number}"}).encode()


def fill(redis, count, *, first=0, job_class="Mail", age_s=1000.0):
    """So many dead jobs, the oldest first."""
    died_at = time.time() - age_s
    members = {text(n, job_class): died_at + n / 1000 for n in range(first, first + count)}
    redis.zadd("dead", members)
    return list(members)


def dead(redis):
    return redis.zrange("dead", 0, -1)


def counted(redis):
    return dropped_in(redis.zrange("kb:dead:trimmed", 0, -1))


def archive_in(place):
    return DeadArchive(str(place), source="redis://test", namespace="")


class Folder:
    """An archive in a folder, and putting all of it back."""

    def __init__(self, path):
        self.path = path
        self.archive = archive_in(path)

    @property
    def files(self):
        return list(self.path.iterdir())

    def restore(self):
        return cli.main(["restore", *map(str, self.files)])


@pytest.fixture
def folder(redis_url, monkeypatch, tmp_path):
    monkeypatch.setenv("REDIS_URL", redis_url)
    return Folder(tmp_path / "archive")


def publish(redis, identity, field):
    redis.sadd("processes", identity)
    redis.hset(identity, mapping={"info": "{}", **({"kb_dead": field} if field else {})})


def test_the_oldest_beyond_the_bound_are_dropped_counted_and_logged(redis, connection, caplog):
    members = fill(redis, 3, job_class="Bill") + fill(redis, 1500, first=3)

    DeadTrim(Keys(), DeadBounds(max_jobs=1001)).look(connection)

    assert dead(redis) == members[503:]  # one fewer than the bound (§8.5)
    assert counted(redis) == 503
    assert "503 jobs (Mail 500, Bill 3); they are gone for good" in caplog.text


def test_what_is_too_old_is_dropped_and_is_no_overflow(redis, connection, caplog):
    caplog.set_level("INFO")
    fill(redis, 2, age_s=181 * DAY_S)
    kept = fill(redis, 2, first=2)

    DeadTrim(Keys(), DeadBounds()).look(connection)

    assert dead(redis) == kept
    assert counted(redis) == 0
    assert "dead_timeout_in_seconds: 2 jobs (Mail 2)" in caplog.text


def test_the_widest_bounds_of_the_living_fleet_hold(redis, connection):
    fill(redis, 100)
    old = fill(redis, 1, first=100, age_s=200 * DAY_S)
    publish(redis, "living:1:a", f"50 {365 * DAY_S} drop")
    publish(redis, "living:2:a", "60 100 drop")
    publish(redis, "ruby:3:a", None)
    publish(redis, "broken:4:a", "no bounds at all")
    redis.sadd("processes", "gone:5:a")

    DeadTrim(Keys(), DeadBounds(max_jobs=10, timeout_s=10)).look(connection)

    assert redis.zcard("dead") == 59
    assert old[0] not in dead(redis)  # the oldest leaves first, for the number


@pytest.mark.parametrize("keeper", ["own", "another"])
def test_a_set_that_is_kept_grows_and_the_log_warns(redis, connection, caplog, keeper):
    fill(redis, 30)
    own = DeadBounds(max_jobs=10, is_kept=keeper == "own")
    if keeper == "another":
        publish(redis, "keeper:1:a", "10 15552000 keep")
    trim = DeadTrim(Keys(), own)

    for _ in range(3):
        trim.look(connection)

    assert redis.zcard("dead") == 30
    assert counted(redis) == 0
    assert caplog.text.count("the dead set has 30 jobs, more than dead_max_jobs") == 1


def test_few_are_gathered_for_a_minute_and_many_are_not(redis, connection):
    now = 0.0
    trim = DeadTrim(Keys(), DeadBounds(max_jobs=11), monotonic=lambda: now)
    sizes = []
    for more, seconds in ((20, 0.0), (5, 1.0), (1, GATHER_S), (5, 1.0), (AT_ONCE, 1.0)):
        fill(redis, more, first=sum(sizes) + 10_000 * len(sizes))
        now += seconds
        trim.look(connection)
        sizes.append(redis.zcard("dead"))

    assert sizes == [10, 15, 10, 15, 10]


def test_what_changed_since_it_was_read_stays(redis, connection, monkeypatch, caplog):
    members = fill(redis, 5)
    read = dead_trim.read_place

    def read_and_change(*args):
        found = list(read(*args))
        redis.zadd("dead", {members[0]: time.time()})  # killed again
        redis.zrem("dead", members[1])  # retried
        return iter(found)

    monkeypatch.setattr(dead_trim, "read_place", read_and_change)

    DeadTrim(Keys(), DeadBounds(max_jobs=3)).look(connection)

    assert dead(redis) == [members[3], members[4], members[0]]
    assert counted(redis) == 1
    assert "1 job (Mail 1)" in caplog.text


def test_turns_are_bounded_in_bytes_and_the_next_look_goes_on(
    redis, connection, monkeypatch, caplog
):
    monkeypatch.setattr(dead_trim, "TURN_BYTES", 1000)
    fill(redis, 25_000)
    trim = DeadTrim(Keys(), DeadBounds(max_jobs=11))

    trim.look(connection)

    assert AT_ONCE < redis.zcard("dead") < 25_000
    assert caplog.text.count("its oldest jobs were dropped") == dead_trim.TURNS
    wait_until(lambda: trim.look(connection) or redis.zcard("dead") < AT_ONCE + 10)


@pytest.mark.parametrize("member", [b"{no json", b"[1]", b'{"class":7}', b"\xff", b"9" * 1_000_001])
def test_a_text_that_nobody_can_read_is_archived_as_it_is(redis, connection, folder, member):
    redis.zadd("dead", {member: 1.0})

    DeadTrim(Keys(), DeadBounds(), archive=folder.archive).look(connection)

    assert dead(redis) == []
    assert folder.restore() == 0
    assert redis.zrange("dead", 0, -1, withscores=True) == [(member, 1.0)]


def test_what_is_dropped_is_archived_first_and_can_be_restored(redis, connection, folder, caplog):
    members = fill(redis, 2500)
    before = redis.zrange("dead", 0, -1, withscores=True)

    DeadTrim(Keys(), DeadBounds(max_jobs=11), archive=folder.archive).look(connection)

    assert dead(redis) == members[-10:]
    [file] = folder.files
    assert f"2,490 jobs (Mail 2,490); they are in {file}." in caplog.text
    assert file.stat().st_mode & 0o077 == 0
    assert folder.restore() == folder.restore() == 0  # the second time puts nothing in
    assert redis.zrange("dead", 0, -1, withscores=True) == before


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("before", ["fsync", "rename", "remove_dead", "report"])
def test_a_process_that_ends_between_loses_nothing(redis, connection, folder, monkeypatch, before):
    members = fill(redis, 50)
    places = {
        "fsync": (file.os, "fsync"),
        "rename": (dead_trim.Path, "rename"),
        "remove_dead": (dead_trim, "remove_dead"),
        "report": (DeadTrim, "_report"),
    }

    def end(*_, **__):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(*places[before], end)
        with pytest.raises(Killed):
            DeadTrim(Keys(), DeadBounds(max_jobs=11), archive=folder.archive).look(connection)
    DeadTrim(Keys(), DeadBounds(max_jobs=11), archive=folder.archive).look(connection)

    assert dead(redis) == members[-10:]
    assert counted(redis) == 40
    assert len(folder.files) == (2 if before == "remove_dead" else 1)
    assert folder.restore() == 0
    assert dead(redis) == members


def test_what_cannot_be_archived_stays(redis, connection, folder):
    members = fill(redis, 50)
    folder.path.write_text("a file in the place of the folder")

    with pytest.raises(ArchiveFailed, match="FileExistsError"):
        DeadTrim(Keys(), DeadBounds(max_jobs=11), archive=folder.archive).look(connection)

    assert dead(redis) == members


def test_an_archive_in_s3(redis, connection, folder, monkeypatch):
    members = fill(redis, 50)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with mock_aws():
        s3 = boto3.client("s3")
        to_s3 = archive_in("s3://archive/dead/jobs/")
        with pytest.raises(ArchiveFailed, match="NoSuchBucket"):
            DeadTrim(Keys(), DeadBounds(max_jobs=11), archive=to_s3).look(connection)
        assert dead(redis) == members
        s3.create_bucket(
            Bucket="archive", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
        DeadTrim(Keys(), DeadBounds(max_jobs=11), archive=to_s3).look(connection)
        [found] = s3.list_objects_v2(Bucket="archive")["Contents"]
        folder.path.mkdir()
        s3.download_file("archive", found["Key"], str(folder.path / "dead.jsonl.gz"))

    assert found["Key"].startswith("dead/jobs/dead-2")
    assert dead(redis) == members[-10:]
    assert folder.restore() == 0
    assert dead(redis) == members


def test_without_workers_sidekiqs_bounds_hold():
    assert fleet_bounds([]) == fleet_bounds([None, "", "junk"]) == DeadBounds(10_000, 180 * DAY_S)


def test_what_living_workers_would_drop_again_is_not_restored(redis, connection, folder, capsys):
    members = fill(redis, 2500)
    publish(redis, "living:1:a", "1011 15552000 drop")
    DeadTrim(Keys(), DeadBounds(max_jobs=11), archive=folder.archive).look(connection)
    assert redis.zcard("dead") == 1010

    assert folder.restore() == 2
    assert "the living workers keep 1,010, so that they would drop" in capsys.readouterr().err
    publish(redis, "living:1:a", "1011 15552000 keep")
    assert folder.restore() == 0

    assert dead(redis) == members
