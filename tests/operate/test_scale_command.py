"""`kiqbridge scale`: what it shows, what JSON has, and what it refuses. It asks no server."""

import json

import pytest

from kiqbridge.commands import cli
from kiqbridge.sizing.fleet_plan import plan
from kiqbridge.sizing.workload import Limits, Prices, Workload

SHOP = ("scale", "--jobs-per-s", "5000", "--seconds", "0.2")


@pytest.fixture(autouse=True)
def no_server(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")


def test_it_shows_threads_processes_tasks_servers_and_cost(capsys):
    assert cli.main([*SHOP, "--bytes", "500"]) == 0

    rows = {line[:17].strip(): line for line in capsys.readouterr().out.splitlines()}
    found = plan(Workload(jobs_per_s=5000, seconds=0.2, bytes=500))
    assert f"{found.workers.slots:,} " in rows["threads"]
    assert f"-c {found.workers.slots_each};" in rows["processes"]
    assert f" {found.workers.tasks:,} " in rows["tasks"]
    assert f"{found.servers.memory_gib:g} GiB" in rows["server memory"]
    assert f"${found.workers_month:,.0f}" in rows["workers a month"]
    assert any(line.startswith("Prices are examples") for line in rows.values())


def test_json_has_the_plan_and_all_that_it_was_computed_from(capsys):
    assert cli.main([*SHOP, "--async", "--vcpu-hour", "0.1", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["workload"]["jobs_per_s"] == 5000
    assert found["workload"]["is_async"] is True
    assert found["prices"]["vcpu_hour"] == 0.1
    assert {"workers", "servers", "workers_month", "servers_month", "advice", "costs", "limits"} < found.keys()  # fmt: skip


def test_each_option_reaches_the_model(capsys):
    words = [
        "--bytes", "900", "--peak", "3", "--cpu-share", "0.5", "--bulk", "0.25", "--retried", "0.1", "--scheduled", "0.2",
        "--scheduled-s", "2h", "--backlog-s", "10m", "--task-vcpu", "2", "--app-mb", "300", "--server-gib", "16",
        "--max-clients", "5000", "--replicas", "0", "--gib-hour", "0.01", "--server-gib-hour", "0.03", "--vcpu-hour", "0.05",
    ]  # fmt: skip

    assert cli.main([*SHOP, *words, "--json"]) == 0

    workload = Workload(
        jobs_per_s=5000, seconds=0.2, bytes=900, peak=3, cpu_share=0.5, bulk=0.25, retried=0.1, scheduled=0.2,
        scheduled_s=7200, backlog_s=600,
    )  # fmt: skip
    limits = Limits(task_vcpu=2, app_mb=300, server_gib=16, max_clients=5000)
    prices = Prices(vcpu_hour=0.05, gib_hour=0.01, server_gib_hour=0.03, replicas=0)
    expected = plan(workload, limits=limits, prices=prices)
    found = json.loads(capsys.readouterr().out)
    assert found["workers_month"] == expected.workers_month
    assert found["servers_month"] == expected.servers_month
    assert found["servers"]["needed_for"] == expected.servers.needed_for


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--jobs-per-s", "0"), "'0' is no number above 0"),
        (("--jobs-per-s", "inf"), "'inf' is no number above 0"),
        (("--jobs-per-s", "many"), "'many' is no number above 0"),
        (("--cpu-share", "1.5"), "write 0 to 1"),
        (("--cpu-share", "nan"), "write 0 to 1"),
        (("--peak", "0.9"), "'0.9' is no number from 1"),
        (("--replicas", "-1"), "'-1' is no whole number"),
    ],
)
def test_a_number_that_cannot_be_is_refused(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([*SHOP, *words])

    assert ended.value.code == 2
    assert message in capsys.readouterr().err
