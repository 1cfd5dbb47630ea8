"""Any job, through its whole life: push, fetch, fail, retry, promote, perform; its values stay."""

import json
import queue as queue_module

import pytest
from hypothesis import HealthCheck, given, settings
from support.jobs import own_declarations
from support.launched import launched
from support.proving import sized
from support.strategies import ARGUMENTS, FOREIGN_ATTRIBUTES
from support.waiting import wait_until

from kiqbridge.client.client import Client
from kiqbridge.client.current import CONTEXT
from kiqbridge.client.job import job

EXAMPLES = sized(full=400, sample=20)


def exact(value):
    """Tells 1 from 1.0 and from True, -0.0 from 0.0, and the order of keys."""
    return repr(value)


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_arguments_and_foreign_attributes_arrive_twice_as_they_were_pushed(
    redis, redis_url, kind, tell
):
    performed = queue_module.SimpleQueue()
    tried = 0

    def perform(*args):
        payload, _ = CONTEXT.get()
        performed.put((list(args), payload))
        if "retry_count" not in payload:
            raise ValueError("the first time")

    async def perform_async(*args):
        perform(*args)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(ARGUMENTS, FOREIGN_ATTRIBUTES)
    def each(args, foreign):
        nonlocal tried
        tried += 1
        client.push({"class": "Any", "args": args, **foreign})
        first, pushed = performed.get(timeout=10)
        [member] = wait_until(lambda: redis.zrange("retry", 0, -1), what="its retry")
        redis.zadd("retry", {member: 1.0}, xx=True)
        second, retried = performed.get(timeout=10)

        assert exact(first) == exact(second) == exact(args)
        for name, value in foreign.items():
            assert exact(pushed[name]) == exact(retried[name]) == exact(value)
        assert [name for name in retried if name in pushed] == list(pushed)
        assert json.loads(member)["retry_count"] == retried["retry_count"] == 0
        assert not redis.exists("retry", "dead", "schedule")

    with own_declarations():
        job(name="Any")(perform if kind == "thread" else perform_async)
        client = Client(redis_url)
        with launched(redis_url):
            each()
        client.close()
    tell(f"round trip: {tried} jobs failed, were promoted and performed again ({kind})")
    assert redis.get("stat:processed") == str(2 * tried).encode()
