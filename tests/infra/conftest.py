"""The wheel, for the tests of what is made of it."""

import pytest
from support.distribution import Distribution, make_once


@pytest.fixture(scope="session")
def distribution(folder_of_run) -> Distribution:
    """One for all test processes of this run."""
    return make_once(folder_of_run / "dist")
