"""The wheel, for the tests of what is made of it."""

import pytest
from support.distribution import Distribution, make_once


@pytest.fixture(scope="session")
def distribution(tmp_path_factory, worker_id) -> Distribution:
    """One for all test processes of this run."""
    own = tmp_path_factory.getbasetemp()
    return make_once((own if worker_id == "master" else own.parent) / "dist")
