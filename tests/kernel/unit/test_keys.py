"""Names of all Redis keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.wire.keys import Keys, hash_tag


def all_names(keys):
    return [
        keys.queues,
        keys.schedule,
        keys.retry,
        keys.dead,
        keys.processes,
        keys.process_cleanup,
        keys.paused,
        keys.inflight,
        keys.poller,
        keys.queue("default"),
        keys.process("host:1:abc"),
        keys.work("host:1:abc"),
        keys.workers("host:1:abc"),
        keys.signals("host:1:abc"),
        keys.stat("processed"),
        keys.stat("failed", "2026-01-31"),
        keys.inflight_list("v1:abc", "t1", 7),
        keys.claims("v1:abc"),
        keys.alive,
        keys.reaping,
        keys.alone,
        keys.guards,
        keys.guards_until,
        keys.ledgers,
        keys.ticks("stack/Nightly"),
        keys.iteration("0123abcd"),
    ]


def test_without_a_namespace_they_are_sidekiqs_own():
    assert all_names(Keys())[:16] == [
        "queues",
        "schedule",
        "retry",
        "dead",
        "processes",
        "process_cleanup",
        "paused",
        "kb:inflight",
        "kb:poller",
        "queue:default",
        "host:1:abc",
        "host:1:abc:work",
        "host:1:abc:workers",
        "host:1:abc-signals",
        "stat:processed",
        "stat:failed:2026-01-31",
    ]
    assert Keys().iteration("0123abcd") == "it-0123abcd"


@pytest.mark.parametrize("namespace", ["myapp", "{myapp}", "a:b"])
def test_every_key_is_under_the_namespace_with_or_without_its_colon(namespace):
    for keys in (Keys(namespace), Keys(f"{namespace}:")):
        assert all_names(keys) == [f"{namespace}:{name}" for name in all_names(Keys())]
        assert keys.prefix == f"{namespace}:"
        assert repr(keys) == f"Keys('{namespace}:')"


def test_no_two_things_share_a_key():
    names = all_names(Keys())

    assert len(set(names)) == len(names)


@given(st.integers(0, 2**63))
def test_two_claims_in_a_row_fill_different_lists_and_the_third_the_first_again(sequence):
    lists = [Keys().inflight_list("v1:abc", "t1", sequence + step) for step in range(3)]

    assert lists[0] == lists[2] != lists[1]


@pytest.mark.parametrize(
    ("prefix", "has"),
    [("", False), ("jobs:", False), ("{}x:", False), ("{jobs}:", True), ("a{b}c:", True)],
)
def test_a_hash_tag_is_what_stands_in_the_first_braces(prefix, has):
    assert bool(hash_tag(prefix)) is has
