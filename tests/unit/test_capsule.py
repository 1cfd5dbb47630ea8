"""What a capsule needs."""

import pytest
from support.engine import capsule_of

from kiqbridge.perform.capsule import OWN_CONNECTIONS, connections_of


@pytest.mark.parametrize("concurrency", [1, 25, 400])
def test_each_job_that_may_run_finds_a_connection_and_our_own_threads_do(concurrency):
    capsules = [
        capsule_of({"a": 0}, concurrency=concurrency),
        capsule_of({"b": 0}, concurrency=2, name="b"),
    ]

    jobs = sum(each.concurrency + each.async_concurrency for each in capsules)

    assert connections_of(capsules) >= max(jobs + OWN_CONNECTIONS, 16)
