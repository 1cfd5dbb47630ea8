"""How often a job was found orphaned, counted by its jid or by its bytes."""

import hashlib

from kiqbridge.inflight.orphans import (
    COUNTED_FOR_S,
    count_orphan,
    forget_orphan,
    orphan_count,
    orphan_counts,
    orphan_id,
)
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

KEYS = Keys()


def test_a_job_is_counted_by_its_jid_and_without_one_by_its_bytes():
    assert orphan_id(b'{"class":"Nop","jid":"abc"}') == "abc"
    assert orphan_id(b"no json") == hashlib.sha1(b"no json").hexdigest()


def test_each_time_counts_and_keeps_the_count_for_three_days(connection, redis):
    assert orphan_count(connection, KEYS, "abc") == 0
    count_orphan(connection, KEYS, "abc")
    redis.expire(KEYS.recovered("abc"), 10)

    count_orphan(connection, KEYS, "abc")

    assert orphan_count(connection, KEYS, "abc") == 2
    assert COUNTED_FOR_S - 60 < redis.ttl(KEYS.recovered("abc")) <= COUNTED_FOR_S


def test_a_count_that_is_forgotten_begins_anew(connection):
    count_orphan(connection, KEYS, "abc")

    forget_orphan(connection, KEYS, "abc")

    assert orphan_count(connection, KEYS, "abc") == 0


def test_many_counts_are_read_in_steps_and_what_is_no_number_counts_as_none(connection, redis):
    names = [f"job{number}" for number in range(2500)]
    redis.set(KEYS.recovered("job0"), "nonsense")
    redis.set(KEYS.recovered("job2499"), 2)

    counts = orphan_counts(connection, KEYS, names)

    assert list(counts) == names
    assert {name: count for name, count in counts.items() if count} == {"job2499": 2}


def test_no_names_need_no_call():
    connection = RedisPool("redis://127.0.0.1:1/0").connection()

    assert orphan_counts(connection, KEYS, []) == {}
