"""In which order the queues are looked at, and their limits."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import QUEUES

from kiqbridge.client.job import job
from kiqbridge.client.server import Server
from kiqbridge.config.function_settings import DepthAction, QueueLimit, limit_of, parse_queue_limits
from kiqbridge.config.merge import merge
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.wire.payload import check_queue
from kiqbridge.wire.queues import Mode, mode_of, parse_queue, queue_order


def first_places(queues, draws=6000):
    order = queue_order(queues, random.Random(20_26))
    return Counter(order()[0] for _ in range(draws))


class TestOrder:
    def test_without_weights_it_is_that_of_the_configuration_every_time(self):
        queues = [("critical", 0), ("default", 0), ("low", 0), ("default", 0)]
        order = queue_order(queues, random.Random(1))
        assert {tuple(order()) for _ in range(50)} == {("critical", "default", "low")}

    def test_a_queue_that_is_named_twice_counts_twice(self):
        places = first_places([("a", 1), ("a", 1), ("b", 1)], draws=3000)
        assert places["a"] == pytest.approx(2000, rel=0.1)
        assert places["b"] == pytest.approx(1000, rel=0.1)

    def test_weights_of_one_give_each_order_the_same_chance(self):
        order = queue_order([("a", 1), ("b", 1), ("c", 1)], random.Random(20_26))

        orders = Counter(tuple(order()) for _ in range(6000))

        assert len(orders) == 6
        assert all(count == pytest.approx(1000, rel=0.15) for count in orders.values())

    @given(QUEUES)
    def test_the_chance_of_being_first_is_the_share_of_the_weight(self, queues):
        draws = 2000

        places = first_places(queues, draws)

        if mode_of(weight for _, weight in queues) is Mode.STRICT:
            assert places == {queues[0][0]: draws}
            return
        total = sum(max(weight, 1) for _, weight in queues)
        for name, weight in queues:
            share = max(weight, 1) / total
            deviation = (draws * share * (1 - share)) ** 0.5
            assert abs(places[name] - draws * share) <= 6 * deviation

    @given(QUEUES, st.randoms(use_true_random=False))
    def test_each_draw_is_a_permutation_of_the_queues(self, queues, rng):
        order = queue_order(queues, rng)

        for _ in range(5):
            assert sorted(order()) == sorted(name for name, _ in queues)

    def test_the_mode_follows_from_the_weights(self):
        modes = [mode_of(weights) for weights in ([0, 0], [1, 1], [2, 2], [0, 1], [])]
        assert modes == [Mode.STRICT, Mode.RANDOM, Mode.WEIGHTED, Mode.WEIGHTED, Mode.STRICT]


class TestReadingAQueue:
    @pytest.mark.parametrize(
        ("text", "queue"),
        [
            ("mail", ("mail", 0)),
            ("mail,3", ("mail", 3)),
            ("mail,0", ("mail", 0)),
            (" mail , 3 ", ("mail", 3)),
            ("a:b.c-d_e", ("a:b.c-d_e", 0)),
        ],
    )
    def test_it_is_a_name_with_an_optional_weight(self, text, queue):
        assert parse_queue(text) == queue

    @pytest.mark.parametrize("text", ["mail,x", "mail,-1", "mail,1.5", "mail,", "mail,²"])
    def test_a_weight_that_is_no_whole_number_is_refused(self, text):
        with pytest.raises(ConfigError) as refusal:
            parse_queue(text, source="KIQBRIDGE_QUEUES")

        weight = text.partition(",")[2]
        assert str(refusal.value) == (
            f"queues: weight {weight!r} in {text!r} is not a whole number (from KIQBRIDGE_QUEUES); "
            "write name,weight such as mail,3"
        )

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            (b"caf\xe9".decode("utf-8", "surrogateescape"), "is not UTF-8 text"),
            ("\ud800,3", "is not UTF-8 text"),
            ("a\0b", "holds a NUL character"),
        ],
    )
    def test_a_name_that_redis_or_ruby_could_not_read_is_refused(self, text, fault):
        with pytest.raises(ConfigError, match=rf"{fault} \(from KIQBRIDGE_QUEUES\)"):
            parse_queue(text, source="KIQBRIDGE_QUEUES")

    @pytest.mark.parametrize("name", ["\udce9", "a\0b"])
    def test_such_a_name_is_refused_in_code_and_in_a_push_too(self, name):
        declared = Server()

        with pytest.raises(ConfigError, match="capsule single"):
            declared.capsule("single", queues=[(name, 1)], concurrency=1)
        with pytest.raises(ConfigError, match="job 'Odd': queue"):
            job(name="Odd", queue=name)(lambda: None)
        with pytest.raises(PayloadError, match="queue: "):
            check_queue(name)
        with pytest.raises(ConfigError, match="unknown_class"):
            merge(environ={"KIQBRIDGE_UNKNOWN_CLASS": f"route:{name}"}, flags={})

    @pytest.mark.parametrize("text", ["", "  ", ",3"])
    def test_a_queue_without_name_is_refused(self, text):
        with pytest.raises(ConfigError, match=r"has no name \(from -q\)"):
            parse_queue(text)


def test_entries_are_read_in_their_order():
    assert parse_queue_limits("default=100000:reject, low=50:delay:60,m*=0:spill,", "HERE") == (
        QueueLimit(queues="default", most=100_000, action=DepthAction.REJECT),
        QueueLimit(queues="low", most=50, action=DepthAction.DELAY, delay_s=60),
        QueueLimit(queues="m*", most=0, action=DepthAction.SPILL),
    )
    assert parse_queue_limits("", "HERE") == ()


@pytest.mark.parametrize(
    "wrong",
    [
        "default",
        "default=1",
        "default=x:reject",
        "default=-1:reject",
        "default=1:drop",
        "=1:reject",
        "default=1:delay",
        "default=1:delay:0",
        "default=1:delay:soon",
        "default=1:reject:60",
        "default=1:spill:60",
        "default = 1:reject",
    ],
)
def test_another_form_is_refused_with_the_right_one(wrong):
    with pytest.raises(
        ConfigError, match=r"(?s)queue_limits: .*\(from HERE\); write QUEUE=NUMBER:reject"
    ):
        parse_queue_limits(f"low=1:reject,{wrong}", "HERE")


def test_the_first_that_matches_counts():
    limits = parse_queue_limits("mail=1:reject,m*=2:reject", "HERE")

    assert [getattr(limit_of(limits, name), "most", None) for name in ("mail", "more", "low")] == [
        1,
        2,
        None,
    ]
