"""What a figure is worth without its settings: nothing. Machine, versions, and docs/explanation/benchmarks.md."""

import importlib.metadata
import platform
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.outcome import Outcome, as_markdown
from benchmarks.peers import describe
from benchmarks.stage import (
    ALL_CORES,
    SERVER_CORE,
    WORKER_CORE,
    Stage,
    bench_binaries,
    core,
    server_title,
)

import kiqbridge

TITLE = """\
# Benchmarks

<!-- Made by: make bench -->

Measured by `make bench` (`make bench-quick` takes two minutes, `make bench ARGS='noop retry'` a part). We and Sidekiq get the same queue at the same moment and run in turn, each round in a fresh process on an empty database. The figures are medians with the lowest and the highest in brackets; the ratio is that of the medians, ours by the first beside it.
"""


def settings(stage: Stage) -> str:
    """Date, machine, versions and cores, one a line."""
    return "\n".join(
        [
            f"date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            f"machine: {len(ALL_CORES)} cores of {_processor()}, {_memory_gb():.0f} GB, {platform.system()} {platform.machine()}",
            f"server: {_server(stage)}, on core {core(SERVER_CORE)}, nothing saved to disk",
            f"ours: kiqbridge {kiqbridge.__version__}, Python {platform.python_version()}, {_libraries()}, on core {core(WORKER_CORE)}; kiqbridge worker -c 10, reliable fetch: at least once; started by exec, in an environment with its own dependencies alone",
            f"Sidekiq: {_sidekiq(stage)}",
            *describe(stage.peers),
            f"rounds: {stage.sizes.rounds} of each, in turn",
        ]
    )


def write(path: Path, outcomes: Sequence[Outcome], told: str, run: str) -> None:
    """Replace the file by this run's table."""
    lines = "\n".join(f"- {line}" for line in told.splitlines())
    path.write_text(
        f"{TITLE}\n{lines}\n- run: {run}\n\n{as_markdown(outcomes)}\n", encoding="utf-8"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return "an unnamed processor"


def _memory_gb() -> float:
    first = Path("/proc/meminfo").read_text().splitlines()[0]
    return int(first.split()[1]) * 1024 / 1e9


def _server(stage: Stage) -> str:
    given = bench_binaries()
    origin = "given" if given else "Debian" if shutil.which("redis-server") else "embedded"
    return f"{server_title(stage.client)} ({origin})"


def _libraries() -> str:
    found = []
    for name in ("redis", "hiredis", "orjson", "uvloop"):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def _sidekiq(stage: Stage) -> str:
    if not stage.with_ruby:
        return "not measured (apt install ruby-sidekiq)"
    ruby = subprocess.run(
        ["ruby", "-r", "sidekiq", "-e", "puts %(#{Sidekiq::VERSION}, Ruby #{RUBY_VERSION})"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    return f"{ruby}, on core {core(WORKER_CORE)}; sidekiq -c 10, BRPOP: at most once; redis-rb's warnings at each call are silenced"
