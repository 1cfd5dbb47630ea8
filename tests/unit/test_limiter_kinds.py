"""Limiters as they are declared: their numbers are checked before Redis is asked."""

import pytest

from kiqbridge import ConfigError
from kiqbridge.flow import limiter


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: limiter.concurrent("", 5), "name is not a text of 1 to 200"),
        (lambda: limiter.concurrent("a\nb", 5), "printable"),
        (lambda: limiter.concurrent("x" * 201, 5), "200"),
        (lambda: limiter.concurrent("erp", 0), "limit 0 is not a whole number of at least 1"),
        (lambda: limiter.concurrent("erp", 1.5), "limit 1.5 is not a whole number"),
        (lambda: limiter.concurrent("erp", True), "limit True"),
        (
            lambda: limiter.concurrent("erp", 5, lock_timeout_s=0),
            "lock_timeout_s 0 is not a number",
        ),
        (lambda: limiter.concurrent("erp", 5, wait_timeout_s=-1), "wait_timeout_s -1"),
        (lambda: limiter.concurrent("erp", 5, put_off_s=0), "put_off_s 0 is not a number above 0"),
        (lambda: limiter.concurrent("erp", 5, max_put_offs=-1), "max_put_offs -1"),
        (lambda: limiter.window("s", 5, per="fortnight"), "none of second, minute, hour, day"),
        (lambda: limiter.window("s", 5, per=0), "per 0 is not a number of at least 0.001"),
        (lambda: limiter.bucket("s", 5, per=float("inf")), "per inf"),
        (lambda: limiter.leaky("s", 0, per="second"), "size 0 is not a number above 0"),
        (lambda: limiter.points("s", 40, refill_per_s=0), "refill_per_s 0 is not a number above 0"),
        (lambda: limiter.points("s", "40", refill_per_s=1), "points '40' is not a number"),
        (
            lambda: limiter.points("s", 40, refill_per_s=1).within_limit(estimate=41),
            "estimate 41 is more than its 40 points",
        ),
    ],
)
def test_a_number_that_cannot_be_used_is_named(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("per", "seconds"), [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86400), (2.5, 2.5)]
)
def test_intervals_have_names_or_are_seconds(per, seconds):
    assert limiter.window("s", 5, per=per).interval_s == seconds
    assert limiter.leaky("s", 5, per=per).rate == 5 / seconds


def test_a_limiter_says_which_one_it_is():
    assert repr(limiter.points("shopify", 40, refill_per_s=2)) == "<limiter points shopify>"
