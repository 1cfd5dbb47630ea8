"""A job that kills its process ends in the dead set, and nobody else does."""

import json
import signal

import pytest
from support.fleet import (
    JOBS,
    KEYS,
    Fleet,
    Stopwatch,
    freeze,
    incarnations,
    jids_in_flight,
    lists_in_flight,
)
from support.processes import is_process_running
from support.waiting import wait_until

pytestmark = pytest.mark.slow

KILLING = JOBS.with_name("killing.py")
RECOVER_AFTER_S = 3.0
NEIGHBOURS = 200


class Supervised(Fleet):
    """A fleet in which somebody starts each worker anew that died."""

    def start_one(self):
        return self.start("-r", str(KILLING), "-c", "2", recover_after_s=RECOVER_AFTER_S)

    def restart_dead(self) -> list[int]:
        """Exit codes of those that had died since the last look."""
        dead = [worker for worker in self.live if not worker.is_running]
        for worker in dead:
            self.live.remove(worker)
            self.start_one()
        return [worker.exit_code for worker in dead]


@pytest.fixture
def fleet(redis_url, tmp_path):
    with Supervised(redis_url, tmp_path) as fleet:
        yield fleet


def dead_jobs(redis):
    return {job["jid"]: job for job in map(json.loads, redis.zrange(KEYS.dead, 0, -1))}


def make_suspects(redis, *jids, queue="default"):
    """As the reaper leaves them."""
    for text in redis.lrange(KEYS.queue(queue), 0, -1)[::-1]:
        if json.loads(text)["jid"] in jids:
            redis.lrem(KEYS.queue(queue), 1, text)
            redis.lpush(KEYS.suspects(queue), text)
            redis.set(KEYS.recovered(json.loads(text)["jid"]), 3)


def test_killers_end_in_the_dead_set_and_two_hundred_neighbours_are_performed(
    fleet, client, redis, tell
):
    before = client.push_bulk({"class": "Mark", "args": [[2]] * (NEIGHBOURS // 2)})
    segfault = client.push({"class": "Segfault", "args": []})
    null = client.push({"class": "NullPointer", "args": []})
    after = client.push_bulk({"class": "Mark", "args": [[2]] * (NEIGHBOURS // 2)})
    deaths = []
    for _ in range(2):
        fleet.start_one()

    def settled():
        deaths.extend(fleet.restart_dead())
        marks = fleet.marks.look().count("performed")
        return len(dead_jobs(redis)) == 2 and marks.keys() >= {*before, *after}

    wait_until(
        settled,
        90,
        lambda: (
            f"all settled: {len(fleet.marks.count('performed'))} performed, {deaths}, "
            f"{dead_jobs(redis)}"
        ),
        interval_s=0.05,
    )
    waiting = (KEYS.queue("default"), KEYS.suspects("default"))
    wait_until(  # a neighbour that was performed and not acknowledged is performed again
        lambda: not redis.exists(*waiting) and not lists_in_flight(redis),
        20,
        lambda: f"nothing left to do: {lists_in_flight(redis)}",
    )
    dead = dead_jobs(redis)
    begun = fleet.marks.look().count("begun")
    outputs = "".join(worker.output for worker in fleet.live)

    tell(
        f"poison: {len(before + after)} neighbours performed, {len(dead)} dead, "
        f"{len(deaths)} workers died ({', '.join(map(str, deaths))}); the killers began "
        f"{begun[segfault]} and {begun[null]} times"
    )
    assert dead.keys() == {segfault, null}
    for job in dead.values():
        assert job["error_class"] == "kiqbridge.errors.ProcessDied"
        assert "was ended by SIGSEGV" in job["error_message"]
        assert job["retry_count"] == 0
    assert set(deaths) == {-signal.SIGSEGV}
    # Alone once; before that three times at most, since one may also be held when the other strikes.
    assert all(2 <= begun[jid] <= 4 for jid in (segfault, null))
    assert redis.zcard(KEYS.retry) == 0
    assert not redis.exists(*waiting)
    assert "is what killed its processes" in outputs


def test_an_innocent_job_that_three_deploys_killed_succeeds_alone(fleet, client, redis, tmp_path):
    jid = client.push({"class": "Hold", "args": []})
    watch = Stopwatch(redis)
    fleet.start_one()
    for _ in range(3):
        victim = fleet.live[0]
        wait_until(lambda pid=victim.pid: jid in fleet.marks.look().by("begun", pid), 20)
        other = fleet.start_one()
        other.wait_for(lambda pid=other.pid: incarnations(redis, pid), what="its lease")
        freeze(victim, redis)
        names = incarnations(redis, victim.pid)
        assert jids_in_flight(redis, names) == {jid}
        fleet.kill(victim)
        watch.start(names)
        wait_until(watch.look, 20, "the victim's lease being gone")
    assert redis.lrange(KEYS.queue("default"), 0, -1) == []

    (tmp_path / "release").touch()
    wait_until(lambda: fleet.marks.look().count("performed")[jid] == 1, 30, "it to be performed")
    wait_until(lambda: not redis.exists(KEYS.recovered(jid)), 10, "its count being forgotten")
    [worker] = fleet.live

    assert fleet.marks.count("begun")[jid] == 4
    [(_, pid)] = fleet.marks.lines["performed"]
    assert pid != worker.pid  # in a child
    assert redis.zcard(KEYS.dead) == redis.zcard(KEYS.retry) == 0
    assert fleet.stop() == [0]
    assert not lists_in_flight(redis)


def test_one_that_takes_its_parent_along_becomes_a_suspect_again_and_is_not_condemned(
    fleet, client, redis
):
    jid = client.push({"class": "KillsItsWorker", "args": []})
    make_suspects(redis, jid)
    victim = fleet.start_one()
    victim.wait_for(lambda: incarnations(redis, victim.pid), what="its lease")
    wait_until(lambda: not victim.is_running, 30, "the worker being killed by it")
    fleet.live.remove(victim)
    assert jids_in_flight(redis, incarnations(redis, victim.pid)) == {jid}

    fleet.start_one()
    wait_until(lambda: redis.llen(KEYS.suspects("default")) == 1, 30, "it among the suspects")

    assert redis.zcard(KEYS.dead) == 0
    assert redis.get(KEYS.recovered(jid)) == b"3"
    fleet.kill(fleet.live[0])  # before it tries


def test_a_worker_that_stops_lets_a_suspect_finish_in_time(fleet, client, redis, tmp_path):
    jid = client.push({"class": "Hold", "args": []})
    make_suspects(redis, jid)
    worker = fleet.start("-r", str(KILLING), "-c", "1", "-t", "30", recover_after_s=RECOVER_AFTER_S)
    wait_until(lambda: fleet.marks.look().count("begun")[jid] == 1, 30, "it to begin")
    [(_, child)] = fleet.marks.lines["begun"]
    worker.signal(signal.SIGTERM)
    (tmp_path / "release").touch()

    assert worker.wait(30) == 0

    assert fleet.marks.look().count("performed")[jid] == 1
    assert not is_process_running(child)
    assert not redis.exists(KEYS.suspects("default"), KEYS.dead)
    assert not lists_in_flight(redis)
