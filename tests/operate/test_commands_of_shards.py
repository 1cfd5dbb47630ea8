"""The commands with several shards: all are read, each row says where it is, acts find the job wherever it lies."""

import json

import pytest
from support.servers import embedded_server

from kiqbridge.commands.cli import main


def text(jid, queue="default"):
    return json.dumps({"class": "Work", "args": [1], "jid": jid, "queue": queue, "retry_count": 0})


@pytest.fixture(autouse=True)
def environ(shards, monkeypatch):
    for name, value in shards.environ.items():
        monkeypatch.setenv(name, value)
    for name, raw in shards.raw.items():
        raw.sadd("queues", "default")
        raw.lpush("queue:default", text(f"q-{name}"))
        raw.zadd("retry", {text(f"r-{name}"): 1})
        process = {"hostname": name, "pid": 1, "queues": ["default"], "labels": ["kiqbridge"]}
        raw.sadd("processes", f"{name}:1:aa")
        raw.hset(f"{name}:1:aa", mapping={"info": json.dumps(process), "busy": 0, "beat": 1})


@pytest.fixture
def run(capsys):
    def call(*words, code=0):
        assert main(words) == code, capsys.readouterr()
        return capsys.readouterr().out

    return call


def test_stats_has_the_sum_and_a_line_for_each_shard(run):
    found = json.loads(run("stats", "--json"))

    assert (found["enqueued"], found["retries"], found["processes"]) == (3, 3, 3)
    assert [(each["name"], each["enqueued"]) for each in found["shards"]] == [
        ("mail", 1),
        ("fast", 1),
        ("rest", 1),
    ]
    assert found["queues"][0]["shards"] == ["mail", "fast", "rest"]
    shown = run("stats")
    assert "SHARD" in shown
    assert "mail, fast, rest" in shown


@pytest.mark.parametrize("words", [("ps",), ("retries",), ("queue", "show", "default")])
def test_each_row_says_on_which_shard_it_is(run, words):
    lines = run(*words).splitlines()

    head = next(place for place, line in enumerate(lines) if line.startswith("SHARD"))
    assert sorted(line.split()[0] for line in lines[head + 1 : head + 4]) == [
        "fast",
        "mail",
        "rest",
    ]


def test_one_shard_is_chosen_by_its_name(run, capsys):
    assert json.loads(run("stats", "--json", "--shard", "fast"))["enqueued"] == 1
    assert "SHARD" not in run("ps", "--shard", "fast")
    assert (
        len(json.loads(run("retries", "--json", "--shard", "fast", "--shard", "rest"))["jobs"]) == 2
    )

    assert main(["stats", "--shard", "nope"]) == 2
    assert "'nope' is not one of the shards (mail, fast, rest)" in capsys.readouterr().err


def test_a_job_is_found_and_acted_on_wherever_it_lies(run, shards):
    assert "shard       rest" in run("job", "show", "r-rest")
    run("job", "retry", "r-rest")
    run("retries", "delete", "r-mail", "--yes")
    run("queue", "delete", "default", "q-fast", "--yes")

    assert {name: raw.zcard("retry") for name, raw in shards.raw.items()} == {
        "mail": 0,
        "fast": 1,
        "rest": 0,
    }
    assert {name: raw.llen("queue:default") for name, raw in shards.raw.items()} == {
        "mail": 1,
        "fast": 0,
        "rest": 2,
    }
    entries = json.loads(run("audit", "--json"))["entries"]
    assert [(each["action"], each["shard"]) for each in entries] == [
        ("delete", "fast"),
        ("delete", "mail"),
        ("retry", "rest"),
    ]


def test_a_process_is_asked_to_stop_on_its_shard(run, shards):
    run("stop", "rest:1", "--yes")

    assert {name: raw.exists(f"{name}:1:aa-signals") for name, raw in shards.raw.items()} == {
        "mail": 0,
        "fast": 0,
        "rest": 1,
    }


def test_a_shard_that_is_away_is_named_and_the_others_are_shown(shards, monkeypatch, capsys):
    with embedded_server() as server:
        places = shards.setting | {"mail": {"url": server.url, "queues": ["mail"]}}
    monkeypatch.setenv("KIQBRIDGE_SHARDS", json.dumps(places))

    assert main(["stats", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["enqueued"] == 2
    assert "shard mail is away" in shown.err
    assert "check KIQBRIDGE_SHARDS" in shown.err
    [away] = json.loads(shown.out)["away"]
    assert (away["name"], "KIQBRIDGE_SHARDS" in away["why"]) == ("mail", True)
    assert main(["stats"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["mail", "away", *"-------"] in lines
    assert main(["stats", "--shard", "mail"]) == 3
    assert "shard mail" in capsys.readouterr().err
