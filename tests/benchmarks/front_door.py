"""Measures of the enqueue function: its start, its layer, one event, and batches of messages."""

import json
import subprocess
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.environments import LAMBDA_PYTHON, Environment, of_lambda
from benchmarks.outcome import OURS, Outcome, at_least, at_most, median, ratio
from benchmarks.stage import WORKER_CORE, Stage, on_core
from support.enqueue_function import ENVIRONMENT, read_event
from support.lambda_build import build_layer, build_once
from support.lambda_runtime_api import LambdaProcess

WARM_CALLS = 50
BATCHES, BATCH = 100, 10
MB = 1_000_000
BY_HAND = "by hand"

DEPLOYED = {
    **ENVIRONMENT,
    "KIQBRIDGE_NAMESPACE": "",
    "KIQBRIDGE_QUEUE_LIMITS": "",
    "KIQBRIDGE_SPILL_KEY_SECRET_ARN": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:spill-AbCdEf",
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


class Function(NamedTuple):
    """Its own folder, and what its layer unpacks to on the import path."""

    task: Path
    layer: Path


def function(stage: Stage) -> list[Outcome]:
    """The enqueue function as `make build` makes it: import and first enqueue, then warm calls."""
    environment, functions = _deployed(stage)
    event = read_event("direct_one")
    init: dict[str, list[float]] = {name: [] for name in functions}
    warm: dict[str, list[float]] = {name: [] for name in functions}

    def cold(name: str) -> float:
        with (
            on_core(WORKER_CORE),
            LambdaProcess(
                task=functions[name].task,
                layer=functions[name].layer,
                runtime_client=environment.site_packages,
                env={**DEPLOYED, "REDIS_URL": stage.server.url},
                python=(str(environment.python), LAMBDA_PYTHON),
            ) as process,
        ):
            init[name].append(process.wait_ready())
            took = init[name][-1] + process.invoke(event).ms
            warm[name].append(median([process.invoke(event).ms for _ in range(WARM_CALLS)]))
        return took

    starts = stage.sizes.lambda_starts
    samples = stage.rounds({name: partial(cold, name) for name in functions}, starts)
    zipped = {
        name: [_zip_size(each.layer.parent, stage.folder / "layer.zip") / MB]
        for name, each in functions.items()
    }
    return [
        Outcome(
            what="Lambda: init, fresh process",
            unit="ms",
            samples=init,
            target="≤ 1.0 x by hand",
            met=at_most(ratio(init, BY_HAND), 1.0),
            note=f"Python {LAMBDA_PYTHON}, built by make build with bytecode, all sources of events included, with "
            f"the variables of template.yaml, under Lambda's own runtime client, whose start is counted; {BY_HAND}: "
            "tests/benchmarks/by_hand, with redis-py and Powertools, built in the same way",
        ),
        Outcome(
            what="Lambda: import and first enqueue, fresh process",
            unit="ms",
            samples=samples,
            target="≤ 1.0 x by hand",
            met=at_most(ratio(samples, BY_HAND), 1.0),
            decides=True,
        ),
        Outcome(
            what="Lambda: warm invocation",
            unit="ms",
            samples=warm,
            target="≤ 1.1 x by hand",
            met=at_most(ratio(warm, BY_HAND), 1.1),
            note=f"median of {WARM_CALLS} in each of {starts} processes, the runtime API's two HTTP calls counted",
        ),
        Outcome(
            what="Lambda: zip of the layer",
            unit="MB",
            samples=zipped,
            target="≤ 5.5 MB",
            met=at_most(median(zipped[OURS]), 5.5),
        ),
    ]


def batches(stage: Stage) -> list[Outcome]:
    """A thousand messages of SQS in batches of ten, in one warm environment; and single events."""
    environment, functions = _deployed(stage)
    found: dict[str, dict[str, list[float]]] = {}

    def run(name: str) -> float:
        answer = _run(stage, environment, functions[name])
        for figure, value in answer.items():
            found.setdefault(figure, {}).setdefault(name, []).append(value)
        return answer["rate"]

    samples = stage.rounds({name: partial(run, name) for name in functions})
    return [
        Outcome(
            what=f"Lambda: {BATCHES * BATCH:,} messages of SQS in batches of {BATCH}",
            unit="jobs/s",
            samples=samples,
            target="≥ 25,000/s",
            met=at_least(median(samples[OURS]), 25_000),
            note="one warm environment, the handler called directly, log lines and metrics written",
        ),
        Outcome(
            what=f"Lambda: CPU of a job in batches of {BATCH}",
            unit="µs",
            samples=found["cpu_us"],
            target="≤ 1.0 x by hand",
            met=at_most(ratio(found["cpu_us"], BY_HAND), 1.0),
        ),
        Outcome(
            what=f"Lambda: round trips for a batch of {BATCH} messages",
            unit="commands",
            samples={OURS: found["trips"][OURS]},
            target="1",
            met=at_most(max(found["trips"][OURS]), 1),
        ),
        Outcome(
            what="Lambda: warm invocation with one job, p50, beside Redis's round trip",
            unit="ms",
            samples=found["beside"],
            target="≤ 1 ms",
            met=at_most(median(found["beside"][OURS]), 1),
            note=f"{median(found['one'][OURS]):.2f} ms in all; PING takes {median(found['ping'][OURS]):.2f} ms",
        ),
    ]


def _run(stage: Stage, environment: Environment, function: Function) -> dict[str, float]:
    with on_core(WORKER_CORE):
        done = subprocess.run(
            [str(environment.python), "-S", "-s", "-c", WARM, str(function.task / "app.py")],
            input=json.dumps(
                {
                    "url": stage.server.url,
                    "calls": WARM_CALLS,
                    "one": read_event("direct_one"),
                    "batches": [_batch(number * BATCH) for number in range(BATCHES + 1)],
                }
            ),
            env={**DEPLOYED, "REDIS_URL": stage.server.url, "PYTHONPATH": str(function.layer)},
            cwd=function.task,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _deployed(stage: Stage) -> tuple[Environment, dict[str, Function]]:
    """What stands for Lambda's Python; ours as it is deployed, and the one by hand, each built once."""
    environment = of_lambda()
    stage.progress.step("building layers and functions")
    environment.install()
    ours = build_once(stage.folder / "function", python=LAMBDA_PYTHON)
    by_hand = build_layer(
        stage.folder / "by_hand",
        ("redis[hiredis]", "aws-lambda-powertools"),
        python=LAMBDA_PYTHON,
    )
    return environment, {
        OURS: Function(ours.function, ours.layer),
        BY_HAND: Function(Path(__file__).with_name("by_hand"), by_hand),
    }


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
