"""Schedules, results and locks on several servers: where they lie, and that they are found."""

import json

import pytest

from kiqbridge import job
from kiqbridge.aws.publishing import Publisher
from kiqbridge.client.default_client import own_default_client, pushing_through
from kiqbridge.client.registry import Registry, definition_of
from kiqbridge.client.results import fetch_result
from kiqbridge.client.schedule_place import manifest_parts, shard_of_schedule
from kiqbridge.client.schedules import Schedules
from kiqbridge.clocks.placing import place_due
from kiqbridge.engine.dynamic_schedules import dynamic_steps
from kiqbridge.errors import ConfigError
from kiqbridge.flow import Unique, find_owner
from kiqbridge.schedule.definition import ScheduleDefinition


@pytest.fixture
def client(shards):
    client = shards.client()
    yield client
    client.close()


def definition(name, queue="", **more):
    job = {"class": "Work", "args": [], **({"queue": queue} if queue else {})}
    return ScheduleDefinition(name=name, expression="* * * * *", jobs=(job,), **more)


def where(shards, key="kb:schedules"):
    return {name: {each.decode() for each in raw.hkeys(key)} for name, raw in shards.raw.items()}


def test_a_schedule_lies_on_the_shard_of_its_first_jobs_queue(client, shards):
    schedules = Schedules(client)
    for name, queue in (("a", "critical"), ("b", ""), ("c", "mail")):
        assert schedules.save(definition(name, queue)) == "created"

    assert where(shards) == {"mail": {"c"}, "fast": {"a"}, "rest": {"b"}}
    assert [each.name for each in schedules] == ["a", "b", "c"]
    assert schedules.get("a").definition == definition("a", "critical")
    assert schedules.require("c").name == "c"
    assert schedules.save(definition("a", "critical")) == "unchanged"
    assert schedules.delete("a")
    assert schedules.get("a") is None


def test_one_whose_queue_changes_goes_to_the_other_shard_and_stays_paused(client, shards):
    schedules = Schedules(client)
    schedules.save(definition("a", "critical"))
    schedules.pause("a", reason="migration")

    assert schedules.save(definition("a", "mail")) == "changed"

    assert where(shards) == {"mail": {"a"}, "fast": set(), "rest": set()}
    assert schedules.get("a").state.paused.reason == "migration"
    with pytest.raises(ConfigError, match="saved by a call"):
        schedules.save(definition("a", "critical", origin="code"))


def test_a_pause_and_a_skip_hold_wherever_ticks_of_it_may_have_jobs(client, shards):
    schedules = Schedules(client)
    schedules.save(definition("a", "critical"))

    skipped = schedules.skip_next("a", 2)
    schedules.pause("a")

    for one in client.each():
        outcome = one.push_tick("a", skipped[0] // 60 * 60, [{"class": "W", "args": []}], by="test")
        assert outcome.kind in {"paused", "skipped"}
    assert where(shards, "kb:schedules:state") == {name: {"a"} for name in shards.raw}
    assert schedules.resume("a")
    assert not schedules.resume("a")


def test_its_occurrences_are_placed_on_its_shard_once(client, shards):
    schedules = Schedules(client)
    schedules.save(definition("a", "critical"))
    schedules.run("a")

    placed = [place_due(one, by="test").placed for one in client.each()]

    assert [bool(count) for count in placed] == [False, True, False]
    assert shards.raw["fast"].zcard("schedule") > 1
    assert not shards.raw["mail"].exists("schedule")


def test_a_schedule_beside_a_job_is_kept_by_the_workers_of_one_shard(client, shards):
    @job(cron="0 3 * * *", queue="critical")
    def nightly_of_shards() -> None: ...

    registry = Registry()
    registry.register(definition_of(nightly_of_shards))
    for name in client.shards:
        keep, _ = dynamic_steps(
            client.on(name),
            registry,
            app="shop",
            identity=f"host:1:{name}",
            horizon_s=300,
            is_here=lambda each, name=name: shard_of_schedule(client, each.schedule) == name,
            notify=lambda _missed: None,
        )
        keep.call(client.on(name).pool)

    assert {name for name, found in where(shards).items() if found} == {"fast"}


def test_a_result_is_found_on_the_shard_where_the_job_was_performed(client, shards):
    shards.raw["rest"].set("kb:result:abc", b'{"outcome":"done","at":1.5,"value":7}')

    assert fetch_result("abc", client=client).value == 7
    assert fetch_result("other", client=client) is None


def test_the_owner_of_a_unique_job_is_found_on_the_shard_of_its_queue(client, shards):
    with own_default_client(), pushing_through(client):

        @job(queue="critical", unique=Unique(ttl_s=60))
        def charge_once(number: int) -> None: ...

        jid = charge_once.perform_async(1)

        assert find_owner(charge_once, 1, client=client) == jid
        assert find_owner(charge_once, 2, client=client) is None


def test_each_shard_has_the_schedules_of_a_template_whose_ticks_it_watches(
    client, shards, tmp_path
):
    jobs = {"A": "critical", "B": "mail", "C": "default"}
    manifest = {
        "version": 7,
        "hash": "abc",
        "schedules": {
            name: {
                "expression": "rate(1 hour)",
                "jobs": [{"class": "W", "args": [], "queue": queue}],
            }
            for name, queue in jobs.items()
        },
    }
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(manifest))
    publisher = Publisher(
        client.pool, client.keys, "shop", parts=lambda each: manifest_parts(client, each), path=path
    )

    done = publisher.command({"kiqbridge": "publish"}, "test")

    assert (done["outcome"], done["schedules"]) == ("published", 3)
    assert where(shards) == {"mail": {"shop/B"}, "fast": {"shop/A"}, "rest": {"shop/C"}}
    assert publisher.once("test") is None, "all of it stands"
    shards.raw["rest"].delete("kb:manifests")
    again = publisher.command({"kiqbridge": "publish"}, "test")
    assert (again["outcome"], again["schedules"]) == ("published", 3)
