"""Those who look after the others are killed, one after the other and together with a third: jobs come back, once."""

import signal

import pytest
from support.fleet import KEYS, Stopwatch, freeze, incarnations, jids_in_flight, lists_in_flight
from support.waiting import wait_until

pytestmark = pytest.mark.slow

RECOVER_AFTER_S = 4.0
"""Short, and still long enough for a busy machine."""

JOBS = 2


def watching(redis, fleet):
    """The living workers that hold a watch slot."""
    holders = {int(text.split(b":")[-2]) for text in redis.mget(KEYS.watch_1, KEYS.watch_2) if text}
    return [worker for worker in fleet.live if worker.pid in holders]


def test_the_jobs_of_killed_watchers_come_back_in_time(fleet, client, redis, tmp_path, tell):
    def start():
        worker = fleet.start("-c", str(JOBS), recover_after_s=RECOVER_AFTER_S)
        worker.wait_for(lambda: incarnations(redis, worker.pid), what="its lease")
        return worker

    def hold(workers):
        """Each of these workers, and no other one, runs as many jobs as it has threads; their jids."""
        others = [worker for worker in fleet.live if worker not in workers]
        for other in others:
            freeze(other, redis)
        jids = client.push_bulk({"class": "Hold", "args": [[]] * (JOBS * len(workers))})
        wait_until(
            lambda: all(len(fleet.marks.look().running(each.pid)) == JOBS for each in workers),
            what="jobs that hold all threads",
        )
        for other in others:
            other.signal(signal.SIGCONT)
        return set(jids)

    def kill(workers):
        """All at the same time; seconds until the last of their leases is gone."""
        watch, names = Stopwatch(redis), set()
        for worker in workers:
            freeze(worker, redis)
            names |= incarnations(redis, worker.pid)
        held = jids_in_flight(redis, names)
        for worker in list(workers):
            fleet.kill(worker)
        watch.start(names)
        wait_until(watch.look, 3 * RECOVER_AFTER_S, "the leases of the killed being gone")
        return held, max(watch.seconds)

    def finish():
        """The jobs that came back may end now, and are waited for."""
        release = tmp_path / "release"
        release.touch()
        wait_until(
            lambda: set(fleet.marks.look().count("performed")) == every, 20, "all jobs performed"
        )
        release.unlink()

    start(), start()
    wait_until(lambda: len(watching(redis, fleet)) == 2, what="two watchers")
    seconds, every = [], set()

    # A watcher, and then the one that has watched with it.
    for _ in range(2):
        start()
        victim = watching(redis, fleet)[0]
        jids = hold([victim])
        every |= jids
        held, took = kill([victim])
        assert held == jids
        seconds.append(took)
        finish()
        wait_until(lambda: len(watching(redis, fleet)) == 2, what="two watchers again")

    # Both watchers and a third at once: nobody is left who has watched them.
    start()
    start()
    victims = watching(redis, fleet)
    victims.append(next(worker for worker in fleet.live if worker not in victims))
    survivors = [worker for worker in fleet.live if worker not in victims]
    assert len(survivors) == 1
    jids = hold(victims)
    every |= jids
    held, took = kill(victims)
    assert held == jids
    seconds.append(took)
    finish()

    tell(
        "watchers killed: jobs were back "
        + ", ".join(f"{each:.1f} s" for each in seconds)
        + f" after one, the other one, and both with a third were killed (bound {RECOVER_AFTER_S:.0f} s)"
    )
    assert set(fleet.marks.count("performed").values()) == {1}
    assert set(fleet.stop()) == {0}
    assert lists_in_flight(redis) == {}
    assert redis.zcard(KEYS.dead) == 0
    assert not redis.exists(KEYS.watch_1, KEYS.watch_2)
