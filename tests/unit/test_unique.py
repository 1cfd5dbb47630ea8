"""Rules of flow control in declarations and pushes: what is refused, and under which name a job is one of its kind."""

import pytest

from kiqbridge import Client, ConfigError, Job, PayloadError, job
from kiqbridge.client.registry import MARK
from kiqbridge.client.unique import Debounce, Throttle, Unique, name_of, rule_among
from kiqbridge.wire.locks import LockMark, flow_name, lock_of


@job(name="UnitBill", unique=Unique(by=("user_id",)))
def bill(user_id, amount=0, *rest):
    """Does nothing."""


def definition(declared=bill):
    return getattr(declared, MARK)


def named(rule, *args, declared=bill):
    return name_of(rule, definition(declared), {"class": "UnitBill", "args": list(args)})


class TestNames:
    def test_all_arguments_count_by_default(self):
        rule = Unique()

        assert named(rule, 1, 2) == named(rule, 1, 2)
        assert named(rule, 1, 2) != named(rule, 2, 1)
        assert named(rule, 1).startswith("UnitBill:")

    def test_named_parameters_count_alone_and_defaults_as_if_given(self):
        rule = Unique(by=("user_id", "amount"))

        assert named(rule, 7) == named(rule, 7, 0, "more")
        assert named(rule, 7) != named(rule, 7, 1)
        assert named(Unique(by=("user_id",)), 7) == named(Unique(by=("user_id",)), 7, 5)

    def test_a_function_is_called_with_the_arguments(self):
        rule = Unique(by=lambda user_id, *_: {"id": user_id})

        assert named(rule, 7, 1) == named(rule, 7, 2)
        assert named(rule, 7) != named(rule, 8)

    def test_the_order_of_keys_does_not_matter_and_the_class_does(self):
        assert flow_name("A", [{"x": 1, "y": [2]}]) == flow_name("A", [{"y": [2], "x": 1}])
        assert flow_name("A", [1]) != flow_name("B", [1])
        assert flow_name("A", [1]) != flow_name("A", ["1"])

    def test_a_function_that_fails_or_answers_no_json_is_an_error_before_redis(self):
        with pytest.raises(PayloadError, match="ZeroDivisionError"):
            named(Unique(by=lambda user_id: 1 / user_id), 0)
        with pytest.raises(PayloadError, match="answers what JSON can carry"):
            named(Unique(by=lambda user_id: {user_id}), 0)

    def test_names_need_a_declared_job(self):
        with pytest.raises(PayloadError, match="declared here"):
            name_of(Unique(by=("a",)), None, {"class": "A", "args": [1]})


class TestDeclaring:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Unique(until="success"), "unique: until 'success' is not one of start, done"),
            (lambda: Unique(on_conflict="skip"), "on_conflict"),
            (lambda: Unique(ttl_s=0), "ttl_s 0 is not a number of seconds"),
            (lambda: Debounce(wait_s=float("inf")), "wait_s"),
            (lambda: Debounce(wait_s=5, max_wait_s=1), "less than wait_s"),
            (lambda: Throttle(limit=0, per_s=1), "limit 0"),
            (lambda: Throttle(limit=True, per_s=1), "limit True"),
            (lambda: Throttle(per_s="60"), "per_s"),
            (lambda: Throttle(per_s=60, over="wait"), "over"),
            (lambda: rule_among({"unique": "done"}), r"not a kiqbridge.flow.Unique\(…\)"),
            (lambda: rule_among({"unique": Throttle(per_s=1)}), "Unique"),
            (
                lambda: rule_among({"unique": Unique(), "throttle": Throttle(per_s=1)}),
                "unique and throttle",
            ),
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

            @job(name="UnitWrongBy", unique=Unique(by=by))
            def wrong(user_id):
                """Does nothing."""

    def test_a_class_declares_it_as_an_attribute(self):
        class UnitUniqueJob(Job):
            unique = Unique(until="start")

            def perform(self, key):
                """Does nothing."""

        assert definition(UnitUniqueJob).rule == Unique(until="start")
        assert "unique" not in definition(UnitUniqueJob).options


class TestPayloads:
    def test_the_lock_goes_on_the_wire_and_the_rule_does_not(self):
        payload = Client(redis=None, url="redis://nowhere").prepare_inline(
            {"class": bill, "args": [7], "flow": {"bid": "b"}}
        )

        name = named(Unique(by=("user_id",)), 7)
        assert payload["flow"] == {"bid": "b", "lock": name, "until": "done", "take": 2_592_000.0}
        assert lock_of(payload) == LockMark(name, "done", 2_592_000.0)
        assert "unique" not in payload

    def test_one_push_may_have_another_rule_or_none(self):
        client = Client("redis://nowhere")
        item = {"class": bill, "args": [7]}

        assert "flow" not in client.prepare_inline({**item, "unique": None})
        other = client.prepare_inline({**item, "unique": Unique(until="start")})
        assert other["flow"]["until"] == "start"
        with pytest.raises(PayloadError, match="Unique"):
            client.prepare_inline({**item, "unique": "yes"})

    def test_an_attribute_of_that_name_stays_what_it_is_for_a_job_that_is_not_declared(self):
        client = Client("redis://nowhere")

        assert client.prepare_inline({"class": "Other", "args": [], "unique": "x"})["unique"] == "x"

    @pytest.mark.parametrize(
        "flow",
        [
            None,
            7,
            {},
            {"lock": 1, "until": "done"},
            {"lock": "", "until": "done"},
            {"lock": "a", "until": "end"},
            {"lock": "a" * 2000, "until": "done"},
        ],
    )
    def test_what_is_no_lock_is_none(self, flow):
        assert lock_of({"flow": flow}) is None

    @pytest.mark.parametrize("take", [None, True, "5", -1, float("nan")])
    def test_odd_seconds_count_as_none(self, take):
        assert lock_of({"flow": {"lock": "a", "until": "done", "take": take}}) == LockMark(
            "a", "done"
        )
