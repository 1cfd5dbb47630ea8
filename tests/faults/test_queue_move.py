"""A queue goes to another shard while clients push, workers run, and all are killed: no job is lost or doubled."""

import pytest
from support.fleet import Fleet
from support.queue_move import GLOBS, check, storm
from support.servers import embedded_server
from support.shards import sharded


@pytest.fixture
def shards(redis, server):  # `redis`: the first one is empty
    """On two servers: each can be silent for itself."""
    with embedded_server() as other:
        yield sharded({"old": server.url, "new": other.url}, GLOBS)


def test_a_queue_is_moved_under_kills_of_the_command_and_of_workers(shards, tmp_path, tell):
    with Fleet("redis://nowhere.invalid:1/0", tmp_path) as fleet:
        result = storm(shards, fleet, kills=6, worker_kills=2, waiting=600)

    tell(f"queue move: {result}")
    check(result, shards)
