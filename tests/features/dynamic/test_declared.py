"""Schedules that are declared beside jobs: who writes them while two versions of the code run."""

import json
from dataclasses import replace

import pytest
from support.placing import place_due

from kiqbridge import Schedule, job
from kiqbridge.client.registry import Registry, definition_of
from kiqbridge.errors import ConfigError
from kiqbridge.features.dynamic.declared import READERS, DeclaredSchedules, declared_schedules
from kiqbridge.features.dynamic.published import FORGET_S, LIVE_S, REFUSED_S, refused
from kiqbridge.schedule.definition import ScheduleDefinition


@pytest.fixture
def process(client):
    """`process(identity, name=expression, …)`: what a process declares, the first app of its `apps`."""

    def process(identity, apps=("shop",), **declared):
        definitions = [
            ScheduleDefinition(
                name=name,
                expression=expression,
                jobs=({"class": "Nop", "args": []},),
                origin="code",
                missed="last",
            )
            for name, expression in declared.items()
        ]
        return DeclaredSchedules(
            client, [(apps[0], each) for each in definitions], apps=apps, identity=identity
        )

    return process


@pytest.fixture
def worker(process, client):
    """`worker(identity, name=expression, …)()`: it keeps what it declares."""

    def worker(identity, *apps, **declared):
        made = process(identity, apps or ("shop",), **declared)
        return lambda: made.keep(client.pool)

    return worker


@pytest.fixture
def start(process, client):
    """`start(identity, app, …, name=expression)`: a worker starts, and keeps what it declares."""

    def start(identity, *apps, **declared):
        made = process(identity, apps, **declared)
        made.claim(client.pool)
        made.keep(client.pool)

    return start


def expressions(schedules) -> dict[str, str]:
    return {each.name: each.definition.expression for each in schedules}


def make_old(redis, identity, age_s) -> None:
    """As if a worker had refreshed so many seconds ago for the last time."""
    value = json.loads(redis.hget("kb:declared", f"worker {identity}"))
    value["at"] -= age_s
    redis.hset("kb:declared", f"worker {identity}", json.dumps(value))


HOURLY, DAILY = "rate(1 hour)", "rate(1 day)"


@job(name="DeclaredHere", every=5)
def declared_here() -> None:
    """Declares its schedule."""


def test_a_declaration_is_registered_once(redis, schedules, worker):
    first, second = worker("a", s=HOURLY), worker("b", s=HOURLY)

    first()
    second()
    first()

    assert expressions(schedules) == {"s": HOURLY}
    assert schedules.get("s").definition.origin == "code"
    assert redis.get("kb:schedules:changes") == b"1"


def test_without_declarations_nothing_is_written(redis, worker):
    worker("a")()

    assert redis.keys("*") == []


def test_a_dead_worker_keeps_no_schedule_for_longer_when_the_clock_of_the_server_is_set_back(
    redis, schedules, worker
):
    worker("dead", s=HOURLY)()
    make_old(redis, "dead", -600)  # seconds to come
    keep = worker("lives", t=HOURLY)

    keep()
    make_old(redis, "dead", LIVE_S)
    keep()

    assert expressions(schedules) == {"t": HOURLY}


def test_a_new_version_replaces_the_old_one_which_does_not_fight_back(schedules, worker, caplog):
    old, new = worker("old", s=HOURLY), worker("new", s=DAILY)
    old()

    new()
    old()
    worker("old restarted", s=HOURLY)()
    new()

    assert expressions(schedules) == {"s": DAILY}
    assert "a worker with a newer version of the code, or of another application" in caplog.text


def test_after_a_rollback_the_old_version_holds_when_no_new_one_lives(redis, schedules, worker):
    old, new = worker("old", s=HOURLY), worker("new", s=DAILY)
    old()
    new()
    old()
    assert expressions(schedules) == {"s": DAILY}

    make_old(redis, "new", LIVE_S + 1)
    old()

    assert expressions(schedules) == {"s": HOURLY}
    worker("new again", s=DAILY)()
    assert expressions(schedules) == {"s": HOURLY}


def test_what_no_live_worker_declares_is_removed_and_counts_on_when_it_is_declared_again(
    redis, client, schedules, worker
):
    worker("old", s=HOURLY, kept=HOURLY)()
    place_due(client, by="t", horizon_s=7200)
    schedules.pause("s", reason="test")
    schedules.pause("s", reason="test", for_s=0.001)
    cursor = redis.hget("kb:cursors", "s")
    new = worker("new", kept=HOURLY)

    new()
    assert set(expressions(schedules)) == {"s", "kept"}
    make_old(redis, "old", LIVE_S + 1)
    new()

    assert set(expressions(schedules)) == {"kept"}
    assert redis.hget("kb:cursors", "s") == cursor
    assert redis.hexists("kb:schedules:state", "s")
    worker("again", s=HOURLY, kept=HOURLY)()
    assert set(expressions(schedules)) == {"s", "kept"}
    assert redis.hget("kb:cursors", "s") == cursor


def test_what_was_placed_is_withdrawn_when_it_is_removed(redis, client, schedules, worker):
    worker("old", s=HOURLY)()
    place_due(client, by="t", horizon_s=7200)
    assert redis.zcard("schedule") >= 2
    make_old(redis, "old", LIVE_S + 1)

    worker("new", other=DAILY)()

    assert redis.zcard("schedule") == 0


@pytest.mark.parametrize("setting", ["", "shop"])
def test_a_new_release_removes_what_its_code_declares_no_more(redis, client, schedules, setting):
    def release(identity, definition):
        registry = Registry()
        registry.register(definition)
        declared_schedules(client, registry, app=setting, identity=identity).keep(client.pool)

    definition = definition_of(declared_here)
    release("old", definition)
    assert set(expressions(schedules)) == {"DeclaredHere"}
    make_old(redis, "old", LIVE_S + 1)
    release("new", replace(definition, schedule=None))

    assert expressions(schedules) == {}


def test_a_worker_of_another_app_removes_nothing(redis, schedules, worker):
    worker("old", s=HOURLY)()
    make_old(redis, "old", LIVE_S + 1)

    worker("other", "mail", mail=DAILY)()

    assert set(expressions(schedules)) == {"s", "mail"}


def test_one_that_was_deleted_by_hand_comes_back(schedules, worker):
    keep = worker("a", s=HOURLY)
    keep()

    schedules.delete("s")
    keep()

    assert expressions(schedules) == {"s": HOURLY}


def test_a_name_that_is_taken_by_another_origin_is_left_and_logged_once(schedules, worker, caplog):
    schedules.save(Schedule("s", "Nop", every=60))
    keep = worker("a", s=HOURLY)

    keep()
    keep()

    assert schedules.get("s").definition.origin == "dynamic"
    assert caplog.text.count("a declared schedule is not registered, s") == 1


def test_workers_that_are_gone_for_long_are_forgotten(redis, worker):
    worker("old", s=HOURLY)()
    make_old(redis, "old", FORGET_S + 1)

    worker("new", s=HOURLY)()

    assert sorted(redis.hkeys("kb:declared")) == [b"schedule s", b"worker new"]


def test_what_cannot_be_read_harms_nobody(redis, schedules, worker):
    redis.hset("kb:declared", mapping={"worker x": "junk", "schedule s": "[]", "other": "{}"})

    worker("a", s=HOURLY)()

    assert expressions(schedules) == {"s": HOURLY}


class TestTwoApplications:
    """One Redis, and a schedule of one name in both."""

    def test_the_second_one_does_not_start_while_the_first_one_lives(
        self, redis, client, schedules, start
    ):
        start("a", "shop", s=HOURLY)

        for _ in range(2):
            with pytest.raises(ConfigError) as refusal:
                start("b", "mail", s=DAILY, other=HOURLY)

        assert expressions(schedules) == {"s": HOURLY}
        said = str(refusal.value)
        assert said.startswith("schedule s of application mail is declared by application shop")
        assert "(worker a)" in said and "KIQBRIDGE_APP" in said and "\n" not in said
        assert set(redis.hkeys("kb:declared")) == {b"worker a", b"schedule s", b"refused s"}
        [found] = refused(client.pool, client.keys)
        assert (found.name, found.app, found.by, found.owner) == ("s", "mail", "b", "shop")
        assert 0 <= found.age_s < 60

    def test_a_refusal_is_forgotten(self, redis, client, start):
        start("a", "shop", s=HOURLY)
        about = {"at": 0, "app": "mail", "by": "b", "owner": "shop"}
        about["at"] = float(redis.time()[0]) - REFUSED_S - 1
        redis.hset("kb:declared", "refused s", json.dumps(about))

        assert refused(client.pool, client.keys) == []
        start("a", "shop", s=HOURLY)

        assert not redis.hexists("kb:declared", "refused s")

    def test_when_the_first_one_declares_it_no_more_the_second_one_starts(
        self, redis, schedules, start
    ):
        start("old", "shop", s=HOURLY)
        make_old(redis, "old", LIVE_S + 1)

        start("b", "mail", s=DAILY)

        assert expressions(schedules) == {"s": DAILY}
        with pytest.raises(ConfigError, match="application shop is declared by application mail"):
            start("again", "shop", s=HOURLY)

    def test_of_two_that_have_started_at_once_the_later_one_leaves_it_and_both_are_named(
        self, client, schedules, process, caplog
    ):
        first, second = process("a", ["shop"], s=HOURLY), process("b", ["mail"], s=DAILY)
        for each in (first, second, first, second):  # as if neither had seen the other
            each.keep(client.pool)

        assert expressions(schedules) == {"s": HOURLY}
        assert caplog.text.count("application shop declares it as well as mail") == 1
        [found] = refused(client.pool, client.keys)
        assert (found.app, found.owner) == ("mail", "shop")

    @pytest.mark.parametrize(
        "apps",
        [
            pytest.param(("shop",), id="the next release"),
            pytest.param(("orders", "mail"), id="a module was renamed, and others stay"),
        ],
    )
    def test_another_version_of_one_application_starts(self, schedules, start, apps):
        start("old", "shop", "mail", s=HOURLY)

        start("new", *apps, s=DAILY)
        start("old restarted", "shop", "mail", s=HOURLY)

        assert expressions(schedules) == {"s": DAILY}

    def test_an_application_under_a_new_name_starts_if_it_declares_the_same(
        self, redis, schedules, start
    ):
        start("old", "shop", s=HOURLY)
        start("new", "store", s=HOURLY)
        make_old(redis, "old", LIVE_S + 1)
        start("new", "store", s=HOURLY)

        start("newer", "store", s=DAILY)

        assert expressions(schedules) == {"s": DAILY}


class TestManyWorkers:
    """In a large fleet not each worker reads what all others declare."""

    @pytest.fixture
    def many(self, worker):
        for number in range(READERS * 4):
            worker(f"w{number}", s=HOURLY)()

    @staticmethod
    def reads(redis):
        return redis.info("commandstats").get("cmdstat_hgetall", {"calls": 0})["calls"]

    def test_most_of_the_time_a_worker_publishes_what_it_declares_and_reads_nothing(
        self, redis, worker, many
    ):
        keep = worker("z", s=HOURLY)
        keep()
        redis.config_resetstat()
        make_old(redis, "z", 60)
        published = redis.hget("kb:declared", "worker z")

        keep()

        assert self.reads(redis) == 0
        assert redis.hget("kb:declared", "worker z") != published

    def test_it_reads_all_when_somebody_has_changed_what_it_declares(
        self, redis, schedules, worker, many
    ):
        keep = worker("z", s=HOURLY)
        keep()
        redis.hdel("kb:schedules", "s")
        redis.config_resetstat()

        keep()

        assert self.reads(redis) >= 1
        assert expressions(schedules) == {"s": HOURLY}

    def test_it_reads_all_again_after_a_while(self, redis, worker, many):
        keep = worker("z", s=HOURLY)
        keep()
        redis.config_resetstat()

        for _ in range(8):
            keep()

        assert 1 <= self.reads(redis) <= 4

    def test_of_a_few_workers_each_reads_every_time(self, redis, worker):
        for identity in "ab":
            worker(identity, s=HOURLY)()
        keep = worker("c", s=HOURLY)
        redis.config_resetstat()

        for _ in range(3):
            keep()

        assert self.reads(redis) == 3
