"""Measures of the enqueue function: its start, its layer, one event, and batches of messages."""

import json
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.environments import LAMBDA_PYTHON, Environment, of_lambda
from benchmarks.outcome import OURS, Outcome, at_least, at_most, median
from benchmarks.stage import WORKER_CORE, Stage, on_core
from support.enqueue_function import ENVIRONMENT, read_event
from support.lambda_build import Build, build_once
from support.lambda_runtime_api import LambdaProcess

WARM_CALLS = 50
BATCHES, BATCH = 100, 10
MB = 1_000_000

DEPLOYED = {
    **ENVIRONMENT,
    "KIQBRIDGE_NAMESPACE": "",
    "KIQBRIDGE_QUEUE_LIMITS": "",
    "KIQBRIDGE_SPILL_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/shop-spill",
    "KIQBRIDGE_STACK": "shop",
    "POWERTOOLS_LOG_LEVEL": "INFO",
    "POWERTOOLS_METRICS_NAMESPACE": "Kiqbridge",
    "POWERTOOLS_SERVICE_NAME": "shop-enqueue",
}
"""What template.yaml gives the function by its defaults, beside the address of Redis."""
del DEPLOYED["KIQBRIDGE_LOG_ARGUMENTS"]

WARM = """
import importlib.util, json, sys, time
import redis

spec = importlib.util.spec_from_file_location("app", sys.argv[1])
app = importlib.util.module_from_spec(spec)
spec.loader.exec_module(app)
given = json.loads(sys.stdin.read())
client = redis.Redis.from_url(given["url"])


class Context:
    aws_request_id = "8f5b8f0e-0f4a-4d57-9f1e-1c9f6c1f0a11"
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:enqueue"
    function_name = "enqueue"
    memory_limit_in_mb = "512"

    def get_remaining_time_in_millis(self):
        return 20_000


def p50_ms(call):
    took = []
    for _ in range(given["calls"]):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return sorted(took)[len(took) // 2] * 1000


def scripts():
    return client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)


app.lambda_handler(given["batches"].pop(), Context())
ping = p50_ms(client.ping)
one = p50_ms(lambda: app.lambda_handler(given["one"], Context()))
before = scripts()
began, cpu = time.perf_counter(), time.thread_time()
for batch in given["batches"]:
    app.lambda_handler(batch, Context())
took, cpu = time.perf_counter() - began, time.thread_time() - cpu
jobs = sum(len(batch["Records"]) for batch in given["batches"])
print()
print(json.dumps({
    "rate": jobs / took, "cpu_us": cpu / jobs * 1e6, "beside": one - ping, "one": one, "ping": ping,
    "trips": (scripts() - before) / len(given["batches"]),
}))
"""


def function(stage: Stage) -> list[Outcome]:
    """The enqueue function as `make build` makes it: import and first enqueue, then warm calls."""
    built, environment = _deployed(stage)
    event = read_event("direct_one")
    init: list[float] = []
    warm: list[float] = []

    def cold() -> float:
        with (
            on_core(WORKER_CORE),
            LambdaProcess(
                task=built.function,
                layer=built.layer,
                runtime_client=environment.site_packages,
                env={**DEPLOYED, "REDIS_URL": stage.server.url},
                python=(str(environment.python), LAMBDA_PYTHON),
            ) as process,
        ):
            init.append(process.wait_ready())
            took = init[-1] + process.invoke(event).ms
            warm.append(median([process.invoke(event).ms for _ in range(WARM_CALLS)]))
        return took

    starts = stage.sizes.lambda_starts
    samples = stage.rounds({OURS: cold}, starts)
    zipped = _zip_size(built.layer.parent, stage.folder / "layer.zip") / MB
    return [
        Outcome(
            what="Lambda: init, fresh process",
            unit="ms",
            samples={OURS: init},
            target="≤ 127 ms",
            met=at_most(median(init), 127),
            note=f"Python {LAMBDA_PYTHON}, built by make build with bytecode, all sources of events included, with "
            "the variables of template.yaml, under Lambda's own runtime client, whose start is counted",
        ),
        Outcome(
            what="Lambda: import and first enqueue, fresh process",
            unit="ms",
            samples=samples,
            target="≤ 250 ms",
            met=at_most(median(samples[OURS]), 250),
        ),
        Outcome(
            what="Lambda: warm invocation",
            unit="ms",
            samples={OURS: warm},
            target="≤ 2 ms",
            met=at_most(median(warm), 2),
            note=f"median of {WARM_CALLS} in each of {starts} processes, the runtime API's two HTTP calls counted",
        ),
        Outcome(
            what="Lambda: zip of the layer",
            unit="MB",
            samples={OURS: [zipped]},
            target="≤ 7 MB",
            met=at_most(zipped, 7),
        ),
    ]


def batches(stage: Stage) -> list[Outcome]:
    """A thousand messages of SQS in batches of ten, in one warm environment; and single events."""
    found: dict[str, list[float]] = {}

    def run() -> float:
        answer = _run(stage)
        for name, value in answer.items():
            found.setdefault(name, []).append(value)
        return answer["rate"]

    samples = stage.rounds({OURS: run})
    return [
        Outcome(
            what=f"Lambda: {BATCHES * BATCH:,} messages of SQS in batches of {BATCH}",
            unit="jobs/s",
            samples=samples,
            target="≥ 25,000/s",
            met=at_least(median(samples[OURS]), 25_000),
            note="one warm environment, the handler called directly, log lines and metrics written; "
            f"{median(found['cpu_us']):.0f} µs of CPU a job",
        ),
        Outcome(
            what=f"Lambda: round trips for a batch of {BATCH} messages",
            unit="commands",
            samples={OURS: found["trips"]},
            target="1",
            met=at_most(max(found["trips"]), 1),
        ),
        Outcome(
            what="Lambda: warm invocation with one job, p50, beside Redis's round trip",
            unit="ms",
            samples={OURS: found["beside"]},
            target="≤ 1 ms",
            met=at_most(median(found["beside"]), 1),
            note=f"{median(found['one']):.2f} ms in all; PING takes {median(found['ping']):.2f} ms",
        ),
    ]


def _run(stage: Stage) -> dict[str, float]:
    built, environment = _deployed(stage)
    with on_core(WORKER_CORE):
        done = subprocess.run(
            [str(environment.python), "-S", "-s", "-c", WARM, str(built.function / "app.py")],
            input=json.dumps(
                {
                    "url": stage.server.url,
                    "calls": WARM_CALLS,
                    "one": read_event("direct_one"),
                    "batches": [_batch(number * BATCH) for number in range(BATCHES + 1)],
                }
            ),
            env={**DEPLOYED, "REDIS_URL": stage.server.url, "PYTHONPATH": str(built.layer)},
            cwd=built.function,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _deployed(stage: Stage) -> tuple[Build, Environment]:
    """Layer and function as they are deployed, built once, and what stands for Lambda's Python."""
    environment = of_lambda()
    stage.progress.step("building layer and function")
    environment.install()
    return build_once(stage.folder / "function", python=LAMBDA_PYTHON), environment


def _batch(first: int) -> dict[str, object]:
    [message] = read_event("sqs_records")["Records"]
    return {
        "Records": [
            {
                **message,
                "messageId": f"059f36b4-87a3-44ab-83d2-{number:012}",
                "body": json.dumps(
                    {"class": "HealthPulse", "args": [number, "two", {"three": [4.0]}]}
                ),
            }
            for number in range(first, first + BATCH)
        ]
    }


def _zip_size(folder: Path, path: Path) -> int:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(folder.rglob("*")):
            archive.write(each, each.relative_to(folder))
    return path.stat().st_size


MEASURES: Sequence = (function, batches)
