"""Jobs that `kiqbridge jobs --save FILE` takes away: on the disk before, and put back by `restore`."""

import errno
import json
import os
from pathlib import Path

import pytest

from kiqbridge.api import Filter, Queue, open_operator
from kiqbridge.features.transfer.saving import save_jobs


def text(jid, name="Mail"):
    return json.dumps({"class": name, "args": [jid], "jid": jid, "queue": "low"}).encode()


def places(redis):
    sets = {key: redis.zrange(key, 0, -1, withscores=True) for key in ("retry", "schedule", "dead")}
    return sets | {"low": redis.lrange("queue:low", 0, -1)}


@pytest.fixture
def filled(redis):
    redis.sadd("queues", "low")
    redis.lpush("queue:low", *(text(f"low{n}") for n in range(1_500)), text("bill", "Bill"))
    redis.zadd("retry", {text(f"r{n}"): n + 0.25 for n in range(600)})
    redis.zadd("dead", {text("dead"): 1.5})
    return redis


@pytest.mark.parametrize("name", ["gone.jsonl", "gone.jsonl.gz"])
def test_what_was_deleted_is_put_back_as_it_was(run, filled, tmp_path, name):
    before, file = places(filled), tmp_path / name

    code, out, err = run("jobs", "delete", "--class", "Mail", "--save", file, "--yes")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "deleted 2,101 jobs in 3 places"
    assert places(filled) == {
        "retry": [], "schedule": [], "dead": [], "low": [text("bill", "Bill")],
    }  # fmt: skip
    filled.delete("queue:low")
    assert run("restore", file)[0] == 0

    mails = {**before, "low": [each for each in before["low"] if b"Bill" not in each]}
    assert places(filled) == mails


@pytest.mark.parametrize("place", ["missing/gone.jsonl", "there.jsonl"])
def test_nothing_is_deleted_whose_export_cannot_be_written(run, filled, tmp_path, place):
    (tmp_path / "there.jsonl").write_text("mine")
    before = places(filled)

    code, _, err = run("jobs", "delete", "--all", "--save", tmp_path / place, "--yes")

    assert (code, str((tmp_path / place).parent) in err) == (2, True)
    assert places(filled) == before
    assert (tmp_path / "there.jsonl").read_text() == "mine"
    assert [each.name for each in Path(tmp_path).iterdir()] == ["there.jsonl"]


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_nothing_is_deleted_while_its_export_finds_no_room_on_the_disk(
    run, filled, tmp_path, monkeypatch, call
):
    def full(number, *_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = places(filled)
    monkeypatch.setattr(f"kiqbridge.features.transfer.file.os.{call}", full)
    code, _, err = run("jobs", "delete", "--class", "*", "--save", tmp_path / "gone.jsonl", "--yes")

    assert code == 2
    assert len(err.splitlines()) == 1
    assert "No space left on device; what the file does not have is still in Redis" in err
    assert places(filled) == before
    assert list(tmp_path.iterdir()) == []


def test_a_take_goes_on_where_the_disk_was_full(run, filled, tmp_path, monkeypatch):
    write, written = os.write, []

    def filling(number, data):
        written.append(len(data))
        if sum(written) > 40_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(number, data)

    before, command = places(filled), ("export", tmp_path / "low.jsonl", "--queue", "low", "--take")
    with monkeypatch.context() as patched:
        patched.setattr("kiqbridge.features.transfer.file.os.write", filling)
        code, _, err = run(*command, "--yes")
        assert (code, len(err.splitlines())) == (2, 1)
    assert run(*command, "--yes")[0] == 0
    assert places(filled)["low"] == []
    assert run("restore", tmp_path / "low.jsonl")[0] == 0
    assert places(filled) == before


def test_what_came_after_the_export_stays(filled, redis_url, tmp_path):
    operator = open_operator(redis_url)
    low = Queue("low", operator)

    saved = save_jobs(operator, tmp_path / "gone.jsonl", [low], Filter())
    filled.lpush("queue:low", text("later"))

    assert low.apply_all("delete", saved) == 1_501
    assert filled.lrange("queue:low", 0, -1) == [text("later")]
