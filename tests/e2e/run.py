"""`make e2e`: the real template deployed to LocalStack, real deliveries, real workers.

    python tests/e2e/run.py [--keep] [WORD …]

Builds, deploys both stacks, lets every source deliver a job for Python and one for Ruby, freezes the server
for a while, updates and deletes the stacks. Ends with 0 if all worked that LocalStack can do. Takes three to
six minutes, never more than ten. Everything listens on 127.0.0.1 and ends with the run, also at Ctrl-C.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.life import delete_stacks, update_stack
from e2e.localstack import PYTHON, ROOT, LocalStack
from e2e.outage import OUTAGE, play_outage
from e2e.performers import QUEUES, started_performers
from e2e.project import build, lay_out
from e2e.report import HEAD, Line, summary
from e2e.rules import play_minute_rule, play_schedules
from e2e.sources import GAPS, HTTP_SOURCES, SOURCES, UNSERVED
from e2e.stacks import SAM, SOURCES_TEMPLATE, Stack
from e2e.stage import Source, Stage, play
from support.lambda_build import MACHINE
from support.processes import ChildProcess
from support.ruby import has_ruby_sidekiq
from support.servers import ServerProcess, embedded_server

LIMIT_S = 600
LOGS = ROOT / ".kiqbridge/e2e"
STACK_NAME = "kiqbridge-e2e"
ALLOWED_CLASSES = "Billing::*,Failing,Witness"
ALLOWED_QUEUES = f"{QUEUES['Ruby']},{UNSERVED}"
"""Besides those that the template names."""


class Ended(BaseException):
    """The run is over before its end; its text says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    for needed, target in ((PYTHON, ".venv-e2e/.e2e"), (SAM, ".venv-sam/.sam")):
        if not needed.exists():
            print(f"{needed} is missing: run `make e2e`, which makes it ({target}).")
            return 2
    end_in_time()
    began = time.monotonic()
    lines: list[Line] = []
    try:
        for line in run(options):
            print(line, flush=True)
            lines.append(line)
    except Ended as error:
        lines.append(Line(source="the run", outcome="FAILED", remark=str(error)))
    except AssertionError as error:
        lines.append(Line(source="the environment", outcome="FAILED", remark=str(error)))
    lines += [Line(source=name, outcome="gap", remark=why) for name, why in GAPS.items()]
    if not has_ruby_sidekiq():
        lines.append(
            Line(
                source="Ruby Sidekiq",
                outcome="FAILED",
                remark="not installed: apt install ruby-sidekiq",
            )
        )
    print(f"\nlogs: {LOGS.relative_to(ROOT)}\n{summary(lines, time.monotonic() - began)}")
    return 1 if any(line.outcome == "FAILED" for line in lines) else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sources", nargs="*", metavar="WORD", help="of the names of sources; default: all sources")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="wait for Ctrl-C before the stacks are deleted")  # fmt: skip
    return parser.parse_args(arguments)


def end_in_time() -> None:
    """After the time limit and at Ctrl-C or TERM everything that was started is ended, once."""

    def end(number: int, _frame: object) -> None:
        for each in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, lambda *_: None)
        raise Ended(
            f"not within {LIMIT_S} s"
            if number == signal.SIGALRM
            else f"ended by {signal.Signals(number).name}"
        )

    for each in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, end)
    signal.alarm(LIMIT_S)


def run(options: argparse.Namespace) -> Iterator[Line]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kiqbridge-e2e-")))
        say("building the layer and the function (make build)")
        template = build(lay_out(folder / "project"))
        say("starting the server, the worker, Ruby Sidekiq and LocalStack")
        server = stack.enter_context(embedded_server())
        cloud = stack.enter_context(start_localstack(folder / "localstack"))
        performers = stack.enter_context(started_performers(server.url, cloud.variables))
        stack.callback(save_logs, {"LocalStack": cloud, **performers.processes})
        cloud.wait_ready()
        say(f"sam deploy: template.yaml as {STACK_NAME}, and the stack of sources")
        ours, sources = deploy(cloud, template, server.url)
        stage = Stage(
            cloud=cloud,
            performers=performers,
            stack=ours.outputs(),
            resources={**sources.resources(), **ours.resources()},
        )
        stack.callback(save_function_log, stage)
        yield deployed_line(ours)
        yield deployed_line(sources)
        print(HEAD, flush=True)
        yield from deliveries(stage, server, options)
        if options.keep:
            wait_for_ctrl_c(cloud, server.url)
        yield update_stack(stage, ours)
        yield from delete_stacks(stage, ours, sources)


def start_localstack(folder: Path) -> LocalStack:
    folder.mkdir()
    return LocalStack(folder)


def deploy(cloud: LocalStack, template: Path, redis_url: str) -> tuple[Stack, Stack]:
    secret = cloud.client("secretsmanager").create_secret(
        Name=f"{STACK_NAME}-redis", SecretString=redis_url
    )
    ours = Stack(cloud=cloud, name=STACK_NAME, template=template)
    ours.deploy(
        RedisUrlSecretArn=secret["ARN"],
        Architecture=MACHINE,
        AllowedClasses=ALLOWED_CLASSES,
        AllowedQueues=ALLOWED_QUEUES,
        SampleSchedules="ENABLED",
        CreateAlarms="false",  # a nested stack, which LocalStack does not update
    )
    # A copy, since sam writes notes beside a template.
    copy = shutil.copy(SOURCES_TEMPLATE, template.parent)
    sources = Stack(cloud=cloud, name=f"{STACK_NAME}-sources", template=Path(copy))
    sources.deploy(FunctionArn=ours.outputs()["EnqueueFunctionArn"])
    return ours, sources


def deployed_line(stack: Stack) -> Line:
    return Line(
        source=f"stack {stack.name}",
        outcome="ok",
        remark=f"{len(stack.resources())} resources created",
    )


def deliveries(stage: Stage, server: ServerProcess, options: argparse.Namespace) -> Iterator[Line]:
    for source in chosen(SOURCES, options.sources):
        yield play(stage, source)
    if not options.sources:
        yield from play_schedules(stage)
        yield play_minute_rule(stage)
    if not options.sources or any(is_in(word, OUTAGE) for word in options.sources):
        yield play_outage(stage, server)
    for source in chosen(HTTP_SOURCES, options.sources):
        yield play(stage, source)


def chosen(sources: Sequence[Source], words: Sequence[str]) -> list[Source]:
    """Those with one of the words in their names; all without words."""
    return [
        source for source in sources if not words or any(is_in(word, source.name) for word in words)
    ]


def is_in(word: str, name: str) -> bool:
    return word.lower() in name.lower()


def wait_for_ctrl_c(cloud: LocalStack, redis_url: str) -> None:
    signal.alarm(0)
    exports = " ".join(f"{name}={value}" for name, value in cloud.variables.items())
    print(f"REDIS_URL={redis_url} {exports}\nCtrl-C ends it all.", flush=True)
    signal.pause()


def save_logs(processes: Mapping[str, ChildProcess]) -> None:
    """Keep what the processes printed, for whoever looks for a cause."""
    LOGS.mkdir(parents=True, exist_ok=True)
    for name, process in processes.items():
        (LOGS / f"{name}.log").write_text(process.output, encoding="utf-8")


def save_function_log(stage: Stage) -> None:
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / "function.log").write_text("\n".join(stage.function_log(0)), encoding="utf-8")


def say(what: str) -> None:
    print(f"-- {what}", flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main())
