"""What a capsule needs."""

import pytest
from support.engine import capsule_of

from kiqbridge.client.middleware import Chain
from kiqbridge.config.merge import merge
from kiqbridge.perform.capsule import OWN_CONNECTIONS, capsules_of, connections_of


@pytest.mark.parametrize("concurrency", [1, 25, 400])
def test_each_job_that_may_run_finds_a_connection_and_our_own_threads_do(concurrency):
    capsules = [
        capsule_of({"a": 0}, concurrency=concurrency),
        capsule_of({"b": 0}, concurrency=2, name="b"),
    ]

    jobs = sum(each.concurrency + each.async_concurrency for each in capsules)

    assert connections_of(capsules) >= max(jobs + OWN_CONNECTIONS, 16)


def test_a_capsule_that_names_a_shard_is_run_by_its_processes_alone():
    shards = {name: {"url": f"redis://{name}/0", "queues": [name]} for name in ("mail", "rest")}
    capsules = {"slow": {"queues": ["mail"], "shard": "mail"}, "both": {"queues": ["rest"]}}
    config = merge(file={"shards": shards, "capsules": capsules}, environ={}, flags={})

    def names(shard):
        return [each.name for each in capsules_of(config.on_shard(shard), {}, Chain())]

    assert names("mail") == ["default", "slow", "both"]
    assert names("rest") == ["default", "both"]
