"""One process of a fleet listens for pushes, the others are parked: who gets the role, and what a lost one costs."""

import logging
import threading
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from redis.exceptions import ResponseError
from support.servers import without_command
from support.waiting import wait_until
from support.wake_fleet import Member

from kiqbridge.engine.perform.listening import Listening
from kiqbridge.engine.perform.turns import SIGN_MS, State, set_of
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.wake_connection import WakeConnection
from kiqbridge.wire.keys import Keys

KEYS = Keys()
LIST, SIGN, STANDBY = KEYS.wake("default,low")
PATIENCE_S = 30


@pytest.fixture
def fleet(redis_url):
    """Starts members of a fleet; all are stopped in the end."""
    with ExitStack() as stack:

        def start(count=1, *, queues=("default", "low"), url=redis_url, threads=1):
            members = [Member(RedisPool(url), queues=queues, threads=threads) for _ in range(count)]
            for member in members:
                member.start()
                stack.callback(member.join)
                stack.callback(member.stop)
            return members

        yield start


def performed(members):
    return [text for member in members for text in member.performed]


def states(members):
    return sorted(member.listening.state.value for member in members)


def wait_for_roles(members):
    """Wait until one listens and all others are parked."""
    wanted = ["listening", *["parked"] * (len(members) - 1)]
    wait_until(
        lambda: states(members) == wanted, PATIENCE_S, lambda: f"one listener: {states(members)}"
    )


def push_and_wait(redis, members, text):
    redis.lpush("queue:default", text)
    wait_until(lambda: text in performed(members), PATIENCE_S, f"{text!r} being performed")


def calls(redis, command):
    return redis.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]


def test_the_name_of_a_set_of_queues_does_not_depend_on_their_order():
    assert set_of(["low", "default"]) == set_of(["default", "low", "low"]) == "default,low"


def test_a_long_set_of_queues_has_a_short_name():
    names = [f"queue-{number}" for number in range(100)]

    assert set_of(names) == set_of(reversed(names))
    assert len(set_of(names)) == 40
    assert set_of(names) != set_of(names[1:])


def test_one_process_listens_and_all_others_are_parked(redis, fleet):
    members = fleet(4)

    wait_for_roles(members)
    assert redis.get(SIGN)


def test_a_push_is_work_for_one_process_and_the_next_one_for_another(redis, fleet):
    members = fleet(3)
    for number in range(9):
        wait_for_roles(members)
        push_and_wait(redis, members, b"job %d" % number)

    assert sorted(len(member.performed) for member in members) == [3, 3, 3]


def test_a_push_costs_the_server_few_commands(redis, fleet):
    members = fleet(3)
    costs = []
    for number in range(9):
        wait_for_roles(members)
        redis.config_resetstat()
        push_and_wait(redis, members, b"job %d" % number)
        wait_for_roles(members)
        stats = redis.info("commandstats").items()
        costs.append({name.removeprefix("cmdstat_"): each["calls"] for name, each in stats})

    least = min(costs, key=lambda cost: sum(cost.values()))  # no sign was renewed meanwhile
    least = {name: least[name] for name in least if not name.startswith(("config", "info"))}
    claimed = {"evalsha": 1, "sismember": 1, "hget": 1, "exists": 1, "lmove": 1, "hset": 1}
    acknowledged = {"evalsha": 1, "sismember": 1, "hget": 1, "del": 1, "exists": 1}
    handed_on = {"rpush": 1, "blpop": 1, "client|caching": 1, "exists": 1}
    assert least == Counter({"lpush": 1}) + Counter(claimed) + Counter(acknowledged) + Counter(handed_on)  # fmt: skip


def test_pushes_of_several_jobs_are_taken_at_once_after_the_first(redis, redis_url):
    sizes, member = [], Member(RedisPool(redis_url), queues=("default",), most=10)
    member.on_chunk = lambda chunk: sizes.append(chunk.size)
    member.start()
    try:
        for jobs, taken in ((3, [1, 2]), (3, [3]), (1, [1]), (3, [1, 2])):
            wait_until(lambda: member.listening._is_armed, PATIENCE_S, "it has looked")
            sizes.clear()
            redis.lpush("queue:default", *(b"%d" % number for number in range(jobs)))
            wait_until(lambda jobs=jobs: sum(sizes) == jobs, PATIENCE_S, "all jobs")
            assert sizes == taken
    finally:
        member.stop()
        member.join()


def test_the_sign_is_renewed_while_the_role_is_handed_on_quickly(redis, fleet):
    members = fleet(3)
    wait_for_roles(members)
    generation = redis.get(SIGN).partition(b":")[0]
    until = time.monotonic() + 1.5 * SIGN_MS / 1000

    while time.monotonic() < until:
        push_and_wait(redis, members, b"job %d" % time.monotonic_ns())

    assert redis.get(SIGN).partition(b":")[0] == generation  # nobody took the role over


def test_the_standby_takes_the_place_of_a_listener_that_is_gone(redis, fleet, redis_url):
    gone = Listening(["default", "low"], KEYS, RedisPool(redis_url).raw_connection)
    gone._check()  # it listens, and is never heard of again
    assert gone.state is State.LISTENING
    members = fleet(2)

    wait_for_roles(members)
    push_and_wait(redis, members, b"job")
    assert redis.get(SIGN) != gone._generation.encode()
    gone.close()


def test_who_listens_for_long_leaves_it_to_another_to_stand_by(redis, fleet):
    members = fleet(5)
    wait_for_roles(members)

    renewals = []  # whether it was the standby before, and afterwards; None: it does not know all others yet

    def noting(listening, renew):
        def renewed():
            was_standby = listening._is_standby
            knows_all = listening._processes == len(members)
            renew()
            renewals.append((was_standby, listening._is_standby) if knows_all else None)

        return renewed

    for each in members:
        each.listening._count_at = 0.0  # as half a minute later, when each has counted all others
        each.listening._renew = noting(each.listening, each.listening._renew)

    def the_next_has_renewed():
        redis.lpush("queue:default", b"job")
        wait_until(lambda: not redis.llen("queue:default"), PATIENCE_S, "the job being taken")
        so_far = len(renewals)
        wait_until(lambda: len(renewals) > so_far, PATIENCE_S, "a sign being renewed")
        return any(each[0] for each in renewals if each)

    wait_until(the_next_has_renewed, PATIENCE_S, "the role coming to the standby")

    assert not any(each[1] for each in renewals if each)
    wait_until(lambda: redis.exists(STANDBY), PATIENCE_S, "another that stands by")


def test_who_renews_its_sign_counts_how_many_there_are(fleet):
    members = fleet(4)
    wait_for_roles(members)
    [listener] = [each for each in members if each.listening.state is State.LISTENING]

    listener.listening._processes = 2  # as counted while the others started
    listener.listening._count_at = 0.0  # and half a minute has passed since then

    wait_until(lambda: listener.listening._processes == 4, PATIENCE_S, "the four being counted")


def test_the_role_comes_back_to_nobody_that_was_replaced(redis, fleet, redis_url):
    members = fleet(2)
    wait_for_roles(members)
    second = Member(RedisPool(redis_url), queues=("default", "low"))
    second.listening._begin("another generation")  # as after an eviction of the sign
    second.start()
    wait_until(lambda: second.gate.idle, PATIENCE_S, "two that listen")
    everybody = [*members, second]

    push_and_wait(redis, everybody, b"job")

    try:
        wait_for_roles(everybody)
        assert performed(everybody) == [b"job"]
    finally:
        second.stop()
        second.join()


def test_a_listener_that_stops_leaves_the_role_to_another(redis, fleet):
    members = fleet(2)
    wait_for_roles(members)
    wait_until(lambda: redis.exists(STANDBY), PATIENCE_S, "a standby")
    [leaving] = [each for each in members if each.listening.state is State.LISTENING]
    [staying] = [each for each in members if each is not leaving]
    generation = leaving.listening._generation.partition(":")[0]

    leaving.stop()
    leaving.join()

    wait_until(lambda: staying.listening.state is State.LISTENING, PATIENCE_S, "a successor")
    assert staying.listening._generation.partition(":")[0] == generation


def test_a_process_that_is_alone_sends_nothing_while_nothing_happens(redis, fleet):
    [member] = fleet()
    wait_until(lambda: member.listening.is_alone, PATIENCE_S, "it knows that it is alone")
    wait_until(lambda: member.listening._is_armed, PATIENCE_S, "it has looked")
    before = {name: calls(redis, name) for name in ("evalsha", "set", "blpop")}

    assert not threading.Event().wait(
        1
    )  # a listener that has company would renew its sign four times

    assert {name: calls(redis, name) for name in before} == before
    push_and_wait(redis, [member], b"job")


def test_who_is_alone_hears_of_another_that_comes(redis, fleet):
    [first] = fleet()
    wait_until(lambda: first.listening.is_alone, PATIENCE_S, "the first being alone")

    [second] = fleet()

    wait_for_roles([first, second])
    wait_until(lambda: redis.exists(STANDBY), PATIENCE_S, "a standby")
    assert not first.listening.is_alone


def test_processes_with_other_queues_have_a_listener_of_their_own(redis, fleet):
    members = [*fleet(1), *fleet(1, queues=("default", "mail"))]
    wait_until(lambda: states(members) == ["listening"] * 2, PATIENCE_S, "two listeners")

    for number in range(5):
        push_and_wait(redis, members, b"job %d" % number)
    redis.lpush("queue:mail", b"mail")
    wait_until(lambda: b"mail" in members[1].performed, PATIENCE_S, "the mail")

    assert len(performed(members)) == 6


@pytest.mark.parametrize(
    "lose",
    [
        lambda redis: redis.client_kill_filter(_type="normal", skipme=True),
        lambda redis: redis.delete(LIST, SIGN, STANDBY),
        lambda redis: [(redis.delete(key), redis.rpush(key, "foreign")) for key in (SIGN, STANDBY)],
    ],
    ids=["the connections", "who listens", "who listens, to a value of another type"],
)
def test_a_server_that_lost_something_has_a_listener_again(redis, fleet, lose):
    members = fleet(3)
    wait_for_roles(members)
    lose(redis)

    push_and_wait(redis, members, b"job")
    wait_for_roles(members)


def test_where_blpop_is_refused_every_process_listens_and_a_warning_says_why(
    redis, server, fleet, caplog
):
    caplog.set_level(logging.WARNING, "kiqbridge.engine.perform")
    with without_command(redis, server, "blpop") as url:
        members = fleet(2, url=url)
        wait_until(lambda: states(members) == ["listening"] * 2, PATIENCE_S, "both listen")
        push_and_wait(redis, members, b"job")

        assert "a push wakes a thread of each process" in caplog.messages[0]
        for member in members:
            member.stop()
            member.join()


@pytest.mark.parametrize("refusal", ["ASK 4913 127.0.0.1:7001", "TRYAGAIN Multiple keys request"])
def test_a_slot_that_moves_is_no_server_that_refuses(redis, fleet, caplog, monkeypatch, refusal):
    ask, refused = WakeConnection.ask, threading.Event()

    def refuse_once(connection, *commands):
        if SIGN in commands[0] and not refused.is_set():
            refused.set()
            return [ResponseError(refusal)]
        return ask(connection, *commands)

    monkeypatch.setattr(WakeConnection, "ask", refuse_once)
    caplog.set_level(logging.WARNING, "kiqbridge.engine.perform")
    members = fleet(2)
    wait_until(refused.is_set, PATIENCE_S, "a refusal")
    wait_for_roles(members)

    push_and_wait(redis, members, b"job")
    assert not caplog.messages


def test_a_queue_that_is_paused_is_left_alone_until_it_is_resumed(redis, fleet):
    members = fleet(2)
    wait_for_roles(members)
    redis.sadd("paused", "default")
    redis.lpush("queue:default", b"job")
    redis.lpush("queue:low", b"other")
    wait_until(lambda: performed(members) == [b"other"], PATIENCE_S, "the job of the other queue")

    redis.srem("paused", "default")

    both = [b"job", b"other"]  # whoever has performed them
    wait_until(lambda: sorted(performed(members)) == both, PATIENCE_S, "the paused job")


def test_an_idle_thread_of_the_same_process_waits_on_while_another_performs(redis, fleet):
    [member] = fleet(threads=3)
    for number in range(6):
        push_and_wait(redis, [member], b"job %d" % number)

    assert member.gate.alive
    wait_until(lambda: member.gate.idle == 3, PATIENCE_S, "all idle again")
