"""Unique jobs in declarations and pushes: what is refused, and under which name a job is one of its kind."""

import pytest

from kiqbridge import Client, ConfigError, Job, PayloadError, job
from kiqbridge.client.inline import prepare_inline
from kiqbridge.client.middleware import Chain
from kiqbridge.client.prepare import prepare
from kiqbridge.client.registry import MARK
from kiqbridge.features.unique.mark import LockMark, lock_of
from kiqbridge.flow import Unique
from kiqbridge.wire.rules import flow_name, rule_among


@job(name="UnitBill", unique=Unique(by=("user_id",)))
def bill(user_id, amount=0, *rest):
    """Does nothing."""


def definition(declared=bill):
    return getattr(declared, MARK)


def named(rule, *args, declared=bill):
    payload = {"class": "UnitBill", "args": list(args)}
    return rule.name_of(payload, definition(declared).signature)


class TestNames:
    @pytest.mark.parametrize(
        ("rule", "one", "alike", "other"),
        [
            (Unique(), (1, 2), (1, 2), (2, 1)),
            (Unique(by=("user_id", "amount")), (7,), (7, 0, "more"), (7, 1)),
            (Unique(by=("user_id",)), (7,), (7, 5), (8, 5)),
            (Unique(by=lambda user_id, *_: {"id": user_id}), (7, 1), (7, 2), (8, 1)),
        ],
    )
    def test_all_arguments_count_or_those_of_the_rule(self, rule, one, alike, other):
        assert named(rule, *one) == named(rule, *alike) != named(rule, *other)
        assert named(rule, *one).startswith("UnitBill:")

    def test_the_order_of_keys_does_not_matter_and_the_class_does(self):
        assert flow_name("A", [{"x": 1, "y": [2]}]) == flow_name("A", [{"y": [2], "x": 1}])
        assert flow_name("A", [1]) != flow_name("B", [1])
        assert flow_name("A", [1]) != flow_name("A", ["1"])

    def test_a_name_stays_the_same_from_version_to_version(self):
        """That of a lock in Redis; `tests/interop` compares it with Ruby's."""
        ordinary = [
            7,
            'é\u2028\x7f\x01/"\\\n',
            1.5,
            -0.25,
            1e15,
            None,
            True,
            10**25,
            {"b": [0], "a": {}},
        ]

        assert flow_name("Bill", ordinary) == "Bill:ad1a0d3cb3daf341af792f55bd6738ef"
        assert (
            flow_name("Bill", [1e-5, 1e16, 1e20, 5e-324]) == "Bill:e84760268fec50e29ed9c0ace6f88b01"
        )

    def test_a_function_that_fails_or_answers_no_json_is_an_error_before_redis(self):
        with pytest.raises(PayloadError, match="ZeroDivisionError"):
            named(Unique(by=lambda user_id: 1 / user_id), 0)
        with pytest.raises(PayloadError, match="answers what JSON can carry"):
            named(Unique(by=lambda user_id: {user_id}), 0)
        with pytest.raises(PayloadError, match="declared here"):
            Unique(by=("a",)).name_of({"class": "A", "args": [1]}, None)


class TestDeclaring:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Unique(until="success"), "unique: until 'success' is not one of start, done"),
            (lambda: Unique(on_conflict="skip"), "on_conflict"),
            (lambda: Unique(ttl_s=0), "ttl_s 0 is not a number of seconds"),
            (lambda: rule_among({"unique": "done"}), r"not a kiqbridge.flow.Unique\(…\)"),
        ],
    )
    def test_a_wrong_rule_is_refused_with_what_is_allowed(self, make, message):
        with pytest.raises(ConfigError, match=message):
            make()

    @pytest.mark.parametrize(
        ("by", "message"), [(("user",), "'user' is not a parameter"), ("user_id", "not a list")]
    )
    def test_by_names_parameters(self, by, message):
        with pytest.raises(ConfigError, match=message):
            job(name="UnitWrongBy", unique=Unique(by=by))(lambda user_id: None)

    def test_a_class_declares_it_as_an_attribute(self):
        class UnitUniqueJob(Job):
            unique = Unique(until="start")

            def perform(self, key):
                """Does nothing."""

        assert definition(UnitUniqueJob).rule == Unique(until="start")
        assert "unique" not in definition(UnitUniqueJob).options


class TestPayloads:
    def test_the_lock_goes_on_the_wire_and_the_rule_does_not(self):
        payload = prepare_inline(
            Client("redis://nowhere"), {"class": bill, "args": [7], "flow": {"bid": "b"}}
        )

        name = named(Unique(by=("user_id",)), 7)
        assert payload["flow"] == {"bid": "b", "lock": name, "until": "done", "take": 2_592_000.0}
        assert lock_of(payload) == LockMark(name, "done", 2_592_000.0)
        assert "unique" not in payload

    def test_one_push_may_have_another_rule_or_none(self):
        client = Client("redis://nowhere")
        item = {"class": bill, "args": [7]}
        assert "flow" not in prepare_inline(client, {**item, "unique": None})
        other = prepare_inline(client, {**item, "unique": Unique(until="start")})
        assert other["flow"]["until"] == "start"
        with pytest.raises(PayloadError, match="Unique"):
            prepare_inline(client, {**item, "unique": "yes"})
        undeclared = prepare_inline(client, {"class": "Other", "args": [], "unique": "x"})
        assert undeclared["unique"] == "x"

    def test_what_is_no_lock_is_none_and_odd_seconds_count_as_none(self):
        lock = {"lock": "a", "until": "done"}
        wrong = ({"lock": 1}, {"lock": ""}, {"until": "end"}, {"lock": "a" * 2000})
        for flow in (None, 7, {}, *(lock | each for each in wrong)):
            assert lock_of({"flow": flow}) is None
        for take in (None, True, "5", -1, float("nan")):
            assert lock_of({"flow": lock | {"take": take}}) == LockMark("a", "done")

    def test_a_rule_is_not_passed_over_on_the_short_way(self):
        prepared = prepare({"class": bill, "args": [1]}, 1.0, Chain(), lambda: "7")

        assert prepared.rule == Unique(by=("user_id",))
