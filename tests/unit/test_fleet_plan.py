"""The model of a fleet: its parts add up, more jobs never need less, and docs/scaling.md shows what it computes."""

import dataclasses
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.documents import ROOT

from kiqbridge.sizing.fleet_plan import data_bytes, engine_us, plan, process_jobs_per_s, server_us
from kiqbridge.sizing.workload import GIB, Costs, Limits, Prices, Workload

SHOP = Workload(jobs_per_s=5000, seconds=0.2)
PARTS = st.floats(0, 1)
WORKLOADS = st.builds(
    Workload,
    jobs_per_s=st.floats(0.01, 1e6),
    seconds=st.floats(0, 100),
    bytes=st.integers(0, 100_000),
    peak=st.floats(1, 10),
    cpu_share=PARTS,
    is_async=st.booleans(),
    bulk=PARTS,
    retried=PARTS,
    scheduled=PARTS,
)


def test_threads_follow_from_jobs_and_their_duration():
    found = plan(SHOP).workers

    in_peak = 5000 * 1.5 * 0.2
    assert found.slots == pytest.approx(in_peak / 0.8, rel=0.1)
    assert found.slots == found.slots_each * found.processes
    assert found.processes == found.task_processes * found.tasks


def test_processes_follow_from_what_python_is_kept_busy_with():
    idle = dataclasses.replace(SHOP, cpu_share=0.0)
    busy = dataclasses.replace(SHOP, cpu_share=1.0)

    assert plan(busy).workers.processes == math.ceil(plan(busy).workers.cores / 0.7)
    assert plan(busy).workers.slots_each < plan(idle).workers.slots_each


def test_coroutines_need_fewer_processes_than_threads_that_wait():
    waits = dataclasses.replace(SHOP, cpu_share=0.0, seconds=2.0)

    threads, coroutines = plan(waits), plan(dataclasses.replace(waits, is_async=True))

    assert coroutines.workers.processes < threads.workers.processes / 4
    assert f"they need {coroutines.workers.processes} processes" in threads.advice[-1]


def test_a_job_costs_the_server_its_push_its_claim_and_its_retries():
    costs = Costs(push_us=10, push_bulk_us=1, claim_short_us=2, claim_long_us=20, claim_async_us=5,
                  fail_us=30, promote_us=4)  # fmt: skip

    def us(**more):
        return server_us(
            Workload(**{"jobs_per_s": 1, "seconds": 0.001, "retried": 0, **more}), costs
        )

    assert us() == 10 + 2
    assert us(seconds=0.1) == 10 + 20
    assert us(seconds=0.1, is_async=True) == 10 + 5
    assert us(bulk=0.5) == 5.5 + 2
    assert us(retried=0.5) == 12 + 17
    assert us(scheduled=0.25) == 12 + 1


def test_servers_are_as_many_as_what_asks_for_most():
    limits = Limits(server_gib=10, max_clients=1000)
    needed = plan(dataclasses.replace(SHOP, jobs_per_s=40_000), limits=limits).servers

    assert needed.count == max(needed.needed_for.values()) > 1
    assert needed.core <= limits.server_share
    assert needed.data_gib <= limits.server_gib * limits.memory_share
    assert needed.connections <= limits.max_clients


def test_memory_holds_what_is_pushed_while_no_worker_runs():
    none = dataclasses.replace(SHOP, backlog_s=0, retried=0)
    hour = dataclasses.replace(SHOP, backlog_s=3600, retried=0)
    costs = Costs()

    held = data_bytes(hour, 0, costs) - data_bytes(none, 0, costs)

    assert held == 5000 * 3600 * (500 + costs.envelope_bytes + costs.list_bytes)


def test_a_month_costs_tasks_and_servers_with_replicas():
    prices = Prices(vcpu_hour=1, gib_hour=0, server_gib_hour=1, replicas=2, hours=10)

    found = plan(SHOP, prices=prices)

    assert found.workers_month == found.workers.tasks * 10
    assert found.servers_month == found.servers.count * found.servers.memory_gib * 3 * 10


@given(WORKLOADS)
def test_what_is_planned_carries_what_it_is_planned_for(workload):
    costs, limits = Costs(), Limits()
    found = plan(workload)
    workers, servers = found.workers, found.servers

    runs = workload.jobs_per_s * workload.peak * (1 + workload.retried)
    each = process_jobs_per_s(workload, workers.slots_each, costs)
    assert each * workers.processes >= runs * 0.999
    assert workers.slots_each <= (limits.async_jobs if workload.is_async else limits.threads)
    assert servers.core <= limits.server_share * 1.001
    assert servers.data_gib <= servers.memory_gib * limits.memory_share * 1.001
    assert servers.memory_gib >= 1
    assert workers.task_gib * GIB >= workers.task_processes * (costs.process_mb + limits.app_mb)
    assert found.workers_month > 0 < found.servers_month


@given(WORKLOADS, st.floats(1, 100))
def test_more_jobs_never_need_less(workload, factor):
    more = plan(dataclasses.replace(workload, jobs_per_s=workload.jobs_per_s * factor))
    fewer = plan(workload)

    assert more.workers.processes >= fewer.workers.processes
    assert more.servers.count >= fewer.servers.count
    assert more.workers_month >= fewer.workers_month


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"jobs_per_s": 0}, "there must be jobs"),
        ({"jobs_per_s": float("nan")}, "jobs_per_s is nan"),
        ({"seconds": -1}, "seconds is -1"),
        ({"cpu_share": 1.5}, "cpu_share is 1.5"),
        ({"peak": 0.5}, "a peak of at least 1"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(wrong, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Workload(**{"jobs_per_s": 1, "seconds": 1, **wrong})


NOOP = Workload(jobs_per_s=1, seconds=0)
SLEEP = Workload(jobs_per_s=1, seconds=0.01, cpu_share=0)
LONG = Workload(jobs_per_s=1, seconds=0.05, cpu_share=0)
COROUTINE = Workload(jobs_per_s=1, seconds=0.01, cpu_share=0, is_async=True)
CASES = {
    "no-op jobs, 10 threads, jobs/s": lambda: process_jobs_per_s(NOOP, 10, Costs()),
    "jobs that sleep 10 ms, 50 threads, jobs/s": lambda: process_jobs_per_s(SLEEP, 50, Costs()),
    "async jobs that sleep 10 ms, 500 at once, jobs/s": lambda: process_jobs_per_s(
        COROUTINE, 500, Costs()
    ),
    "worker CPU of a no-op job, µs": lambda: engine_us(NOOP, Costs()),
    "worker CPU of a job that sleeps 10 ms, µs": lambda: engine_us(SLEEP, Costs()),
    "worker CPU of a job that sleeps 50 ms, µs": lambda: engine_us(LONG, Costs()),
    "worker CPU of an async job, µs": lambda: engine_us(COROUTINE, Costs()),
    "bytes of a job with 500 bytes of arguments in a queue": lambda: (
        500 + Costs().envelope_bytes + Costs().list_bytes
    ),
    "the same in `schedule`": lambda: 500 + Costs().envelope_bytes + Costs().set_bytes,
    "connections of a worker with 10 threads": lambda: 10 + Costs().process_connections,
}


@pytest.fixture(scope="module")
def rows():
    text = (ROOT / "docs/scaling.md").read_text("utf-8")
    _, _, table = text.partition("| figure | model | measured | deviation |")
    lines = table.split("\n\n")[0].splitlines()[2:]
    return {cells[0]: cells[1:4] for line in lines if (cells := split(line))}


class TestBesideMeasurements:
    """The table of docs/scaling.md: what the model computes now, what was measured, and by how much it is off."""

    def test_the_table_has_each_case(self, rows):
        assert rows.keys() == CASES.keys()

    @pytest.mark.parametrize("name", CASES)
    def test_the_model_stands_there_as_it_computes(self, name, rows):
        assert number(rows[name][0]) == pytest.approx(CASES[name](), rel=0.01)

    @pytest.mark.parametrize("name", CASES)
    def test_the_deviation_is_that_of_the_row_and_bounded(self, name, rows):
        model, measured, deviation = map(number, rows[name])

        assert deviation == pytest.approx((model / measured - 1) * 100, abs=1)
        assert abs(deviation) <= 30


def split(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def number(text):
    return float(text.replace(",", "").replace("%", "").replace("+", ""))
