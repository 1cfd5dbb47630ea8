"""The scripts on the memory of `kiqbridge.testing.fake`: as they are, by lupa, they answer what a server answers."""

import sys

import pytest
from support.jobs import own_declarations

from kiqbridge import Client, job
from kiqbridge.errors import RedisRefused
from kiqbridge.store import scripts
from kiqbridge.testing import NotInMemory, fake
from kiqbridge.testing.memory import Memory

VALUES = scripts.from_text("""#!lua
local seen = {redis.call('TYPE', KEYS[1]).ok, redis.call('SET', KEYS[1], ARGV[1]).ok}
seen[3] = redis.call('GET', KEYS[1])
seen[4] = redis.call('GET', 'absent') == false
seen[5] = 7.9
seen[6] = {redis.call('ZADD', 'z', 1.5, 'a'), redis.call('ZSCORE', 'z', 'a'), #redis.call('ZRANGE', 'z', 0, -1)}
seen[7] = redis.sha1hex('a')
local decoded = cjson.decode('{"list":[1,"x",null,true],"none":null,"deep":{"n":2.5}}')
seen[8] = decoded.list[2]
seen[9] = decoded.list[3] == cjson.null
seen[10] = type(decoded.none)
seen[11] = tostring(decoded.deep.n)
seen[12] = pcall(cjson.decode, 'no json')
seen[13] = redis.pcall('INCR', 'z').err ~= nil
seen[14] = redis.status_reply('FINE')
redis.call('SADD', 's', 'b')
seen[15] = redis.call('SMEMBERS', 's')
redis.call('SADD', 's', 'a', 'c')
seen[16] = redis.call('ZCOUNT', 'z', '(1', '+inf')
seen[17] = redis.call('ZREMRANGEBYSCORE', 'z', '-inf', 2)
redis.call('RPUSH', 'l', 1, 2, 3, 4)
redis.call('LTRIM', 'l', 1, -2)
seen[18] = {redis.call('LINDEX', 'l', 0), redis.call('LINDEX', 'l', 9), redis.call('LRANGE', 'l', 0, -1)}
redis.call('ZADD', 'z', 1, 'a', 2, 'b', 3, 'c')
seen[19] = {redis.call('ZREMRANGEBYRANK', 'z', 0, 0), redis.call('ZRANGE', 'z', '(2', 9, 'BYSCORE', 'LIMIT', 0, 5)}
redis.call('EXPIRE', KEYS[1], 100)
seen[20] = {redis.call('PERSIST', KEYS[1]), redis.call('TTL', KEYS[1]), 1e15, -0.5}
seen[21] = nil
seen[22] = 'after the first nil nothing is answered'
return seen
""")
REFUSED = scripts.from_text("return redis.error_reply('WRONGTYPE of its own')")
TYPES = scripts.from_text("""
redis.call('HSET', 'h', 'a', 1)
redis.call('LPUSH', 'l', 'a')
redis.call('SADD', 's', 'a')
redis.call('ZADD', 'z', 1, 'a')
redis.call('SET', 't', 'a')
local found = {}
for _, key in ipairs({'h', 'l', 's', 'z', 't', 'none'}) do
  found[#found + 1] = redis.call('TYPE', key).ok
end
return found
""")


@pytest.fixture
def jobs():
    with own_declarations(), fake() as jobs:
        yield jobs


@pytest.mark.parametrize("script", [VALUES, TYPES], ids=["values", "types"])
def test_values_go_over_as_in_redis(pool, script):
    memory = Memory(lambda: 1000.0)

    there = pool.script(script, ["key"], ["text"])

    assert memory.script(script, ["key"], ["text"]) == there
    assert len(there) in (20, 6)


def test_an_error_that_a_script_answers_is_raised(pool):
    for store in (pool, Memory(lambda: 0.0)):
        with pytest.raises(RedisRefused, match="WRONGTYPE of its own"):
            store.script(REFUSED, [], [])


def test_without_lupa_it_says_what_to_install(jobs, monkeypatch):
    monkeypatch.setitem(sys.modules, "lupa.lua51", None)

    with pytest.raises(NotInMemory, match=r"needs lupa .*pip install 'kiqbridge\[testing\]'"):
        Client().pause_queue("low")


class TestWithFake:
    def test_a_paused_queue_is_not_drained(self, jobs):
        note = job(name="Note")(lambda text: None)
        note.perform_async("one")
        Client().pause_queue("default", for_s=60)
        assert jobs.drain() == 0

        Client().resume_queue("default")
        assert jobs.drain() == 1
