"""Debounced and throttled jobs in declarations: what is refused."""

import pytest

from kiqbridge.errors import ConfigError
from kiqbridge.flow import Debounce, Throttle


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Debounce(wait_s=float("inf")), "wait_s"),
        (lambda: Debounce(wait_s=5, max_wait_s=1), "less than wait_s"),
        (lambda: Throttle(limit=0, per_s=1), "limit 0"),
        (lambda: Throttle(limit=True, per_s=1), "limit True"),
        (lambda: Throttle(per_s="60"), "per_s"),
        (lambda: Throttle(per_s=60, over="wait"), "over"),
    ],
)
def test_a_wrong_rule_is_refused_with_what_is_allowed(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
