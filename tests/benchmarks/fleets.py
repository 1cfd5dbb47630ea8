"""Measures of large fleets: what a thousand idle processes cost a server, and what a deploy of hundreds asks of it.

Fleets of more than one process are simulated: the real code of many incarnations in a few processes (crowd.py).
"""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from benchmarks.idle import THREE_QUEUES, another_server
from benchmarks.outcome import OURS, Outcome, at_most, median
from benchmarks.sides import NOOP, ours, running
from benchmarks.sizes import FULL
from benchmarks.stage import Stage, on_core
from support.servers import ServerProcess

from kiqbridge import Client
from kiqbridge.engine.inflight.lease import LeaseTimes

ROOT = Path(__file__).parents[2]
CROWD = Path(__file__).with_name("crowd.py")
PICTURE = ROOT / "docs" / "images" / "deploy.svg"
PER_CROWD = 250
"""Incarnations in one process of the operating system."""

BOUND_S = 30
"""The default of KIQBRIDGE_RECOVER_AFTER_S."""

BIN_S = 1.0
SAMPLE_S = 0.25


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process of a fleet costs a server in a second."""

    commands: float
    bytes: float
    cpu_us: float
    connections: float
    beats: float
    """Share of the beats that were due: a machine that is too busy to run the fleet shows fewer."""


class Crowd:
    """So many simulated processes; see crowd.py."""

    def __init__(self, server: ServerProcess, count: int) -> None:
        shares = [PER_CROWD] * (count // PER_CROWD) + [count % PER_CROWD]
        with on_core(None):
            self._processes = [
                subprocess.Popen(
                    [sys.executable, str(CROWD), server.url, str(share), *THREE_QUEUES],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for share in shares
                if share
            ]
        self._heard("made")

    def order(self, what: str) -> None:
        """`start` or `stop`; returns when all have done it."""
        for process in self._processes:
            assert process.stdin
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
        self._heard(what)

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def _heard(self, what: str) -> None:
        for process in self._processes:
            assert process.stdout
            line = process.stdout.readline().strip()
            if line != what:
                raise AssertionError(f"a simulated fleet has ended at {what!r}: {line!r}")


@contextlib.contextmanager
def crowd_of(server: ServerProcess, count: int) -> Iterator[Crowd]:
    crowd = Crowd(server, count)
    try:
        yield crowd
    finally:
        crowd.end()


def idle_fleet(stage: Stage) -> list[Outcome]:
    """What an idle process costs the server, alone and among many."""
    costs = {count: _cost_of(stage, count) for count in stage.sizes.idle_fleets}
    largest = max(costs)
    outcomes = [
        Outcome(
            what=f"{count:,} idle processes: server CPU for each",
            unit="µs a second",
            samples={OURS: [cost.cpu_us]},
            target="reported",
            note=(
                f"{cost.commands:.2f} commands/s, those inside scripts counted, {cost.bytes:.0f} bytes/s, "
                f"{cost.connections:.1f} connections for each process, {cost.beats:.0%} of the beats that were due"
                + ("; the leader's work included" if count == 1 else "")
            ),
        )
        for count, cost in costs.items()
    ]
    share = costs[largest].cpu_us / costs[largest].beats * largest / 10_000
    outcomes.append(
        Outcome(
            what=f"extrapolated: {largest:,} idle processes together, one core of the server",
            unit="%",
            samples={OURS: [share]},
            target="≤ 5% at 1,000",
            met=at_most(share, 5) if largest >= 1000 else None,
            note=(
                "what the server uses without any process is left out; for all beats that were due"
            ),
        )
    )
    return outcomes


def _cost_of(stage: Stage, count: int) -> Cost:
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(another_server(stage))
        seconds = stage.sizes.idle_fleet_s
        stage.progress.step("a server alone")
        alone = _watch(place.client, seconds / 3)[2]
        stage.progress.step(f"starting {count:,} processes")
        if count == 1:
            stack.enter_context(running(ours, place, NOOP))
        else:
            stack.enter_context(crowd_of(place.server, count)).order("start")
        stage.progress.step("settling")
        time.sleep(min(seconds, 25))  # connections that the start opened are closed when they idle
        connections = len(place.client.client_list()) - 1
        stage.progress.step(f"{count:,} processes idle for {seconds:.0f} s")
        beats = _beats(place.client)
        commands, size, cpu = _watch(place.client, seconds)
        beats = (_beats(place.client) - beats) / seconds
    return Cost(
        commands=commands / count,
        bytes=size / count,
        cpu_us=max(cpu - alone, 0.0) * 1_000_000 / count,
        connections=connections / count,
        beats=min(max(beats / count * LeaseTimes(BOUND_S).beat_every, 0.01), 1.0),
    )


def _beats(client: redis.Redis) -> int:
    """Signs of life of all leases so far."""
    signs = client.hvals("kb:alive")
    return sum(int(sign.split()[0]) for sign in signs)


def _watch(client: redis.Redis, seconds: float) -> tuple[float, float, float]:
    """Commands, bytes both ways, and CPU seconds of the server in each second."""
    before, began = client.info(), time.perf_counter()
    time.sleep(seconds)  # doing nothing for so long is what is measured
    after, elapsed = client.info(), time.perf_counter() - began

    def grown(*names: str) -> float:
        return sum(float(after[name]) - float(before[name]) for name in names) / elapsed

    return (
        grown("total_commands_processed"),
        grown("total_net_input_bytes", "total_net_output_bytes"),
        grown("used_cpu_user", "used_cpu_sys"),
    )


def deploy(stage: Stage) -> list[Outcome]:
    """All processes of a fleet are replaced at once, under load: commands in each second."""
    sizes = stage.sizes
    count, normal_s = sizes.deploy, sizes.deploy_normal_s
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(another_server(stage))
        stage.progress.step(f"starting {count} processes")
        old = stack.enter_context(crowd_of(place.server, count))
        new = stack.enter_context(crowd_of(place.server, count))
        old.order("start")
        load = stack.enter_context(_load(place, jobs_per_s=count))
        time.sleep(normal_s / 2)  # the start is not what is measured
        series = stack.enter_context(_sampled(place.client))
        began = time.perf_counter()
        stage.progress.step("the normal load")
        time.sleep(normal_s)  # so long a load is what the deploy is compared with
        replaced = time.perf_counter()
        stage.progress.step(f"replacing {count} processes")
        new.order("start")
        started = time.perf_counter()
        old.order("stop")
        stopped = time.perf_counter()
        time.sleep(normal_s)  # what comes after the deploy is measured as well
        load.set()
        new.order("stop")
        held = place.left()[1]
        registered = place.client.scard("kb:inflight")
    rates = _rates(series, began, stopped + normal_s)
    normal = median([rate for at, rate in rates if at < replaced - began])
    peak = max(rate for at, rate in rates if at >= replaced - began - BIN_S)
    marks = {"new ones start": replaced - began, "old ones stop": started - began}
    if sizes is FULL:
        picture = as_svg(
            rates, normal=normal, marks=marks, title=f"{count} processes replaced at once"
        )
        PICTURE.write_text(picture, encoding="utf-8")
    return [
        Outcome(
            what=f"{count} processes replaced at once: most commands in a second",
            unit="x the normal",
            samples={OURS: [peak / normal]},
            target="≤ 3 x",
            met=at_most(peak / normal, 3),
            note=(
                f"{count} jobs/s of 10 ms; normal {normal:,.0f} commands/s, those inside scripts counted, peak "
                f"{peak:,.0f}; the new ones started within {started - replaced:.1f} s, the old ones ended within "
                f"{stopped - started:.1f} s; left in flight {held}, registered {registered}"
            ),
        )
    ]


@contextlib.contextmanager
def _load(stage: Stage, *, jobs_per_s: int) -> Iterator[threading.Event]:
    """Pushes by the clock until the event is set."""
    is_over, client = threading.Event(), Client(stage.server.url)

    def push() -> None:
        began, number = time.perf_counter(), 0
        while not is_over.wait(max(began + number / jobs_per_s - time.perf_counter(), 0)):
            client.push({"class": "ShortJob", "args": [], "queue": "default"})
            number += 1

    thread = threading.Thread(target=push, daemon=True)
    thread.start()
    try:
        yield is_over
    finally:
        is_over.set()
        thread.join()
        client.close()


@contextlib.contextmanager
def _sampled(client: redis.Redis) -> Iterator[list[tuple[float, int]]]:
    """When, and how many commands the server had processed by then."""
    samples: list[tuple[float, int]] = []
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(SAMPLE_S):
            info: dict[str, Any] = client.info("stats")
            samples.append((time.perf_counter(), info["total_commands_processed"]))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


def _rates(
    samples: Sequence[tuple[float, int]], began: float, until: float
) -> list[tuple[float, float]]:
    """Seconds since the beginning, and commands a second over the `BIN_S` before."""
    rates = []
    for at, count in samples:
        before = [each for each in samples if each[0] <= at - BIN_S]
        if before and began + BIN_S <= at <= until:
            rates.append((at - began, (count - before[-1][1]) / (at - before[-1][0])))
    return rates


def as_svg(
    rates: Sequence[tuple[float, float]],
    *,
    normal: float,
    marks: dict[str, float],
    title: str,
) -> str:
    """The rates as a picture, with three times the normal as a line."""
    width, height, left, bottom = 720, 260, 60, 40
    most_s = max(at for at, _ in rates)
    most = max(*(rate for _, rate in rates), normal * 3) * 1.1

    def x(at: float) -> float:
        return left + at / most_s * (width - left - 20)

    def y(rate: float) -> float:
        return height - bottom - rate / most * (height - bottom - 30)

    line = " ".join(f"{x(at):.1f},{y(rate):.1f}" for at, rate in rates)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="18">{title}: commands in each second</text>',
    ]
    for text, rate in {"normal": normal, "3 x": normal * 3, "0": 0.0}.items():
        parts += [
            f'<line x1="{left}" y1="{y(rate):.1f}" x2="{width - 20}" y2="{y(rate):.1f}" stroke="#cccccc"/>',
            f'<text x="4" y="{y(rate) + 4:.1f}">{text}</text>',
        ]
    for text, at in marks.items():
        parts += [
            f'<line x1="{x(at):.1f}" y1="30" x2="{x(at):.1f}" y2="{height - bottom}" stroke="#999999" stroke-dasharray="4"/>',
            f'<text x="{x(at) + 4:.1f}" y="{40 if text.startswith("new") else 56}">{text}</text>',
        ]
    parts += [
        f'<polyline points="{line}" fill="none" stroke="#b1003e" stroke-width="2"/>',
        f'<text x="{left}" y="{height - 10}">0 s</text>',
        f'<text x="{width - 60}" y="{height - 10}">{most_s:.0f} s</text>',
        f'<text x="{left + 120}" y="{height - 10}">normal: {normal:,.0f} commands/s</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


MEASURES: Sequence = (idle_fleet, deploy)
