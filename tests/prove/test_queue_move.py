"""A queue goes to another shard, killed again and again, with a large backlog: no job is lost or doubled."""

import pytest
from support.proving import sized
from support.queue_move import GLOBS, check, storm
from support.servers import embedded_server
from support.shards import sharded

KILLS = sized(full=60, sample=3)
WORKER_KILLS = sized(full=20, sample=1)
WAITING = sized(full=3000, sample=600)


@pytest.fixture
def shards(redis, server):  # `redis`: the first one is empty
    with embedded_server() as other:
        yield sharded({"old": server.url, "new": other.url}, GLOBS)


def test_a_queue_is_moved_in_a_storm_of_kills(fleet, shards, tell):
    result = storm(shards, fleet, kills=KILLS, worker_kills=WORKER_KILLS, waiting=WAITING)

    tell(f"queue move: {result}")
    check(result, shards)
    assert result.in_between > 0
