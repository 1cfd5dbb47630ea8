"""Why a job waits that a limiter has put off."""

import json

from support.waiting import wait_until

from kiqbridge.api import history_of
from kiqbridge.errors import OverLimit
from kiqbridge.features.limiters.over_limit import put_off
from kiqbridge.flow import limiter

JID = "b4a577edbccf1d805744efa9"


def put_off_by(redis, error):
    payload = {"class": "Pay", "args": [], "jid": JID, "queue": "low", "kb_over_limit": 2}
    redis.zadd("schedule", {json.dumps({**payload, **put_off(payload, error).attributes}): 2e9})


def test_it_names_the_limiter_how_full_it_is_and_who_holds_its_locks(redis, client, operator):
    stripe = limiter.concurrent("stripe eu", 2, wait_timeout_s=0, client=client)
    owners = {"a": "1 9999999999999999 v2:web:1:aa:0", "b": "1 9999999999999999 v2:web:1:aa:0"}
    redis.hset("kb:limit:concurrent:stripe eu", mapping=owners)
    redis.expire("kb:limit:concurrent:stripe eu", 99)
    redis.sadd("kb:inflight", "v2:web:1:aa:0")
    try:
        with stripe.within_limit():
            pass
    except OverLimit as error:
        put_off_by(redis, error)
    wait_until(lambda: redis.exists("kb:limiters"))

    wait = history_of(JID, operator).wait

    assert (wait.kind, wait.about, wait.until) == ("limiter", "limiter:stripe eu", 2e9)
    assert wait.text == (
        "limiter stripe eu (concurrent): 2 of 2 taken now, by web:1:aa (2); put off for the 3. time"
    )


def test_an_error_of_the_jobs_own_names_none(redis, operator):
    put_off_by(redis, OverLimit("own"))

    wait = history_of(JID, operator).wait

    assert (wait.text, wait.about) == ("a limiter was at its limit; put off for the 3. time", "")
