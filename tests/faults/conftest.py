"""The fleet of the fault tests."""

import pytest
from support.fleet import Fleet


@pytest.fixture
def fleet(redis_url, tmp_path):
    """Worker processes whose jobs mark what they do."""
    with Fleet(redis_url, tmp_path) as fleet:
        yield fleet
