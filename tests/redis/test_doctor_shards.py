"""The doctor with several shards: each is examined, and what is wrong with them together."""

import json
from unittest.mock import Mock

import pytest
from support.servers import embedded_server
from support.shards import QUEUES, sharded

from kiqbridge.api import open_operator
from kiqbridge.config.shards import shards as parse_shards
from kiqbridge.doctor import CATALOGUE, Selection, examine, shard_moves
from kiqbridge.doctor.shards import RULES
from kiqbridge.store.shards import open_shards
from kiqbridge.telemetry.fleet import fetch_families
from kiqbridge.transfer.moving import Mover
from kiqbridge.transfer.rerouting import reroute

ALL = Selection(rules=[rule.id for rule in RULES])


@pytest.fixture
def operator(shards):
    made = open_operator(client=shards.client())
    yield made
    made.client.close()


@pytest.fixture
def pools(shards):
    made = open_shards(parse_shards(shards.setting, "test"), {})
    yield made
    made.close()


def process(raw, *queues):
    info = {"hostname": "box", "pid": 1, "queues": list(queues), "labels": ["kiqbridge"]}
    raw.sadd("processes", "box:1:aa")
    raw.hset("box:1:aa", mapping={"info": json.dumps(info), "busy": 0, "beat": 1})


def push(raw, queue, **more):
    raw.sadd("queues", queue)
    job = {"class": "Work", "args": [], "jid": "j", "queue": queue, **more}
    raw.lpush(f"queue:{queue}", json.dumps(job))


def found(operator, selection=ALL):
    return {each.rule: each for each in examine(operator, selection=selection)}


def test_jobs_that_nobody_serves_where_they_lie_are_a_problem(operator, shards):
    for raw in shards.raw.values():
        process(raw, "mail", "default")
    push(shards.raw["fast"], "mail")
    assert found(operator)["shard-places"].status == "ok"

    push(shards.raw["fast"], "mail-bulk")

    finding = found(operator)["shard-places"]
    assert (finding.status, finding.what) == ("problem", "nobody serves mail-bulk (1 job on fast)")


def test_a_shard_without_a_worker_is_worse_if_jobs_wait_there(operator, shards):
    process(shards.raw["fast"], "critical")
    process(shards.raw["rest"], "default")
    assert found(operator)["shard-workers"].what == "no process serves mail"
    assert found(operator)["shard-workers"].status == "warning"

    push(shards.raw["mail"], "mail")

    assert found(operator)["shard-workers"].status == "problem"


def test_one_server_under_several_names_is_found(operator, shards):
    assert found(operator)["shard-twice"].status == "warning"

    url = shards.setting["mail"]["url"]
    same = sharded(dict.fromkeys(QUEUES, url)).client()
    try:
        finding = found(open_operator(client=same))["shard-twice"]
    finally:
        same.close()
    assert (finding.status, finding.what) == (
        "problem",
        "one database has several names: mail, fast, rest",
    )


def test_queues_without_a_shard_and_moves_to_unknown_ones_are_found(shards):
    urls = {"mail": shards.setting["mail"]["url"], "fast": shards.setting["fast"]["url"]}
    client = sharded(urls, {"mail": ["mail"], "fast": ["critical"]}).client()
    push(shards.raw["mail"], "other")
    shards.raw["mail"].hset("kb:routes", "mail", "gone")

    findings = found(open_operator(client=client))
    client.close()

    assert findings["shard-names"].what == "no shard takes other"
    assert findings["shard-moves"].what.endswith("mail from mail to gone")
    assert findings["shard-settings"].status == "ok"


def test_a_queue_that_was_moved_to_a_shard_of_the_settings_is_well(operator, shards, pools):
    reroute("default", operator.keys, pools, "fast")

    findings = found(operator)

    assert findings["shard-moves"].status == "ok"
    assert findings["shard-unfinished"].status == "ok"


def test_jobs_that_an_interrupted_move_holds_are_a_problem_with_the_command_to_run(
    operator, shards, pools, monkeypatch
):
    monkeypatch.setattr(shard_moves, "AGAIN_S", 0)
    for place in range(3):
        push(shards.raw["rest"], "default", jid=f"j{place}")
    reroute("default", operator.keys, pools, "fast")
    mover = Mover("default", operator.keys, pools.pool("rest"), pools.pool("fast"), to="fast")
    with monkeypatch.context() as dying:
        dying.setattr(mover, "_put", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            mover.move_queue()

    finding = found(operator)["shard-unfinished"]

    assert (finding.status, finding.what) == (
        "problem",
        "an interrupted move holds 3 jobs of default on the way from rest to fast",
    )
    assert finding.action.endswith("kiqbridge queue move default --to fast")
    mover.finish()
    assert found(operator)["shard-unfinished"].status == "ok"


def test_a_batch_of_a_set_is_counted_in_jobs_and_a_lost_target_is_named(
    operator, shards, monkeypatch
):
    monkeypatch.setattr(shard_moves, "AGAIN_S", 0)
    raw = shards.raw["rest"]
    raw.hset("kb:moving", "default", 7)
    raw.rpush("kb:moving:default", "7 aa schedule gone", "1", "job one", "2", "job two")

    finding = found(operator)["shard-unfinished"]

    assert "2 jobs of default on the way from rest to gone" in finding.what
    assert finding.action.startswith("add gone to KIQBRIDGE_SHARDS again; then run it again")
    assert finding.action.endswith("--to gone")


def test_a_batch_that_a_move_at_work_has_brought_meanwhile_is_no_finding(
    operator, shards, monkeypatch
):
    raw = shards.raw["rest"]
    raw.hset("kb:moving", "default", 7)
    raw.rpush("kb:moving:default", "7 aa queue fast", "job")

    def next_batch(seconds):
        raw.delete("kb:moving:default")
        raw.rpush("kb:moving:default", "8 bb queue fast", "another job")

    monkeypatch.setattr(shard_moves.time, "sleep", next_batch)

    assert found(operator)["shard-unfinished"].status == "ok"


def test_jobs_that_wait_where_their_queue_lay_before_are_a_warning_unless_they_stay(
    operator, shards, pools
):
    reroute("default", operator.keys, pools, "fast")
    push(shards.raw["rest"], "default", flow={"bid": "b"})
    push(shards.raw["rest"], "default", tick={"schedule": "s", "at": 1})
    assert found(operator)["shard-unfinished"].status == "ok"

    push(shards.raw["rest"], "default", flow={"lock": "x"})

    finding = found(operator)["shard-unfinished"]
    assert (finding.status, finding.what) == (
        "warning",
        "jobs wait where their queue lay before: 3 jobs of default on rest, which was moved to fast",
    )
    assert finding.action.endswith("kiqbridge queue move default --to fast")


def test_findings_name_their_shards_and_one_that_is_away_is_a_problem(shards):
    with embedded_server() as server:
        url = server.url
    places = {name: each["url"] for name, each in shards.setting.items()} | {"mail": url}
    client = sharded(places).client()

    findings = examine(open_operator(client=client), selection=Selection(areas=["redis"]))
    families = {each.metric.name: each for each in fetch_families(open_operator(client=client))}
    client.close()

    reachable = [each for each in findings if each.rule == "reachable"]
    assert {each.status for each in reachable} == {"ok", "problem"}
    assert any(each.what == "shards fast, rest: the server answers" for each in reachable)
    assert any(each.what.startswith("shard mail is away: ") for each in reachable)
    assert all(each.rule in CATALOGUE for each in findings)
    up = {each.labels["shard"]: each.value for each in families["kiqbridge_redis_up"].samples}
    assert up == {"mail": 0, "fast": 1, "rest": 1}
