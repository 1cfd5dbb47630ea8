"""What a figure is worth without its settings: nothing. Machine and versions, and the results as they are stored."""

import importlib.metadata
import json
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.outcome import RUBY, Outcome
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

RESULTS = Path(__file__).with_name("results.json")
"""Of the last full run, with what was measured anew since: docs/explanation/benchmarks.md is made of it."""


def load() -> tuple[list[str], list[Outcome]]:
    """Settings and outcomes, as stored."""
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    return stored["settings"], [Outcome(**each) for each in stored["outcomes"]]


def store(settings: Sequence[str], outcomes: Sequence[Outcome]) -> None:
    """Replace what is stored; a line for each outcome."""
    lines = ",\n".join(json.dumps(asdict(each), ensure_ascii=False) for each in outcomes)
    head = json.dumps(list(settings), ensure_ascii=False, indent=1)
    RESULTS.write_text(f'{{"settings": {head},\n"outcomes": [\n{lines}\n]}}\n', encoding="utf-8")


def settings(stage: Stage) -> list[str]:
    """Machine, versions and cores."""
    return [
        f"machine: {len(ALL_CORES)} cores of {_processor()}, {_memory_gb():.0f} GB, {platform.system()} {platform.machine()}",
        f"server: {_server(stage)}, on core {core(SERVER_CORE)}, nothing saved to disk",
        f"ours: kiqbridge {kiqbridge.__version__}, Python {platform.python_version()}, {_libraries()}, on core {core(WORKER_CORE)}; kiqbridge worker -c 10, reliable fetch: at least once; started by exec, in an environment with its own dependencies alone",
        *_sidekiqs(stage),
        *describe(stage.peers),
        f"rounds: {stage.sizes.rounds} of each, in turn",
    ]


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


def _sidekiqs(stage: Stage) -> list[str]:
    if not stage.rubies:
        return [f"{RUBY}: not measured (apt install ruby-sidekiq)"]
    ask = ["ruby", "-r", "sidekiq", "-e", "puts %(#{Sidekiq::VERSION}, Ruby #{RUBY_VERSION})"]
    versions = {
        name: subprocess.run([*ruby, *ask], capture_output=True, text=True, check=True).stdout
        for name, ruby in stage.rubies.items()
    }
    return [
        f"{name}: {version.strip()}, on core {core(WORKER_CORE)}; sidekiq -c 10, BRPOP: at most once"
        + ("; redis-rb's warnings at each call are silenced" if name == RUBY else "; Debian 13's")
        for name, version in versions.items()
    ]
