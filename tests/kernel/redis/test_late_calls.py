"""Calls that the network delivers late, when the client has long repeated them.

The job of such a call may by then be in the same list again, two claims later: it is another
delivery of the job, and the late call must not touch it.
"""

import pytest
from support.engine import put_back

from kiqbridge.engine.settle.settling import acknowledge, repush, settle

JOB, OTHER = b'{"jid":"job"}', b'{"jid":"other"}'


@pytest.fixture
def claimed_again(redis, process):
    """A job given back after claim 1 and claimed again by claim 3: both chunks, one list."""
    claimer = process.claimer()
    redis.lpush("queue:default", JOB)
    first = claimer.claim(["default"], 1)
    assert put_back(claimer.connection, process.keys, first) == 1
    redis.rpush("queue:default", OTHER)
    assert list(claimer.claim(["default"], 1).waiting) == [OTHER]
    third = claimer.claim(["default"], 1)
    assert (third.list_key, list(third.waiting)) == (first.list_key, [JOB])
    return first, third


CALLS = {
    "give_back": lambda connection, keys, chunk: put_back(connection, keys, chunk, [JOB]),
    "settle": lambda connection, keys, chunk: settle(
        connection, keys, chunk, JOB, target="retry", score=1.0, text=b"failed"
    ),
    "route": lambda connection, keys, chunk: repush(
        connection, keys, chunk, JOB, queue="elsewhere", text=JOB
    ),
    "repush": lambda connection, keys, chunk: repush(
        connection, keys, chunk, JOB, queue="default", text=b"anew"
    ),
    "acknowledge": lambda connection, keys, chunk: acknowledge(connection, keys, [(chunk, JOB)]),
}


@pytest.mark.parametrize("call", CALLS)
def test_one_that_is_delivered_late_leaves_a_later_claim_alone(redis, process, claimed_again, call):
    first, third = claimed_again

    assert not CALLS[call](process.connect(), process.keys, first)

    assert redis.lrange(third.list_key, 0, -1) == [JOB]
    assert not redis.exists("queue:default", "queue:elsewhere", "retry")


@pytest.mark.parametrize("call", CALLS)
def test_the_claim_that_holds_the_job_can_do_the_same(redis, process, claimed_again, call):
    _, third = claimed_again

    CALLS[call](process.connect(), process.keys, third)

    assert not redis.exists(third.list_key)


def test_each_chunk_of_an_acknowledgement_is_looked_at_by_itself(redis, process, claimed_again):
    first, third = claimed_again
    redis.lpush("queue:default", b"of another thread")
    others = process.claimer("t2").claim(["default"], 1)

    acknowledge(process.connect(), process.keys, [(first, JOB), (others, b"of another thread")])

    assert redis.lrange(third.list_key, 0, -1) == [JOB]
    assert not redis.exists(others.list_key)
