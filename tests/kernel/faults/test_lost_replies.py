"""Replies get lost on the way: the server has done it, and the asker cannot know.

Whatever may be repeated is repeated without a second effect; a plain push says that it is in doubt.
"""

import pytest
from support.fleet import KEYS, incarnations, lists_in_flight
from support.proxy import Rule, SwallowingProxy, is_script
from support.waiting import wait_until

from kiqbridge.client.client import Client
from kiqbridge.store import scripts


def rule(name, picks, **options):
    """For one of the scripts."""
    script = scripts.load(name)
    return Rule(name, is_script(script.sha, script.text), picks, **options)


def in_pairs(number):
    """Two of five, one after the other: what is repeated once at once loses both replies."""
    return number % 5 in {1, 2}


@pytest.fixture
def proxied(server):
    """Starts a proxy with rules."""
    proxies = []

    def start(*rules):
        proxies.append(SwallowingProxy(server.port, rules))
        return proxies[-1].url

    yield start
    for proxy in proxies:
        proxy.close()


def is_about_leases(request):
    """Beats, looks at others, and the end of a lease."""
    return any(part == b"kb:alive" for part in request[1:6])


def test_workers_whose_replies_are_lost_perform_each_job_once(
    fleet, proxied, redis, redis_url, tell
):
    rules = [
        rule("claim", lambda n: n % 9 in {3, 4, 5}, stalls=lambda n: n == 13),
        rule("settle", in_pairs),
        rule("give_back", lambda n: n % 4 != 0),
        rule("promote", in_pairs),
        rule("register", lambda n: n == 1),  # two of one worker would make it register anew
        Rule("leases", is_about_leases, in_pairs),
        rule("lead", in_pairs),
    ]
    url = proxied(*rules)
    client = Client(redis_url)
    marks = client.push_bulk({"class": "Mark", "args": [[0]] * 400})
    for _ in range(20):  # short ones, and one that is not: what waits behind it is given back
        marks += client.push_bulk({"class": "Mark", "args": [*[[0]] * 15, [120]]})
    failing = client.push_bulk({"class": "FailOnce", "args": [[]] * 40})
    client.close()

    env = {"KIQBRIDGE_LOOK_AHEAD": "16", "KIQBRIDGE_BEAT_S": "2"}
    for _ in range(2):
        fleet.start("-c", "4", recover_after_s=None, url=url, env=env)
    fleet.wait_leased(redis)
    wait_until(
        lambda: redis.zcard(KEYS.retry) == len(failing),
        40,
        lambda: f"all retries: {redis.zcard(KEYS.retry)}, {fleet.marks.look().count('failed')}",
    )
    redis.zadd(KEYS.retry, dict.fromkeys(redis.zrange(KEYS.retry, 0, -1), 1), xx=True)
    jids = {*marks, *failing}
    wait_until(lambda: fleet.marks.look().count("performed").keys() == jids, 40, "all performed")
    wait_until(lambda: not lists_in_flight(redis), 10, lambda: f"{lists_in_flight(redis)}")
    leases = len(incarnations(redis))
    codes = fleet.stop()

    begun, performed = fleet.marks.look().count("begun"), fleet.marks.count("performed")
    tell(
        f"lost replies, workers: {', '.join(map(repr, rules))}; performed {len(performed)} of "
        f"{len(jids)}, more than once {sum(count > 1 for count in performed.values())}"
    )
    assert performed == dict.fromkeys(jids, 1)
    assert begun == {**dict.fromkeys(marks, 1), **dict.fromkeys(failing, 2)}
    assert fleet.marks.count("failed") == dict.fromkeys(failing, 1)
    assert leases == 2
    assert codes == [0, 0]
    assert (redis.zcard(KEYS.retry), redis.zcard(KEYS.dead)) == (0, 0)
    assert redis.llen(KEYS.queue("default")) == 0
    assert incarnations(redis) == set()
    assert all(each.swallowed for each in rules), rules


def test_jobs_given_back_at_the_end_of_a_worker_run_once_elsewhere(
    fleet, proxied, redis, redis_url, tell
):
    rules = [rule("give_back", lambda n: n % 3 != 0), rule("claim", lambda n: n in {7, 9})]
    leaving = fleet.start("-c", "6", recover_after_s=None, url=proxied(*rules))
    leaving.wait_for(lambda: incarnations(redis, leaving.pid), what="its lease")
    client = Client(redis_url)
    jids = client.push_bulk({"class": "Mark", "args": [[1]] * 900})
    client.close()

    leaving.wait_for(lambda: len(fleet.marks.look().lines["begun"]) > 300, what="300 jobs begun")
    codes = fleet.stop()
    here = len(fleet.marks.look().lines["performed"])
    fleet.start("-c", "3", recover_after_s=None).wait_ready()
    wait_until(lambda: len(fleet.marks.look().count("performed")) == len(jids), 20, "all jobs")

    tell(f"lost replies, shutdown: {here} performed before, {len(jids) - here} after; {rules}")
    assert [*codes, *fleet.stop()] == [0, 0]
    assert fleet.marks.look().count("begun") == dict.fromkeys(jids, 1)
    assert fleet.marks.count("performed") == dict.fromkeys(jids, 1)
    assert lists_in_flight(redis) == {}
    assert all(each.swallowed for each in rules), rules
