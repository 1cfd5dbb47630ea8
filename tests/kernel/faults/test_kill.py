"""Workers are killed in the midst of their jobs: every job is performed, and none is lost."""

import pytest
from support.fleet import (
    KEYS,
    Stopwatch,
    freeze,
    incarnations,
    jids_in_flight,
    lists_in_flight,
)


@pytest.mark.slow
def test_by_default_the_jobs_of_a_killed_worker_are_back_within_thirty_seconds(
    fleet, client, redis, tmp_path, tell
):
    victim = fleet.start("-c", "2", recover_after_s=None)
    victim.wait_for(lambda: incarnations(redis, victim.pid), what="its lease")
    jids = client.push_bulk({"class": "Hold", "args": [[], []]})
    victim.wait_for(lambda: fleet.marks.look().running(victim.pid) == set(jids), what="both jobs")
    other = fleet.start("-c", "2", recover_after_s=None)
    other.wait_for(lambda: incarnations(redis, other.pid), what="its lease")

    freeze(victim, redis)
    names = incarnations(redis, victim.pid)
    assert jids_in_flight(redis, names) == set(jids)
    watch = Stopwatch(redis)
    fleet.kill(victim)
    watch.start(names)
    (tmp_path / "release").touch()
    other.wait_for(watch.look, 40, "the victim's lease being gone")
    other.wait_for(lambda: set(fleet.marks.look().by("performed", other.pid)) == set(jids), 5)

    tell(f"default bound 30 s: jobs were back after {watch.seconds[0]:.1f} s")
    assert watch.seconds[0] < 30
    assert fleet.marks.count("begun") == dict.fromkeys(jids, 2)
    assert fleet.marks.count("performed") == dict.fromkeys(jids, 1)
    assert fleet.stop() == [0]
    assert lists_in_flight(redis) == {}
    assert redis.zcard(KEYS.dead) == 0
