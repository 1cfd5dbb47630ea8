"""`kiqbridge queue move NAME --to SHARD`: what it says, refuses and leaves; the proof is tests/faults/test_queue_move.py."""

import json
import threading
import time

import pytest
from support.waiting import wait_until

from kiqbridge.commands import cli, queue_move
from kiqbridge.transfer.moving import Mover
from kiqbridge.wire.keys import Keys

QUEUE = "default"
ITEM = {"class": "Work", "args": [1], "queue": QUEUE}


@pytest.fixture(autouse=True)
def settings(shards, monkeypatch):
    for name, value in shards.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(queue_move, "QUIET_S", 0.3)
    monkeypatch.setattr(queue_move, "LOOK_S", 0.02)


@pytest.fixture
def client(shards):
    client = shards.client()
    yield client
    client.close()


@pytest.fixture
def run(capsys):
    def run(*args):
        code = cli.main(["queue", "move", *args])
        return code, *capsys.readouterr()

    return run


def serve(raw, *queues):
    """As the heartbeat of a process shows it."""
    info = {"hostname": "h", "pid": 1, "concurrency": 5, "queues": queues, "labels": [], "identity": "h:1:a"}  # fmt: skip
    raw.sadd("processes", "h:1:a")
    raw.hset("h:1:a", mapping={"info": json.dumps(info), "busy": 0, "beat": time.time(), "quiet": "false"})  # fmt: skip


def test_all_that_waits_goes_to_the_shard(client, shards, run):
    serve(shards.raw["mail"], QUEUE)
    client.push_bulk({**ITEM, "args": [[number] for number in range(1200)]})
    client.push({**ITEM, "at": time.time() + 1000})

    code, out, err = run(QUEUE, "--to", "mail")

    assert (code, err) == (0, "")
    assert out == (
        "queue default lies on shard mail: moved 1,201 jobs from rest (1,200 waiting, 1 scheduled, 0 in retry)\n"
    )
    assert (shards.raw["mail"].llen("queue:default"), shards.raw["mail"].zcard("schedule")) == (1200, 1)  # fmt: skip
    assert not shards.raw["rest"].exists("queue:default", "schedule")
    assert shards.client().shard_of(QUEUE) == "mail"


def test_the_action_is_in_the_audit_log(client, shards, run, capsys):
    run(QUEUE, "--to", "mail", "--force")

    entries = [json.loads(each) for each in shards.raw["rest"].hvals("kb:audit:entries")]
    assert [(each["action"], each["target"], each["detail"]) for each in entries] == [("move", "queue:default", "to shard mail")]  # fmt: skip


def test_without_a_process_there_nothing_is_changed(client, shards, run):
    client.push(ITEM)
    serve(shards.raw["mail"], "other")

    code, out, err = run(QUEUE, "--to", "mail")

    assert (code, out) == (2, "")
    assert "no process on shard mail serves queue default" in err
    assert "--force" in err
    assert shards.raw["rest"].llen("queue:default") == 1
    assert not shards.raw["rest"].exists("kb:routes")


@pytest.mark.parametrize("option", ["--force", "--yes"])
def test_it_is_moved_all_the_same_if_you_say_so(client, shards, run, option):
    client.push(ITEM)

    assert run(QUEUE, "--to", "mail", option)[0] == 0
    assert shards.raw["mail"].llen("queue:default") == 1


def test_a_dry_run_counts(client, shards, run):
    client.push(ITEM)
    client.push({**ITEM, "at": time.time() + 1000})

    assert run(QUEUE, "--to", "mail", "--dry-run")[:2] == (
        0,
        "would move queue default to shard mail; it lies on rest\n  rest: 1 waiting, 1 scheduled, 0 in retry\n",
    )
    document = json.loads(run(QUEUE, "--to", "mail", "--dry-run", "--json")[1])
    assert document["count"] == 2
    assert document["shards"]["rest"] == {"queue": 1, "schedule": 1, "retry": 0}
    assert not any(raw.exists("kb:routes", "kb:routes:from") for raw in shards.raw.values())


def test_a_queue_that_lies_there_is_left_alone(client, shards, run):
    assert run(QUEUE, "--to", "rest", "--force")[:2] == (
        0,
        "queue default lies on shard rest already; nothing of it waits elsewhere\n",
    )
    assert not any(raw.exists("kb:routes", "kb:routes:from") for raw in shards.raw.values())


def test_moved_back_nothing_points_away_any_more(client, shards, run):
    client.push(ITEM)
    run(QUEUE, "--to", "mail", "--force")
    run(QUEUE, "--to", "rest", "--force")

    assert shards.raw["rest"].llen("queue:default") == 1
    assert not shards.raw["rest"].exists("kb:routes")
    assert shards.client().shard_of(QUEUE) == "rest"


def test_jobs_of_batches_stay_and_are_counted(client, shards, run):
    client.push_bulk({**ITEM, "args": [[1], [2]], "flow": {"bid": "b"}})
    client.push(ITEM)

    code, out, _ = run(QUEUE, "--to", "mail", "--force")

    assert code == 0
    assert "moved 1 job from rest" in out
    assert "2 jobs of batches, chains or schedules' occurrences stay" in out
    assert shards.raw["rest"].llen("queue:default") == 2


def test_the_document(client, shards, run):
    client.push(ITEM)

    document = json.loads(run(QUEUE, "--to", "mail", "--force", "--json")[1])

    assert document == {
        "dry_run": False,
        "queue": "default",
        "to": "mail",
        "from": "rest",
        "count": 1,
        "moved": {"queue": 1, "schedule": 0, "retry": 0},
        "stayed": 0,
        "running": 0,
        "away": [],
    }


def test_what_an_interrupted_run_has_left_is_completed_also_on_the_way_to_another_shard(
    client, shards, run
):
    client.push_bulk({**ITEM, "args": [[number] for number in range(3)]})
    pools = {name: client.on(name).pool for name in shards.setting}
    mover = Mover(QUEUE, Keys(), pools["rest"], pools["fast"], to="fast")
    mover._hold("queue:default", "queue", 2, ["queue"])

    assert run(QUEUE, "--to", "mail", "--force")[0] == 0

    texts = [json.loads(text)["args"] for text in shards.raw["mail"].lrange("queue:default", 0, -1)]
    assert sorted(texts) == [[0], [1], [2]]
    assert not shards.raw["fast"].exists("queue:default")
    assert not shards.raw["rest"].exists("queue:default", "kb:moving:default")


def test_late_pushes_to_the_old_place_are_moved_as_well(shards, run, monkeypatch):
    monkeypatch.setattr(queue_move, "QUIET_S", 2.0)
    stale = shards.client()
    stale.shard_of(QUEUE)
    done = []
    thread = threading.Thread(target=lambda: done.append(run(QUEUE, "--to", "mail", "--force")))
    thread.start()
    wait_until(lambda: shards.raw["rest"].exists("kb:routes"), 10, "the route")
    stale.push(ITEM)
    thread.join(60)

    assert [each[0] for each in done] == [0]
    assert shards.raw["mail"].llen("queue:default") == 1


def test_follow_waits_for_what_runs(shards, run, monkeypatch):
    shown = []
    monkeypatch.setattr(queue_move, "_show", lambda _options, line: shown.append(line))
    raw = shards.raw["rest"]
    raw.sadd("kb:inflight", "v2:h:1:n:0")
    raw.hset("kb:claims:v2:h:1:n:0", "t", "1 queue:default")
    raw.rpush("kb:inflight:v2:h:1:n:0:t:1", "a job")
    done = []
    assert "1 job still in progress elsewhere" in run(QUEUE, "--to", "mail", "--force")[1]
    thread = threading.Thread(target=lambda: done.append(run(QUEUE, "--to", "mail", "--force", "--follow")))  # fmt: skip
    thread.start()
    raw.lpush("queue:default", "one that was given back")
    wait_until(lambda: shards.raw["mail"].llen("queue:default"), 10, "what was given back")
    wait_until(lambda: shown == ["1 job of default in progress elsewhere"], 10, lambda: str(shown))
    assert thread.is_alive()
    raw.delete("kb:inflight:v2:h:1:n:0:t:1")
    thread.join(60)

    assert [each[0] for each in done] == [0]
    assert "in progress" not in done[0][1]


def test_a_shard_that_is_unknown_is_refused(run):
    code, _, err = run(QUEUE, "--to", "nowhere")

    assert code == 2
    assert "'nowhere' is not one of the shards (mail, fast, rest)" in err


def test_selected_jobs_go_to_another_queue_as_ever(redis, redis_url, monkeypatch, run):
    monkeypatch.delenv("KIQBRIDGE_SHARDS")
    monkeypatch.setenv("REDIS_URL", redis_url)
    redis.lpush("queue:default", json.dumps({**ITEM, "jid": "a" * 24}))

    assert run(QUEUE, "--all", "--to", "mail")[0] == 0
    assert redis.llen("queue:mail") == 1
    assert run(QUEUE, "--to", "mail")[0] == 2
