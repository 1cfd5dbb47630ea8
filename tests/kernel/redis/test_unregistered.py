"""In-flight lists that no registration names: found, reported, and given back on demand."""

import json

import pytest
from support.engine import EngineProcess, register

from kiqbridge.commands import cli
from kiqbridge.engine.inflight import incarnations as module
from kiqbridge.engine.inflight.incarnations import UnregisteredWatch, find_unregistered
from kiqbridge.engine.inflight.recovery import Reaper
from kiqbridge.errors import RedisRefused
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

KEYS = Keys()


@pytest.fixture
def forgotten(redis, redis_url):
    """A process whose registration somebody deleted, and that claims nothing any more."""
    process = register(EngineProcess(redis_url))
    redis.lpush("queue:mail", b'{"jid":"m1"}', b'{"jid":"m2"}')
    process.claimer("t1").claim(["mail"], 2)
    redis.delete("kb:inflight", "kb:alive")
    return process


@pytest.fixture
def run(redis_url, monkeypatch, capsys):
    """Runs `kiqbridge recover`: (exit code, output)."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("KIQBRIDGE_RECOVER_AFTER_S", "3")

    def run(*args):
        code = cli.main(["recover", *args])
        return code, capsys.readouterr().out

    return run


def list_of(process, tid="t1"):
    return KEYS.inflight_list(process.incarnation, tid, 1)


def test_they_are_found_among_many_keys_in_small_steps(redis, forgotten, monkeypatch):
    monkeypatch.setattr(module, "STEP", 10)
    redis.mset({f"other:{number}": number for number in range(500)})
    connection = forgotten.connect()
    search = module.Search(KEYS)
    steps = 1
    while not search.step(connection):
        steps += 1

    [found] = search.found(connection)

    assert steps > 10
    assert (found.incarnation, found.tids) == (forgotten.incarnation, ("t1",))
    assert found.lists == {list_of(forgotten): 2}


@pytest.mark.parametrize("where", ["kb:inflight", "kb:reaping"])
def test_those_of_the_living_and_of_those_being_reaped_are_none(redis, forgotten, where):
    redis.sadd(where, forgotten.incarnation)

    assert find_unregistered(forgotten.connect(), KEYS) == []


def test_a_namespace_with_signs_of_a_pattern_finds_its_own_lists_only(redis, redis_url, forgotten):
    process = register(EngineProcess(redis_url, namespace="a[p]*"))
    redis.lpush("a[p]*:queue:mail", b"job")
    process.claimer("t1").claim(["mail"], 1)
    redis.delete("a[p]*:kb:inflight")

    [found] = find_unregistered(process.connect(), process.keys)

    assert list(found.lists) == [process.keys.inflight_list(process.incarnation, "t1", 1)]


def test_the_leader_warns_of_them_once_until_they_are_gone(redis, forgotten, caplog):
    now, watch, connection = [1000.0], UnregisteredWatch(KEYS), forgotten.connect()

    def lead_for(seconds):
        for _ in range(int(seconds / 3)):
            watch.step(connection, now[0])
            now[0] += 3

    lead_for(59)
    assert caplog.messages == []
    lead_for(1300)
    told = (
        f"2 jobs are in flight for {forgotten.incarnation}, which is not registered: no worker performs them "
        f"or gives them back ({list_of(forgotten)}); somebody has deleted kb:inflight, or Redis has "
        "evicted it; run `kiqbridge recover`"
    )
    assert caplog.messages == [told]
    kept = redis.dump(list_of(forgotten))
    redis.delete(list_of(forgotten))
    lead_for(700)
    redis.restore(list_of(forgotten), 0, kept)
    lead_for(700)
    assert caplog.messages == [told, told]


def test_a_server_that_refuses_to_be_searched_holds_up_nothing(redis, redis_url, forgotten):
    redis.acl_setuser("narrow", enabled=True, nopass=True, commands=["+@all", "-scan"], keys=["*"])
    try:
        narrow = RedisPool(redis_url.replace("://", "://narrow:any@")).connection()
        watch = UnregisteredWatch(KEYS)

        watch.step(narrow, 0.0)
        for now in (60.0, 10_000.0):
            with pytest.raises(RedisRefused, match=r"allow it: ACL SETUSER narrow \+scan"):
                watch.step(narrow, now)
            watch.step(narrow, now + 1)  # the next search is not due
        narrow.close()
    finally:
        redis.acl_deluser("narrow")


def test_recover_shows_them_and_gives_them_back(redis, forgotten, run):
    code, out = run("--dry-run")
    assert code == 0
    assert f"{forgotten.incarnation}  not registered, holds 2 jobs ({list_of(forgotten)} 2)" in out
    assert f"would give back 2 jobs of {forgotten.incarnation}" in out
    assert redis.llen(list_of(forgotten)) == 2

    code, out = run("--json")

    assert code == 0
    answer = json.loads(out)
    assert answer["incarnations"][0]["state"] == "not registered"
    assert answer["rescued"] == [{"incarnation": forgotten.incarnation, "returned": 2}]
    assert redis.lrange("queue:mail", 0, -1) == [b'{"jid":"m2"}', b'{"jid":"m1"}']
    assert not redis.keys("kb:inflight*") + redis.keys("kb:reaping") + redis.keys("kb:claims:*")
    assert run("--dry-run")[1] == "no worker is registered\n"


def test_where_the_claim_is_forgotten_too_the_texts_say_where_they_belong(redis, forgotten, run):
    redis.delete(KEYS.claims(forgotten.incarnation))
    other = KEYS.inflight_list(forgotten.incarnation, "t2", 0)
    redis.rpush(other, b'{"queue":"low","jid":"l1"}')
    third = KEYS.inflight_list(forgotten.incarnation, "t3", 1)
    redis.rpush(third, b'{"class":"A"}')

    code, _ = run("--all-dead")

    assert code == 0
    assert redis.lrange("queue:low", 0, -1) == [b'{"queue":"low","jid":"l1"}']
    assert redis.llen("queue:default") == 1 + 2  # without a name it is the default
    assert not redis.keys("kb:inflight*")


def test_one_that_registered_after_all_is_left_alone(redis, forgotten):
    redis.sadd("kb:inflight", forgotten.incarnation)

    outcome = Reaper(forgotten.connect(), KEYS).adopt(forgotten.incarnation, ["t1"])

    assert outcome.code < 0
    assert redis.llen(list_of(forgotten)) == 2


def test_those_of_an_unknown_layout_are_shown_and_left(redis, run):
    redis.rpush("kb:inflight:v9:host:7:abc:1:t1:0", b"theirs")

    code, out = run("--all-dead")

    assert code == 1
    assert out.startswith("v9:host:7:abc:1  unknown layout: only a version that knows its layout")
    assert redis.llen("kb:inflight:v9:host:7:abc:1:t1:0") == 1


def test_recover_goes_on_where_the_server_refuses_to_be_searched(
    redis, redis_url, run, monkeypatch, caplog
):
    dead = register(EngineProcess(redis_url))
    redis.lpush("queue:mail", b"job")
    dead.claimer("t1").claim(["mail"], 1)
    redis.acl_setuser("narrow", enabled=True, nopass=True, commands=["+@all", "-scan"], keys=["*"])
    monkeypatch.setenv("REDIS_URL", redis_url.replace("://", "://narrow:any@"))
    redis.hset("kb:alive", dead.incarnation, "1 1732250000.5 100")
    try:
        code, _ = run("--all-dead")
    finally:
        redis.acl_deluser("narrow")

    assert code == 0
    assert redis.llen("queue:mail") == 1
    assert "lists in flight that no registration names are not looked for" in caplog.text
