"""What nodes of a cluster refuse, and that each command is carried out once all the same.

Two servers, each a cluster that owns all slots; a proxy before each answers as a node that does not.
"""

import time
from collections import Counter

import pytest
import redis as redis_py
from support.proxy import Answer, InterceptingRedis, Lose
from support.servers import one_node_cluster

from kiqbridge import Client, PushOutcomeUnknown, RedisUnavailable
from kiqbridge.store import deadline
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import ReplyLost
from kiqbridge.store.scripts import from_text

A, B = "{app}:a", "{app}:b"


@pytest.fixture(scope="module")
def servers():
    with one_node_cluster() as one, one_node_cluster() as two:
        yield one, two


class Node:
    """A proxy; `owner` is what it calls the owner when it is asked."""

    def __init__(self, proxy, raw):
        self.proxy, self.raw = proxy, raw
        self.port = int(proxy.url.rpartition(":")[2].partition("/")[0])
        self.refusals = []
        self.owner = self.port
        self.host = b"127.0.0.1"
        proxy.decide = self._decide

    def refuse(self, name, text, times=1):
        """Answer the next commands of this name with an error."""
        self.refusals += [(name.encode(), f"-{text}\r\n".encode())] * times

    def _decide(self, command):
        if command[0] == b"CLUSTER":
            return Answer(
                b"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$%d\r\n%b\r\n:%d\r\n$1\r\nx\r\n"
                % (len(self.host), self.host, self.owner)
            )
        for refusal in self.refusals:
            if command[0] == refusal[0]:
                self.refusals.remove(refusal)
                return Answer(refusal[1])
        return None

    def names(self):
        return Counter(command[0].decode() for command in self.proxy.commands)


@pytest.fixture
def nodes(servers):
    one, two = servers
    one.flush()
    two.flush()
    with (
        InterceptingRedis(one.port) as first,
        InterceptingRedis(two.port) as second,
        redis_py.Redis.from_url(one.url) as raw,
        redis_py.Redis.from_url(two.url) as other,
    ):
        yield Node(first, raw), Node(second, other)


@pytest.fixture
def pool(nodes):
    pool = RedisPool(f"redis+cluster://127.0.0.1:{nodes[0].port}", namespace="{app}")
    yield pool
    pool.close()


@pytest.mark.slow
def test_moved_is_followed_and_remembered(nodes, pool):
    here, there = nodes
    here.refuse("INCR", f"MOVED 6805 127.0.0.1:{there.port}")

    assert pool.run(("INCR", A), repeatable=False) == [1]
    assert pool.run(("INCR", A), repeatable=False) == [2]

    assert (here.raw.get(A), there.raw.get(A)) == (None, b"2")
    assert here.names()["INCR"] == 1


@pytest.mark.parametrize("host", ["", "?"])
def test_a_node_may_leave_the_host_out(nodes, pool, host):
    here, there = nodes
    pool.call("PING")
    here.owner = there.port
    here.host = b""  # the host that was asked
    here.refuse("INCR", f"MOVED 6805 {host}:{there.port}")

    assert pool.run(("INCR", A), repeatable=False) == [1]

    assert there.raw.get(A) == b"1"


def test_nodes_that_send_each_other_the_call_end_it_after_a_while(nodes):
    here, there = nodes
    pool = RedisPool(f"redis+cluster://127.0.0.1:{here.port}", namespace="{app}", read_timeout_s=2)
    for one, other in ((here, there), (there, here)):
        one.refuse("INCR", f"MOVED 6805 127.0.0.1:{other.port}", times=500)

    with pytest.raises(RedisUnavailable, match="refused the call: MOVED 6805"):
        pool.run(("INCR", A), repeatable=False)

    # With pauses that grow: at once it would be hundreds.
    assert 4 < here.names()["INCR"] + there.names()["INCR"] < 60
    pool.close()


def test_ask_is_followed_for_one_command_and_the_owner_stays(nodes, pool):
    here, there = nodes
    here.refuse("INCR", f"ASK 6805 127.0.0.1:{there.port}")

    assert pool.run(("SET", B, "x"), ("INCR", A), repeatable=False) == [b"OK", 1]
    assert pool.run(("INCR", A), repeatable=False) == [1]

    assert (here.raw.get(A), there.raw.get(A)) == (b"1", b"1")
    assert there.names() == {"ASKING": 1, "INCR": 1}
    assert here.names()["SET"] == 1


def test_a_user_who_may_not_ask_waits_and_gets_to_know_the_right(nodes):
    here, there = nodes
    pool = RedisPool(
        f"redis+cluster://127.0.0.1:{here.port}", namespace="{app}", read_timeout_s=0.4
    )
    here.refuse("INCR", f"ASK 6805 127.0.0.1:{there.port}", times=500)
    there.refuse("ASKING", "NOPERM this user has no permissions to run the 'asking' command", 500)
    there.refuse("INCR", f"MOVED 6805 127.0.0.1:{here.port}", times=500)

    with pytest.raises(RedisUnavailable, match="permissions to run the 'asking' command"):
        pool.run(("INCR", A), repeatable=False)

    here.refusals.clear()
    assert pool.run(("INCR", A), repeatable=False) == [1]
    assert (here.raw.get(A), there.raw.get(A)) == (b"1", None)
    pool.close()


def test_a_slot_that_has_arrived_meanwhile_needs_no_asking(nodes, pool):
    here, there = nodes
    here.refuse("INCR", f"ASK 6805 127.0.0.1:{there.port}")
    there.refuse("ASKING", "NOPERM this user has no permissions to run the 'asking' command")

    assert pool.run(("INCR", A), repeatable=False) == [1]

    assert (here.raw.get(A), there.raw.get(A)) == (None, b"1")


def test_a_lost_reply_after_ask_stays_in_doubt(nodes, pool):
    here, there = nodes
    here.refuse("INCR", f"ASK 6805 127.0.0.1:{there.port}")
    there.proxy.decide = lambda command: Lose() if command[0] == b"INCR" else None

    with pytest.raises(ReplyLost):
        pool.run(("INCR", A), repeatable=False)

    assert there.raw.get(A) == b"1"


@pytest.mark.parametrize(
    "text",
    [
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN The cluster is down",
        "LOADING Redis is loading the dataset in memory",
        "MASTERDOWN Link with MASTER is down",
        "READONLY You can't write against a read only replica.",
    ],
)
def test_what_passes_is_waited_for_and_carried_out_once(nodes, pool, text):
    here, _ = nodes
    here.refuse("INCR", text, times=4)

    assert pool.run(("INCR", A), repeatable=False) == [1]

    assert here.raw.get(A) == b"1"
    assert here.names()["INCR"] == 5


def test_patience_ends_with_the_deadline(nodes, pool):
    here, _ = nodes
    here.refuse("INCR", "CLUSTERDOWN The cluster is down", times=500)
    began = time.monotonic()

    with deadline.within(0.3), pytest.raises(RedisUnavailable):
        pool.run(("INCR", A), repeatable=False)

    assert time.monotonic() - began >= 0.29
    assert here.raw.get(A) is None


def test_of_a_call_only_what_was_refused_is_repeated(nodes, pool):
    here, there = nodes
    commands = [("INCR", A), ("INCRBY", A, 10), ("INCR", B)]
    here.refuse("INCRBY", f"MOVED 6805 127.0.0.1:{there.port}")

    assert pool.run(*commands, repeatable=False) == [1, 10, 1]

    assert (here.raw.get(A), here.raw.get(B)) == (b"1", b"1")
    assert (there.raw.get(A), there.raw.get(B)) == (b"10", None)


def test_a_repeatable_call_is_repeated_as_a_whole(nodes, pool):
    here, there = nodes
    here.refuse("GETRANGE", f"MOVED 6805 127.0.0.1:{there.port}")
    here.raw.set(A, "old")
    there.raw.set(A, "new")

    assert pool.run(("GET", A), ("GETRANGE", A, 0, 0)) == [b"new", b"n"]


@pytest.mark.parametrize("where", ["a command", "its end"])
def test_a_transaction_is_repeated_as_a_whole(servers, nodes, pool, where):
    here, there = nodes
    commands = [("SET", B, 1), ("MULTI",), ("INCR", A), ("LPUSH", "{app}:l", "x"), ("EXEC",)]
    if where == "a command":
        here.refuse("LPUSH", f"MOVED 6805 127.0.0.1:{there.port}")
        here.refuse("EXEC", "EXECABORT Transaction discarded because of previous errors.")
    else:
        here.refuse("EXEC", f"MOVED 6805 127.0.0.1:{there.port}")

    replies = pool.run(*commands, repeatable=False)

    assert replies == [b"OK", b"OK", b"QUEUED", b"QUEUED", [1, 1]]
    assert (there.raw.get(A), there.raw.lrange("{app}:l", 0, -1)) == (b"1", [b"x"])
    assert there.raw.get(B) is None  # that one was carried out before


def test_ask_within_a_transaction_is_waited_out(nodes, pool):
    here, there = nodes
    here.refuse("INCR", f"ASK 6805 127.0.0.1:{there.port}")
    here.refuse("EXEC", "EXECABORT Transaction discarded because of previous errors.")

    assert pool.run(("MULTI",), ("INCR", A), ("EXEC",), repeatable=False)[-1]

    assert there.names() == {}


def test_a_script_is_loaded_at_the_new_owner(nodes, pool):
    here, there = nodes
    script = from_text("#!lua\nreturn {#KEYS, redis.call('INCR', KEYS[1])}\n")
    assert pool.script(script, [A], []) == [1, 1]  # the server knows it from now on
    here.refuse("EVALSHA", f"MOVED 6805 127.0.0.1:{there.port}")

    assert pool.script(script, [A], [], repeatable=False) == [1, 1]

    assert there.names() == {"EVALSHA": 1, "EVAL": 1}
    assert there.raw.get(A) == b"1"


def test_an_owner_that_is_gone_is_sought_at_once(nodes):
    here, there = nodes
    pool = RedisPool(
        f"redis+cluster://127.0.0.1:{here.port},127.0.0.1:{there.port}", namespace="{app}"
    )
    here.owner = there.port
    pool.call("SET", A, 1)
    there.refuse("INCR", "MOVED 6805 127.0.0.1:1")  # where nothing listens

    assert pool.run(("INCR", A), repeatable=False) == [2]
    pool.close()


def test_a_push_whose_reply_is_lost_stays_in_doubt(nodes):
    here, _ = nodes
    client = Client(f"redis+cluster://127.0.0.1:{here.port}", namespace="{app}", profile="8")
    here.proxy.decide = lambda command: (
        Lose() if command[0] == b"LPUSH" else Node._decide(here, command)
    )

    with pytest.raises(PushOutcomeUnknown):
        client.push({"class": "X", "args": []})

    client.close()


def test_a_plain_address_of_a_node_says_what_to_write_instead(nodes):
    here, there = nodes
    here.refuse("INCR", f"MOVED 6805 127.0.0.1:{there.port}")
    pool = RedisPool(here.proxy.url)

    with pytest.raises(RedisUnavailable, match=r"write redis\+cluster://HOST:PORT in place"):
        pool.call("INCR", A)

    pool.close()


def test_a_server_without_cluster_mode_says_what_to_write_instead(server):
    pool = RedisPool(server.url.replace("redis://", "redis+cluster://"), namespace="{app}")

    with pytest.raises(RedisUnavailable, match=r"not in cluster mode.*; write redis:// in place"):
        pool.call("PING")
