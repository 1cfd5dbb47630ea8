"""The two that perform the jobs, the real worker and Ruby Sidekiq, and the record of what they performed."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from support.ruby import RubySidekiq, has_ruby_sidekiq
from support.workers import WorkerProcess

ROOT = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "jobs"
PERFORMED = "e2e:performed"
CLASSES = {"Python": "Witness", "Ruby": "Billing::WitnessJob"}
QUEUES = {"Python": "default", "Ruby": "rails"}
PYTHON_QUEUES = ("default", "low", "mailers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Performers:
    """Who performs: "Python", and "Ruby" where it is installed."""

    names: tuple[str, ...]
    redis: redis.Redis
    processes: dict[str, Any]

    def performed(self, *, job_class: str = "", marker: str = "") -> list[dict[str, Any]]:
        """Jobs performed so far, in order: of this class, or with this first argument."""
        entries = [json.loads(text) for text in self.redis.lrange(PERFORMED, 0, -1)]
        return [
            entry
            for entry in entries
            if (not job_class or entry["class"] == job_class)
            and (not marker or entry["args"][:1] == [marker])
        ]


def job_for(performer: str, marker: str, **attributes: Any) -> dict[str, Any]:
    """A job that this performer will record."""
    return {
        "class": CLASSES[performer],
        "queue": QUEUES[performer],
        "args": [marker],
        **attributes,
    }


@contextmanager
def started_performers(redis_url: str, aws: Mapping[str, str]) -> Iterator[Performers]:
    """Start the worker, and Ruby's where it is installed.

    Args:
        redis_url: of the server with the queues.
        aws: the variables by which the worker reaches AWS.
    """
    with ExitStack() as stack:
        flags = ["-r", str(JOBS / "witness.py"), "-r", str(ROOT / "worker/jobs"), "-c", "5"]
        flags += [part for queue in PYTHON_QUEUES for part in ("-q", queue)]
        processes = {
            "Python": stack.enter_context(
                WorkerProcess(*flags, redis_url=redis_url, env=aws, cwd=ROOT)
            )
        }
        if has_ruby_sidekiq():
            jobs = (JOBS / "witness.rb").read_text(encoding="utf-8")
            processes["Ruby"] = stack.enter_context(
                RubySidekiq(jobs, redis_url, queues=[QUEUES["Ruby"]])
            )
        client = stack.enter_context(redis.Redis.from_url(redis_url, decode_responses=True))
        for process in processes.values():
            process.wait_ready(timeout_s=60)
        yield Performers(names=tuple(processes), redis=client, processes=processes)
