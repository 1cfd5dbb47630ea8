"""A real worker process that gets nothing but bad input, and a good job behind it."""

import json
from pathlib import Path

import pytest
from support.bad_payloads import UNREADABLE, members, objects, raw_of
from support.evidence import Evidence
from support.waiting import wait_until
from support.workers import WorkerProcess, find_identity

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[2]
JOBS = TESTS / "features" / "jobs_for_bad_input.py"
SETTINGS = """
concurrency: 3
concurency: 5
production:
  timout: 5
capsules:
  single: {concurrency: 1, queues: [single]}
"""


@pytest.fixture
def evidence(tmp_path):
    return Evidence(tmp_path)


def test_it_survives_all_of_it_at_once_and_runs_the_good_jobs(  # noqa: PLR0917 - fixtures
    redis, redis_url, evidence, client, tmp_path, tell
):
    settings = tmp_path / "kiqbridge.yml"
    settings.write_text(SETTINGS)
    texts = [*UNREADABLE.values()]
    for number, case in enumerate(objects()):
        pool = (b"Thread", b"Loop", b"Process")[number % 3]
        texts.append(case.text.replace(b"CLASS", pool))
    for number, text in enumerate(texts):
        redis.rpush(("queue:default", "queue:single")[number // 3 % 2], text)
    for case in members():
        redis.zadd("schedule", {case.text.replace(b"CLASS", b"Thread"): 1.0})
    signals = [b"", b"\xff\xfe\0", b"HUP", b"term", b"x" * 1_000_000]

    with WorkerProcess(
        "-r", str(JOBS), "-C", str(settings), "-q", "default", "-e", "production",
        redis_url=redis_url,
        env={"KIQBRIDGE_BEAT_S": "0.05", **evidence.env},
        python_path=[TESTS],
    ) as worker:  # fmt: skip
        worker.wait_ready()
        identity = find_identity(redis, worker.pid)
        redis.lpush(f"{identity}-signals", *signals)
        for name in ("Thread", "Loop", "Process"):
            for queue in ("default", "single"):
                mark = f"good {name} {queue}"
                client.push({"class": name, "args": [mark], "queue": queue})
                evidence.wait(mark, timeout_s=60)
        wait_until(lambda: not redis.exists(f"{identity}-signals"), 30)
        wait_until(lambda: not redis.zrangebyscore("schedule", "-inf", 2), 30)
        redis.lpush(f"{identity}-signals", "TERM")

        assert worker.wait() == 0

    said = worker.output
    assert "did you mean concurrency?" in said and "did you mean timeout?" in said
    assert said.count("unknown signal") == len(signals)
    assert not [line for line in said.splitlines() if "unknown signal" in line and len(line) > 500]
    assert "internal error" not in said and "the heartbeat failed" not in said
    # Each text is where it can be found: unreadable ones in dead, all others accounted for.
    dead = redis.zrange("dead", 0, -1)
    raws = [raw for raw in map(raw_of, dead) if raw is not None]
    # Besides them only due members that Ruby's pages could not show.
    scheduled = {case.text.replace(b"CLASS", b"Thread") for case in members()}
    assert sorted(raw for raw in raws if raw not in scheduled) == sorted(UNREADABLE.values())
    kept = {
        json.loads(text)["case"]
        for text in [*dead, *redis.zrange("retry", 0, -1)]
        if raw_of(text) is None
    }
    assert {case.name for case in objects() if case.fate in ("retry", "dead")} <= kept
    assert not redis.exists("queue:default", "queue:single")
    assert not redis.keys("kb:inflight*")
    tell(
        f"bad input: {len(texts)} texts, {len(members())} members and {len(signals)} signals at once"
    )
