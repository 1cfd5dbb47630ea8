"""The Metrics page's view of Redis, as protocol §12.4 describes the readers of Sidekiq 7 and 8.

Written from that section alone and checked against what their API read (vectors `readers.json`), so
that what we write can be read by something that is not our writer.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import redis as redis_py

BUCKETS = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A hash of counters: its key, its name in series, and that of the minute in histograms' keys."""

    key: str
    label: str
    minute: str


def minutes_7(now: float, count: int) -> Iterator[Bucket]:
    for at in map(time.gmtime, range(int(now), int(now) - 60 * count, -60)):
        yield Bucket(
            key=f"j|{at.tm_year}{at.tm_mon:02}{at.tm_mday:02}|{at.tm_hour}:{at.tm_min}",
            label=f"{at.tm_hour:02}:{at.tm_min:02}",
            minute=f"{at.tm_mday:02}-{at.tm_hour:02}:{at.tm_min}",
        )


def minutes_8(now: float, count: int) -> Iterator[Bucket]:
    for at in map(time.gmtime, range(int(now), int(now) - 60 * count, -60)):
        yield Bucket(
            key=f"j|{_day_8(at)}|{at.tm_hour}:{at.tm_min:02}",
            label=time.strftime("%Y-%m-%dT%H:%M:00Z", at),
            minute=f"{at.tm_mday}-{at.tm_hour}:{at.tm_min}",
        )


def ten_minutes_8(now: float, hours: int) -> Iterator[Bucket]:
    first = int(now) // 600 * 600
    for at in map(time.gmtime, range(first, first - 3600 * hours, -600)):
        yield Bucket(
            key=f"j|{_day_8(at)}|{at.tm_hour}:{at.tm_min // 10}",
            label=time.strftime("%Y-%m-%dT%H:%M:00Z", at),
            minute="",
        )


def _day_8(at: time.struct_time) -> str:
    return f"{at.tm_year % 100:02}{at.tm_mon:02}{at.tm_mday:02}"


def top_jobs(client: redis_py.Redis, buckets: Iterator[Bucket]) -> dict[str, Any]:
    """Class → totals and series, as the list of all jobs shows them."""
    jobs: dict[str, Any] = {}
    for bucket in buckets:
        for name, count in client.hgetall(bucket.key).items():
            # Like the readers: a name with a `|` of its own would be cut in the wrong place.
            job_class, field = name.decode().split("|")
            _add(jobs.setdefault(job_class, _empty()), field, bucket.label, int(count))
    return jobs


def for_job(
    client: redis_py.Redis, job_class: str, buckets: Iterator[Bucket], prefix: str
) -> dict[str, Any]:
    """Totals and histograms of one class; the last bucket is the shortest time, as it is charted."""
    job: dict[str, Any] = _empty()
    histograms: dict[str, list[int]] = {}
    for bucket in buckets:
        counts = client.hmget(bucket.key, [f"{job_class}|{field}" for field in ("ms", "p", "f")])
        for field, count in zip(("ms", "p", "f"), counts, strict=True):
            if count is not None:
                _add(job, field, bucket.label, int(count))
        key = f"{prefix}{job_class}-{bucket.minute}"
        if any(read := histogram(client, key)):
            histograms[bucket.label] = read[::-1]
    return {"totals": job["totals"], "hist": histograms}


def histogram(client: redis_py.Redis, key: str) -> list[int]:
    words = [word for index in range(BUCKETS) for word in ("GET", "u16", f"#{index}")]
    return client.execute_command("BITFIELD_RO", key, *words)


def average_ms(job: dict[str, Any]) -> float:
    return job["totals"]["ms"] / (job["totals"]["p"] - job["totals"]["f"])


def _empty() -> dict[str, Any]:
    return {"totals": {}, "series": {}}


def _add(job: dict[str, Any], field: str, label: str, count: int) -> None:
    # Seconds are kept beside milliseconds.
    amounts = {"ms": count, "s": count / 1000} if field == "ms" else {field: count}
    for name, amount in amounts.items():
        job["totals"][name] = job["totals"].get(name, 0) + amount
        series = job["series"].setdefault(name, {})
        series[label] = series.get(label, 0) + amount
