"""The dashboard for Grafana and docs/reference/logging.md name the metrics that are exported, and no others."""

import json
import re
from pathlib import Path

from kiqbridge.features.telemetry.catalogue import METRICS

ROOT = Path(__file__).parents[3]
DASHBOARD = json.loads((ROOT / "infra" / "grafana" / "kiqbridge.json").read_text("utf-8"))
NOT_SHOWN = {
    "kiqbridge_jobs_enqueued",  # the sizes of the queues are shown one by one
    "kiqbridge_queue_paused",
    "kiqbridge_findings",  # their numbers are kiqbridge_problems
    "kiqbridge_class_recent_executions",
    "kiqbridge_worker_info",
    "kiqbridge_worker_concurrency",
    "kiqbridge_worker_quiet",
    "kiqbridge_worker_jobs_failed_total",  # shown by class
}
"""Metrics without a plot, so that one that is added is shown or named here."""


def exported():
    for metric in METRICS:
        yield metric.name
        if metric.kind == "histogram":
            yield from (f"{metric.name}_{part}" for part in ("bucket", "count", "sum"))


def expressions():
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_the_dashboard_plots_what_is_exported_and_all_that_matters():
    shown = {name for text in expressions() for name in re.findall(r"kiqbridge_\w+", text)}

    assert shown <= set(exported())
    plotted = {name.removesuffix("_bucket") for name in shown}
    assert {metric.name for metric in METRICS} - plotted == NOT_SHOWN


def test_labels_in_expressions_are_those_of_the_metrics():
    known = {label for metric in METRICS for label in metric.labels}

    for text in expressions():
        grouped = re.findall(r"by \(([^)]+)\)", text)
        matched = re.findall(r"(\w+)=~?\"", text)
        used = {name.strip() for group in grouped for name in group.split(",")} | set(matched)
        assert used <= known | {"job", "le"}, text


def test_counters_are_plotted_as_rates_and_gauges_as_they_are():
    counters = {metric.name for metric in METRICS if metric.kind != "gauge"}
    counters.remove("kiqbridge_worker_lost_threads_total")  # none is expected: its height matters

    for text in expressions():
        name = re.search(r"kiqbridge_\w+", text)[0].removesuffix("_bucket")
        assert ("rate(" in text) == (name in counters), text


def test_panels_do_not_lie_on_each_other_and_have_names():
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert all(panel["title"] for panel in DASHBOARD["panels"])
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)
