"""The retry decision against a second reading of Sidekiq's rules (protocol §7.4, §8), made for this test.

The oracle takes the rules as the table and the list of §8 say them, step by step, and shares no line
with what it judges.
"""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.proving import sized

from kiqbridge.client.registry import Handling
from kiqbridge.engine.settle.retry import RetryPolicy, decide

NOW = 1_700_000_000.5
ABSENT = object()

RETRIES = st.one_of(
    st.just(ABSENT), st.none(), st.booleans(), st.integers(-2, 30), st.sampled_from(["no", [], 0.0])
)
COUNTS = st.one_of(st.just(ABSENT), st.none(), st.integers(-1, 30))
WINDOWS = st.one_of(st.just(ABSENT), st.none(), st.integers(1, 10_000))
AGES = st.integers(0, 20_000).map(lambda half: half + 0.25)  # never exactly the window
ANSWERS = st.sampled_from([None, 0, -5, 1, 90, 2.9, "discard", "kill", "later"])
EXHAUSTED = st.sampled_from([None, "discard", "kill", 7])


def oracle(payload, *, found, class_retry, max_retries, answer, exhausted_answer, age):
    """(fate, least delay, greatest delay) in Sidekiq's words; the delays of a retry alone."""
    # §7.4: which `retry` counts, by Ruby's idea of truth.
    retry = payload.get("retry")
    if retry is None:
        retry = class_retry if found else False
    if retry is None or retry is False:
        return "dropped", None
    # §8.1: the new count, and whether it is exhausted.
    former = payload.get("retry_count")
    count = 0 if former is None else former + 1
    limit = max_retries if retry is True or not isinstance(retry, int) else retry
    window = payload.get("retry_for")
    over = age > window if window and former is not None else (not window and count >= limit)
    if window and former is None:
        over = False  # the first failure opens the window
    # §8.3: what the class itself says, asked only while tries are left.
    own = answer if found and not over else None
    if own == "discard":
        return "dropped", None
    # §8.4: dead, unless somebody does not want it there.
    if over or own == "kill":
        unwanted = (found and exhausted_answer == "discard") or payload.get("dead") is False
        return ("dropped" if unwanted else "dead"), None
    # §8.2: count⁴ + 15, or the class' own seconds, and 0 to 9 times the number of tries.
    usual = max(count, 0) ** 4 + 15
    base = own if isinstance(own, int | float) and own > 0 else usual
    return "retried", (base, base + 9 * (max(count, 0) + 1))


class TestAgainstTheOracle:
    @settings(max_examples=sized(full=3000, sample=150), deadline=None)
    @given(
        retry=RETRIES, count=COUNTS, window=WINDOWS, age=AGES, dead=st.sampled_from([ABSENT, True, False, None]),
        found=st.booleans(), class_retry=st.one_of(st.booleans(), st.integers(0, 30)),
        max_retries=st.integers(0, 30), answer=ANSWERS, exhausted_answer=EXHAUSTED, seed=st.integers(0, 9999),
    )  # fmt: skip
    @example(
        retry=3, count=1, window=ABSENT, age=0.25, dead=ABSENT, found=True, class_retry=True,
        max_retries=25, answer=None, exhausted_answer=None, seed=0,
    )  # fmt: skip
    def test_every_decision_is_sidekiqs(  # noqa: PLR0917 - all that decides
        self, retry, count, window, age, dead, found, class_retry, max_retries, answer, exhausted_answer, seed
    ):  # fmt: skip
        given_ = {"retry": retry, "retry_count": count, "retry_for": window, "dead": dead}
        payload = {"class": "A", "args": []}
        payload |= {name: value for name, value in given_.items() if value is not ABSENT}
        if payload.get("retry_count") is not None:
            payload["failed_at"] = NOW - age

        rules = {"retry_in": lambda *_: answer, "retries_exhausted": lambda *_: exhausted_answer}
        decision = decide(
            payload,
            ValueError("boom"),
            queue="default",
            class_retry=class_retry if found else None,
            policy=RetryPolicy(max_retries=max_retries, profile="7"),
            now=NOW,
            rng=random.Random(seed),
            handling=Handling(**rules) if found else Handling(),
        )

        fate, delays = oracle(
            payload, found=found, class_retry=class_retry, max_retries=max_retries,
            answer=answer, exhausted_answer=exhausted_answer, age=age,
        )  # fmt: skip
        names = {"discard": "dropped", "dead": "dead", "retry": "retried"}
        assert names[decision.target] == fate
        if delays is not None:
            least, most = delays
            # Ours keeps the fraction of a class' own seconds, which Ruby cuts off.
            assert least - 1e-6 <= decision.at - NOW <= most + 1e-6


class TestNumbersWithoutEnd:
    """A score must be a number that Redis takes, whatever a payload or a class says."""

    @settings(deadline=None)
    @given(
        st.one_of(st.integers(), st.floats(allow_nan=False), st.just(10**400), st.just(1e300)),
        st.one_of(st.none(), st.just(10**400), st.just(float("inf")), st.floats(0, 1e308)),
    )
    def test_a_retry_is_due_at_a_time_that_has_a_score(self, count, seconds):
        decision = decide(
            {"retry": 10**400, "retry_count": count, "retry_for": 10**9, "failed_at": NOW},
            ValueError("boom"),
            queue="default",
            class_retry=True,
            policy=RetryPolicy(max_retries=25, profile="7"),
            now=NOW,
            rng=random.Random(1),
            handling=Handling(retry_in=lambda *_: seconds),
        )

        assert decision.target == "retry"
        assert NOW < decision.at <= NOW + 1_000_000_000
