"""What becomes of a failed job, decided without touching Redis."""

import base64
import json
import random
import zlib
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from support.strategies import EPOCH_SECONDS, PAYLOADS

from kiqbridge.client.registry import Handling
from kiqbridge.engine.settle.ending import Target
from kiqbridge.engine.settle.retry import RetryPolicy, decide, failed_payload, retry_delay
from kiqbridge.errors import ArgumentMismatch, KiqbridgeError
from kiqbridge.wire.json_text import loads

NOW = 1_700_000_000.25
VECTORS = json.loads(
    (Path(__file__).parents[2] / "vectors" / "worker-7.3.10.json").read_text(encoding="utf-8")
)["operations"]


def decided(
    payload,
    error=None,
    *,
    class_retry=True,
    max_retries=25,
    now=NOW,
    seed=1,
    profile="7",
    **handling,
):
    return decide(
        payload if "class" in payload else {"class": "EchoJob", "args": [], **payload},
        error or ValueError("boom"),
        queue="default",
        class_retry=class_retry,
        policy=RetryPolicy(max_retries=max_retries, profile=profile),
        now=now,
        rng=random.Random(seed),
        handling=Handling(**handling),
    )


def raised(function, *args):
    try:
        function(*args)
    except Exception as error:  # noqa: BLE001 - whatever the job raises
        return error
    raise AssertionError("nothing was raised")


def inner(message):
    raise ValueError(message)


def outer(message):
    inner(message)


class TestVerdict:
    @pytest.mark.parametrize(
        ("payload", "class_retry", "target"),
        [
            ({"retry": True, "retry_count": 23}, True, "retry"),
            ({"retry": True, "retry_count": 24}, True, "dead"),
            ({"retry": 3, "retry_count": 1}, True, "retry"),
            ({"retry": 3, "retry_count": 2}, True, "dead"),
            ({"retry": 0}, True, "dead"),
            ({"retry": False, "retry_count": 1}, True, "discard"),
            # Every value but false and null is true in Ruby.
            ({"retry": "no"}, True, "retry"),
            # Nothing said: the class' own option; an explicit value wins over it.
            ({}, 0, "dead"),
            ({"retry": None}, False, "discard"),
            ({"retry": True}, False, "retry"),
            # The class was not found.
            ({"retry": True}, None, "retry"),
            ({}, None, "discard"),
            # Out of tries, but not wanted in the dead set.
            ({"retry": 0, "dead": False}, True, "discard"),
            # Revived from the dead set by hand (§8.7).
            ({"retry": 0, "retry_count": -1}, True, "dead"),
            ({"retry": 1, "retry_count": -1}, True, "retry"),
        ],
    )
    def test_it_follows_from_retry_dead_and_the_count(self, payload, class_retry, target):
        """Examples; all of it is compared with a second reading in test_retry_oracle.py."""
        assert decided(payload, class_retry=class_retry).target == target

    @pytest.mark.parametrize("limit", [0, 1, 3, 25])
    def test_a_limit_of_n_means_n_retries_and_then_death(self, limit):
        payload, runs = {"retry": limit}, 0
        while (decision := decided(payload)).target is Target.RETRY:
            payload, runs = decision.payload, runs + 1

        assert runs == limit
        assert decision.target is Target.DEAD
        assert decision.payload["retry_count"] == limit

    @pytest.mark.parametrize(
        ("payload", "target"),
        [
            ({"retry_for": 60}, "retry"),
            ({"retry_for": 60, "retry_count": 3, "failed_at": NOW - 59}, "retry"),
            ({"retry_for": 60, "retry_count": 3, "failed_at": NOW - 61}, "dead"),
            ({"retry_for": 60, "retry_count": 3, "failed_at": NOW - 61, "dead": False}, "discard"),
            ({"retry_for": 60, "retry_count": 0, "failed_at": int((NOW - 61) * 1000)}, "dead"),
            ({"retry_for": 60, "retry_count": 0, "failed_at": int(NOW - 59)}, "retry"),
            # 8.1: the window alone decides, not the count.
            ({"retry_for": 60, "retry_count": 99, "failed_at": NOW - 1}, "retry"),
            # No start, so no window: the count decides, or it would go on for ever.
            ({"retry_for": 60, "retry_count": 24}, "dead"),
            ({"retry_for": 60, "retry_count": 24, "failed_at": "long ago"}, "dead"),
        ],
    )
    def test_retry_for_is_a_window_after_the_first_failure(self, payload, target):
        assert decided({"retry": True, **payload}).target == target


class TestTime:
    @pytest.mark.parametrize("count", range(26))
    def test_the_delay_is_sidekiqs_formula_with_its_jitter(self, count):
        delays = {retry_delay(count, random.Random(seed)) - count**4 - 15 for seed in range(200)}

        assert delays == {step * (count + 1) for step in range(10)}

    def test_25_tries_take_about_20_days_and_a_job_revived_by_hand_starts_again(self):
        days = sum(retry_delay(count, random.Random(count)) for count in range(25)) / 86_400
        assert 20 < days < 22
        assert 15 <= retry_delay(-1, random.Random(1)) <= 24


class TestWhatIsKept:
    def test_the_class_option_is_kept_with_a_job_that_said_nothing(self):
        assert decided({}, class_retry=3).payload["retry"] == 3
        assert decided({"retry": None}, class_retry=3).payload["retry"] == 3
        assert "retry" not in decided({}, class_retry=None).payload

    @given(PAYLOADS, EPOCH_SECONDS)
    def test_the_given_payload_is_not_changed_and_its_other_attributes_stay(self, payload, now):
        before = json.dumps(payload)

        failed = decided(payload, now=now).payload

        written = {"queue", "error_message", "error_class", "failed_at", "retried_at"}
        assert json.dumps(payload) == before
        for name, value in payload.items():
            if name not in written | {"retry_count"} and not (name == "retry" and value is None):
                assert failed[name] == value
        names = [name for name in failed if name in payload]
        assert names == list(payload)


KEPT = {
    operation["operation"]: (key["key"], [entry["member"] for entry in key["value"]])
    for operation in VECTORS
    if operation["operation"].startswith(("fail_", "integer_second"))
    for key in operation["keys"]
    if key["key"] in {"retry", "dead"} and key["value"]
}
"""What Sidekiq 7.3.10 keeps of each failure."""


class TestAgainstSidekiq:
    """The same failure here leaves the same members in the same order."""

    @pytest.mark.parametrize(
        ("operation", "class_retry"),
        [
            ("fail_retry_zero", 0),
            ("fail_retry_queue", 3),
            ("fail_retry_for_passed", True),
            ("fail_message_bytes", 1),
            ("fail_unknown_class", None),
            ("fail_no_retry_key", True),
            ("integer_second_times", True),
        ],
    )
    def test_a_pushed_job_that_fails(self, operation, class_retry):
        pushed = next(each["pushed"] for each in VECTORS if each["operation"] == operation)
        where, [kept] = KEPT[operation]
        ruby = loads(kept.encode())

        decision = decided(loads(pushed.encode()), RuntimeError("x"), class_retry=class_retry)

        assert decision.target == where
        assert list(decision.payload) == list(ruby)
        times = {"failed_at", "retried_at"}
        said = {"error_message", "error_class", *times}
        assert {k: v for k, v in decision.payload.items() if k not in said} == {
            k: v for k, v in ruby.items() if k not in said
        }
        assert {type(decision.payload[k]) for k in times & ruby.keys()} <= {float, int}

    def test_a_job_fails_until_it_is_dead(self):
        members = [KEPT[f"fail_{step}"] for step in ("first", "second", "exhausted")]
        payload = {
            name: value
            for name, value in loads(members[0][1][0].encode()).items()
            if not name.startswith(("error_", "failed_", "retry_count"))
        }

        for where, [kept] in members:
            decision = decided(payload, raised(outer, "boom"))
            payload = decision.payload

            assert decision.target == where
            assert list(payload) == list(loads(kept.encode()))
            assert payload["retry_count"] == loads(kept.encode())["retry_count"]

    @pytest.mark.parametrize(
        "operation",
        ["fail_retry_false", "fail_retry_zero_dead_false", "fail_unknown_class_no_retry_key"],
    )
    def test_a_job_that_leaves_nothing(self, operation):
        pushed = next(each["pushed"] for each in VECTORS if each["operation"] == operation)

        assert operation not in KEPT
        assert decided(loads(pushed.encode()), class_retry=None).target is Target.DISCARD


class Sub(ValueError):  # noqa: N818 - named by what it is
    """For rules of the nearest class."""


class TestTheClassOwnRules:
    """retry_in, retries_exhausted and on_error (§8.3, §8.4)."""

    @pytest.mark.parametrize("answer", [60, 60.0, timedelta(minutes=1)])
    def test_retry_in_replaces_the_first_part_of_the_delay(self, answer):
        got, error = [], ValueError("boom")
        decision = decided(
            {"retry_count": 2}, error, retry_in=lambda *args: got.append(args) or answer
        )
        assert decision.target is Target.RETRY
        assert 60 <= decision.at - NOW <= 60 + 9 * 4
        [(count, given, payload)] = got
        assert (count, given, payload["retry_count"]) == (3, error, 3)

    @pytest.mark.parametrize("answer", [None, 0, -5, True, "soon", float("nan")])
    def test_any_other_answer_means_the_usual_delay(self, answer):
        assert decided({}, retry_in=lambda *_: answer).at == decided({}).at

    def test_its_own_error_is_logged_and_counts_as_no_answer(self, caplog):
        assert decided({}, retry_in=lambda *_: 1 // 0).at == decided({}).at
        assert "had said nothing" in caplog.text
        caplog.clear()
        assert decided({"retry": 0}, retries_exhausted=lambda *_: 1 // 0).target is Target.DEAD
        assert "had said nothing" in caplog.text

    def test_discard_drops_and_tells_when(self):
        decision = decided({}, retry_in=lambda *_: "discard", profile="8")

        assert decision.target is Target.DISCARD
        assert decision.payload["discarded_at"] == int(NOW * 1000)

    def test_kill_ends_it_as_if_no_tries_were_left_and_then_it_is_not_asked(self):
        heard = []
        rules = {"retry_in": lambda *_: "kill", "retries_exhausted": lambda *_: heard.append(1)}
        assert decided({"retry": 5}, **rules).target is Target.DEAD
        assert heard == [1]
        rules["retry_in"] = lambda *_: heard.append("asked")
        decided({"retry": 0}, **rules)
        assert heard == [1, 1]

    @pytest.mark.parametrize(
        ("payload", "answer", "target"),
        [
            ({"retry": 0}, None, "dead"),
            ({"retry": 0}, "discard", "discard"),
            ({"retry": 0, "dead": False}, None, "discard"),
            ({"retry": 1}, "discard", "retry"),
        ],
    )
    def test_retries_exhausted_may_keep_it_out_of_the_dead_set(self, payload, answer, target):
        assert decided(payload, retries_exhausted=lambda *_: answer).target == target

    @pytest.mark.parametrize(
        ("rules", "payload", "target"),
        [
            ({ValueError: "discard"}, {}, "discard"),
            ({ValueError: "discard"}, {"retry": 0}, "discard"),
            ({ValueError: "kill"}, {}, "dead"),
            ({ValueError: "kill"}, {"retry": False}, "discard"),
            ({ValueError: "retry"}, {}, "retry"),
            ({KeyError: "kill"}, {}, "retry"),
            ({Exception: "kill", ValueError: "retry"}, {}, "retry"),
            ({Exception: "retry", ValueError: "kill"}, {}, "dead"),
        ],
    )
    def test_on_error_goes_by_the_nearest_class(self, rules, payload, target):
        assert decided(payload, Sub("boom"), on_error=rules).target == target

    def test_on_error_gives_seconds_before_retry_in_is_asked(self):
        heard = []

        decision = decided(
            {}, on_error={ValueError: 120}, retry_in=lambda *args: heard.append(args)
        )

        assert 120 <= decision.at - NOW <= 129
        assert heard == []

    def test_a_cleaner_shortens_the_backtrace(self):
        failed = failed_payload(
            {"backtrace": True},
            raised(outer, "boom"),
            queue="q",
            profile="7",
            cleaner=lambda lines: [f"shop {len(lines)}"],
            now=NOW,
        )
        [kept] = json.loads(zlib.decompress(base64.b64decode(failed["error_backtrace"])))
        assert kept.startswith("shop ")


class TestArgumentMismatch:
    @pytest.mark.parametrize("rules", [{}, {Exception: 60}, {KiqbridgeError: 60}])
    def test_the_job_is_dead_at_once_whatever_rules_there_are_for_all_errors(self, rules):
        decision = decided({"retry": True}, ArgumentMismatch("id: expected int"), on_error=rules)
        assert decision.target is Target.DEAD
        assert decision.payload["retry_count"] == 0
        assert decision.payload["error_class"] == "kiqbridge.errors.ArgumentMismatch"
        assert decision.payload["error_message"] == "id: expected int"

    def test_its_class_is_asked_whether_it_shall_be_kept(self):
        asked = []

        decision = decided(
            {"retry": True},
            ArgumentMismatch("id"),
            retries_exhausted=lambda payload, error: asked.append(type(error)) or "discard",
        )

        assert decision.target is Target.DISCARD
        assert asked == [ArgumentMismatch]

    def test_a_rule_of_its_own_counts(self):
        rules = {ArgumentMismatch: "retry", Exception: "kill"}

        decision = decided({"retry": True}, ArgumentMismatch("id"), on_error=rules)

        assert decision.target is Target.RETRY
