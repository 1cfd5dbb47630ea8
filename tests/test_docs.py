"""What the documents say is so: their commands and snippets run, what they name exists.

Each block of README.md and docs/ is run by the test of its language, and each shell command by its
function in `COMMANDS`; what cannot run stands in `ONLY_READ` with the reason. Others fail.
"""

import ast
import collections
import functools
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import botocore.session
import cfnlint.api
import pytest
import yaml
from botocore import xform_name
from cfnlint.config import ManualArgs
from support.documents import ALL_SETTINGS, ROOT, Block, Command, blocks, documents, prose, quoted
from support.enqueue_function import Context, load_app
from support.processes import ChildProcess, ran
from support.project import lay_out
from support.ruby import has_web_ui
from support.waiting import PATIENT_S
from support.web_ui import APP as WEB_UI
from support.workers import WorkerProcess

from kiqbridge import errors, seams
from kiqbridge.client.declaration import JobDeclaration
from kiqbridge.commands.cli import build_parser
from kiqbridge.config import settings_file
from kiqbridge.config.config import SETTINGS
from kiqbridge.config.merge import merge
from kiqbridge.features.mappings.check import main as check_mappings
from kiqbridge.schedule.check import allow_list_problems
from kiqbridge.schedule.template import read_schedules
from kiqbridge.web.context import TABS
from kiqbridge.wire.options import PushOptions

BLOCKS = [block for block in blocks() if not block.document.startswith("docs/tutorial/")]
"""Without those that tests/features/test_tutorial.py plays."""
ONLY_READ = {
    "make test": "it would run these tests within themselves",
    "make test-all": "it would run these tests within themselves",
    "make deploy": "needs an AWS account",
    "make e2e": "it needs LocalStack, and minutes",
    "make check": "it runs beside these tests",
    "make site": "tests/test_site.py builds it",
    "make build": "tests/infra/test_init.py runs it",
    "make docs": "tests of their own compare what it writes",
    "make dist": "tests/infra/test_dist.py runs it",
    "make capture": "it needs the package index, and minutes",
    "aws": "needs an AWS account",
    "sam": "needs an AWS account",
    "kiqbridge spill": "needs a queue of an AWS account; tests/features/spill/test_replay.py has one",
    "python manage.py": "it needs a project; tests/features/process_pool/test_django_worker.py has one",
    "docker": "there is no container engine where this project is tested",
    "useradd": "it would change this machine",
    "install": "it would change this machine",
    "systemctl": "it would change this machine",
}
"""Commands, or programs, of which only what stands there is checked, and why they do not run."""
PICTURES = {"", "text"}
"""Languages of blocks that show something and run nowhere."""
RUBY_ONLY_QUEUE = "rails"
"""Of the README's jobs whose code lives in Ruby: they stay where they are."""
OPTIONS_OF_EVERY_AWS_COMMAND = {
    "--query",
    "--output",
    "--cli-binary-format",
    "--endpoint-url",
    "--no-sign-request",
    "--region",
}
FILES_OF_USERS = {
    "config/kiqbridge.yml",
    "config/schedule.rb",
    "config/schedule.yml",
    "config/sidekiq.yml",
    "config/sidekiq.yml.erb",
    "shop/jobs.py",
    "shop/settings_of_jobs.py",
    "shop/settings_of_tasks.py",
    "worker/jobs/greeting.py",
    "jobs/greeting.py",
    "lambdas/requirements.txt",
}
MADE_BY_RUNS = {".kiqbridge", ".aws-sam"}
"""Folders that are not ours to have: `make up`, `make e2e` and `make build` write them."""
EVENT_MAPPING = (
    "mappings: [{match: {source: bus}, class: HealthPulse, args: [detail.object.key]}]\n"
)
SOURCE_PAGES = "docs/reference/sources/"
"""tests/features/test_source_pages.py runs their events and mappings."""
NAMES_OF_OTHERS = {
    "KIQBRIDGE_BENCH_SERVER",
    "KIQBRIDGE_ENQUEUES",
    "KIQBRIDGE_TEST_SERVER",
    "KIQBRIDGE_PROVE",
    "KIQBRIDGE_SCREENSHOTS",
    "--disable-gil",
    "--source-account",
    "--update",
}


class Project:
    """A copy of what ships, with the files that the README tells to write."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder = folder
        self.redis_url = redis_url
        self.template = lay_out(folder)
        shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
        for block in BLOCKS:
            path = file_of(block)
            if path is not None:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(block.text, encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        return {"REDIS_URL": self.redis_url, "PYTHONPATH": str(self.folder / "worker/jobs")}

    def run(self, arguments: list[str]) -> str:
        """Run our Python in it and return what it printed."""
        result = subprocess.run(
            [sys.executable, "-W", "error", *arguments],
            env=os.environ | self.environment,
            cwd=self.folder,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENT_S,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def command(self, *words: str) -> str:
        """Run `kiqbridge *words` in it and return what it printed."""
        code, output = ran(*words, env=self.environment, cwd=self.folder)
        assert code == 0, output
        return output


@pytest.fixture
def project(tmp_path, redis_url) -> Project:
    return Project(tmp_path, redis_url)


def of_language(*languages: str) -> pytest.MarkDecorator:
    found = [
        block
        for block in BLOCKS
        if block.language in languages and not block.document.startswith(SOURCE_PAGES)
    ]
    return pytest.mark.parametrize("block", found, ids=str)


def file_of(block: Block) -> str | None:
    """The path in the first line of a block that is a file: `# worker/jobs/greeting.py`."""
    found = re.match(r"# (\S+/\S+\.py)\n", block.text)
    return found[1] if found and block.language == "python" else None


def test_every_block_is_of_a_language_that_is_run_or_a_picture():
    run = {"python", "sh", "yaml", "json"}
    assert [str(block) for block in BLOCKS if block.language not in run | PICTURES] == []


def test_every_command_is_known():
    shell = [block for block in BLOCKS if is_shell(block)]
    names = {command.name for block in shell for command in block.commands if command.words}
    unknown = [name for name in names if runner(name) is None]
    assert unknown == [], "write a function for it into COMMANDS"
    programs = {name.split(" ", maxsplit=1)[0] for name in names}
    assert ONLY_READ.keys() - names - programs == set(), "no document has them any more"


@pytest.mark.slow
@of_language("python")
def test_a_python_snippet_runs_in_a_fresh_interpreter(block, project):
    project.run([file_of(block) or "-c", *([] if file_of(block) else [block.text])])


@pytest.mark.slow
def test_the_python_snippets_of_the_documents_are_typed_right(tmp_path):
    """As a user's own checker reads them; a name that another snippet declares is unknown here."""
    for number, block in enumerate(blocks()):
        if block.language == "python":
            (tmp_path / f"snippet_{number}.py").write_text(f"# {block}\n{block.text}")

    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--check-untyped-defs",
            "--disallow-any-generics",
            "--cache-dir",
            tmp_path / "cache",
            tmp_path,
        ],
        env={**os.environ, "MYPYPATH": str(ROOT / "worker")},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    errors = [line for line in result.stdout.splitlines() if ": error: " in line]

    assert "[syntax]" not in result.stdout
    assert [
        line
        for line in errors
        if not re.search(r"\[(name-defined|import-not-found|import-untyped)\]$", line)
    ] == []


def test_the_readmes_jobs_are_enqueued_by_its_snippets_and_performed_by_its_worker(project, redis):
    readme = [block for block in BLOCKS if block.document == "README.md"]
    [command] = [
        command
        for block in readme
        if is_shell(block)
        for command in block.commands
        if command.name == "kiqbridge worker"
    ]
    for block in readme:
        if block.language == "python" and file_of(block) is None:
            project.run(["-c", block.text])
    [scheduled] = redis.zrange("schedule", 0, -1)
    assert b'"class":"Greeting"' in scheduled

    queues = [name.decode() for name in redis.smembers("queues")]
    waiting = {name: redis.llen(f"queue:{name}") for name in queues}
    assert waiting.pop(RUBY_ONLY_QUEUE) == 2

    with WorkerProcess(
        *command.words[2:], redis_url=project.redis_url, cwd=project.folder
    ) as worker:
        count = sum(waiting.values())
        worker.wait_for(
            lambda: len(re.findall(r'"msg": ?"done"', worker.output)) == count,
            what=f"{count} jobs done of {waiting}",
        )
        assert worker.stop() == 0
        output = worker.output
    assert redis.zcard("retry") == redis.zcard("dead") == 0
    assert "Hello Ada!" in output and "closing 2026-01 as job " in output


@of_language("sh")
def test_a_shell_command_does_what_it_says(block, project):
    for command in block.commands:
        # tests/features/fleets/test_fleets.py runs those, over two servers.
        run = read_kiqbridge if "--fleet" in command.words else runner(command.name)
        if command.words and run is not None:
            run(command, project)


def run_enqueue(command: Command, project: Project) -> None:
    """A job is pushed; an event is shown with what it would become."""
    words = [str(ROOT / word) if word.startswith("events/") else word for word in command.words[1:]]
    if "--event" not in words:
        assert project.command(*words).strip()
        return
    (project.folder / "lambdas/enqueue/mappings.yml").write_text(EVENT_MAPPING, encoding="utf-8")
    assert "would enqueue HealthPulse" in project.command(*words)


def read_make(command: Command, project: Project) -> None:
    """The target is listed and has a recipe for these variables."""
    target = command.words[1]
    assert re.search(rf"^  make {target} ", make("help"), re.MULTILINE), f"no target {target}"
    assert target in {"help", "up"} or command.name in ONLY_READ, "run it, or say why not"
    assert make("-n", *command.words[1:])


def read_docker(command: Command, project: Project) -> None:
    """The file is there, and the container has more patience than the worker needs."""
    options = dict(itertools.pairwise(command.words))
    if command.words[1] == "build":
        assert (ROOT / options["-f"]).is_file()
    elif command.words[1] == "compose":
        assert (ROOT / "compose.yaml").is_file()
    else:
        [timeout] = [setting.default for setting in SETTINGS if setting.name == "timeout_s"]
        assert int(options["--stop-timeout"]) > timeout


def read_aws(command: Command, project: Project) -> None:
    """AWS has such an operation, or waiter, with these options."""
    service, operation, *options = command.words[1:]
    service = {"s3api": "s3"}.get(service, service)  # as the command line calls it
    session = botocore.session.Session()
    model = session.get_service_model(service)
    if operation == "wait":
        waiters = session.get_waiter_model(service)
        [waiter] = [name for name in waiters.waiter_names if xform_name(name, "-") == options[0]]
        name = waiters.get_waiter(waiter).operation
    else:
        [name] = [name for name in model.operation_names if xform_name(name, "-") == operation]
    members = model.operation_model(name).input_shape.members
    known = {f"--{xform_name(member, '-')}" for member in members} | OPTIONS_OF_EVERY_AWS_COMMAND
    assert [word for word in options if word.startswith("--") and word not in known] == []


def read_install(command: Command, project: Project) -> None:
    """What is installed ships, but for what the reader writes."""
    source = command.words[-2]
    assert source == "worker.env" or (ROOT / "infra" / source).is_file()


def read_kiqbridge(command: Command, project: Project) -> None:
    """The command line takes it."""
    words = command.words[1:]
    build_parser(words).parse_args(words)


def read_manage(command: Command, project: Project) -> None:
    """The command line takes what follows `manage.py kiqbridge`."""
    assert command.words[:3] == ["python", "manage.py", "kiqbridge"]
    words = command.words[3:]
    build_parser(words).parse_args(words)


def read_words(command: Command, project: Project) -> None:
    """Nothing of it is ours."""


def run_up(command: Command, project: Project) -> None:
    """`make up` is `kiqbridge dev` with its ARGS: jobs are done, and Ctrl-C ends it in order."""
    read_make(command, project)
    [arguments] = [word.removeprefix("ARGS=") for word in command.words[2:]] or [""]
    started = [sys.executable, "-m", "kiqbridge", "dev", *arguments.split()]
    with ChildProcess(started, cwd=project.folder) as dev:
        dev.wait_for(lambda: re.search(r"^\S+Z done ", dev.output, re.MULTILINE), 20, "a job done")
        assert re.search(r"REDIS_URL=redis://127\.0\.0\.1:\d+/0", dev.output)
        dev.signal(2)
        assert dev.wait() == 0


def run_init(command: Command, project: Project) -> None:
    """It writes what tests/infra/test_init.py builds and runs."""
    project.command(*command.words[1:])
    assert (project.folder / command.words[2] / "Makefile").is_file()


def run_worker(command: Command, project: Project) -> None:
    with WorkerProcess(*command.words[2:], redis_url=project.redis_url, cwd=project.folder) as one:
        logged = {"--processes": "processes are ready", "--reload": " is ready: "}
        text = next((logged[word] for word in command.words if word in logged), None)
        one.wait_ready((lambda output: text in output) if text else None)
        assert one.stop() == 0


def run_deploy_mark(command: Command, project: Project) -> None:
    told = project.command(*command.words[1:])
    assert re.fullmatch(rf"(already )?marked \S+: {re.escape(command.words[2])}\n", told)


def run_reading(command: Command, project: Project) -> None:
    """On an empty database: it says so, in the form that was asked for."""
    shown = project.command(*command.words[1:])
    if "--json" in command.words:
        json.loads(shown)
    else:
        assert ("--jsonl" in command.words) is (shown == "")


def run_export(command: Command, project: Project) -> None:
    assert " 0 jobs to " in project.command(*command.words[1:])


def run_restore(command: Command, project: Project) -> None:
    """Of a file that an export before it in the same block wrote; at the same server."""
    assert "put in 0 jobs at " in project.command(*command.words[1:])


def run_queue(command: Command, project: Project) -> None:
    pausing = command.words[2] in {"pause", "resume", "list"}
    (run_pauses if pausing else run_reading)(command, project)


def run_signal(command: Command, project: Project) -> None:
    """On an empty database nobody is there to be asked."""
    assert project.command(*command.words[1:]) == "No living process matches.\n"


def run_pauses(command: Command, project: Project) -> None:
    """On an empty database: nothing is known, and what is named is paused and resumed again."""
    told = project.command(*command.words[1:])
    kind, verb, *rest = command.words[1:]
    if verb == "list":
        assert told in {"no queue is known\n", "no class is paused\n"} or " paused by " in told
    else:
        *_, last = told.splitlines()  # before it may stand that no job was ever pushed there
        assert last.startswith(f"{verb.removesuffix('e')}ed {kind} {rest[0]}")


def run_doctor(command: Command, project: Project) -> None:
    assert "found nothing wrong" in project.command(*command.words[1:])


def run_recover(command: Command, project: Project) -> None:
    assert project.command(*command.words[1:]).startswith("no worker is registered\n")


def run_python(command: Command, project: Project) -> None:
    assert command.variables["PYTHONPATH"] == "worker/jobs"
    assert re.fullmatch(r"[0-9a-f]{24}\n", project.run(command.words[1:]))


def run_schedule(command: Command, project: Project) -> None:
    """`next` and `previous` run here; tests/features/lint/test_dst_page.py compares what it prints. Other verbs need what they name."""
    if command.words[2] in {"next", "previous"}:
        project.command(*command.words[1:])
    else:
        read_kiqbridge(command, project)


def read_tool(command: Command, project: Project) -> None:
    """pytest finds such tests; the profiler has a script to run."""
    if command.words[2] == "pytest":
        collect = [
            sys.executable,
            "-m",
            *command.words[2:],
            "--collect-only",
            "-p",
            "no:cacheprovider",
        ]
        assert subprocess.run(collect, cwd=ROOT, capture_output=True, check=False).returncode == 0
    else:
        read_script(Command(variables={}, words=command.words[4:]), project)


def read_script(command: Command, project: Project) -> None:
    """It is there and compiles; it measures for too long to be run here."""
    path = ROOT / command.words[-1]
    compile(path.read_text(encoding="utf-8"), path, "exec")


def run_sums(command: Command, project: Project) -> None:
    """What it would write is what stands there."""
    folder, target = ROOT / command.words[1], command.words[-1]
    assert command.words[2:4] == ["&&", "sha256sum"]
    files = sorted(path.name for path in folder.glob(command.words[4]))
    sums = subprocess.run(["sha256sum", *files], cwd=folder, capture_output=True, check=True).stdout
    assert sums == (folder / target).read_bytes()


def run_web_ui(command: Command, project: Project) -> None:
    """tests/interop/test_web_ui.py serves it by the same script."""
    assert ROOT / command.words[1] == WEB_UI
    if not has_web_ui():
        pytest.skip("WEBrick, which serves Sidekiq's Web UI, is not installed")
    with ChildProcess(["ruby", str(WEB_UI)], env={"REDIS_URL": project.redis_url}) as served:
        served.wait_for_output("listening on ")


def run_lambda_invoke(command: Command, project: Project) -> None:
    """The payload goes to the real handler, whose answer has the keys that the README shows."""
    read_aws(command, project)
    # tests/kernel/process/test_dev_invoke.py invokes the functions of `kiqbridge dev`.
    if command.words[2] != "invoke" or "--endpoint-url" in command.words:
        return
    options = dict(zip(command.words[3:-1:2], command.words[4:-1:2], strict=True))
    assert options.keys() == {"--function-name", "--cli-binary-format", "--payload"}
    [shown] = [block for block in BLOCKS if block.language == "json" and "enqueued" in block.text]

    answer = invoke(json.loads(options["--payload"]), project)

    assert shape(json.loads(json.dumps(answer))) == shape(json.loads(shown.text))


COMMANDS = {
    "make": read_make,
    "make up": run_up,
    "docker": read_docker,
    "aws": read_aws,
    "sam": read_words,
    "install": read_install,
    "useradd": read_words,
    "systemctl": read_words,
    "kiqbridge worker": run_worker,
    "kiqbridge init": run_init,
    "kiqbridge dev": read_kiqbridge,
    "kiqbridge deploy-mark": run_deploy_mark,
    "kiqbridge queue": run_queue,
    "kiqbridge export": run_export,
    "kiqbridge restore": run_restore,
    **dict.fromkeys(
        (
            "kiqbridge stats",
            "kiqbridge ps",
            "kiqbridge done",
            "kiqbridge retries",
            "kiqbridge dead",
            "kiqbridge scheduled",
            "kiqbridge completion",
            "kiqbridge audit",
            "kiqbridge metrics",
            "kiqbridge shell",
        ),
        run_reading,
    ),
    "kiqbridge quiet": run_signal,
    "kiqbridge stop": run_signal,
    "kiqbridge job": read_kiqbridge,
    "kiqbridge jobs": run_reading,
    "kiqbridge limiter": run_reading,
    "kiqbridge class": run_pauses,
    "kiqbridge recover": run_recover,
    "kiqbridge enqueue": run_enqueue,
    "kiqbridge doctor": run_doctor,
    "kiqbridge spill": read_kiqbridge,
    "kiqbridge schedule": run_schedule,
    ".venv/bin/python": run_python,
    ".venv/bin/python -m": read_tool,
    ".venv/bin/python tests/benchmarks/budget.py": read_script,
    "cd": run_sums,
    "ruby": run_web_ui,
    "aws lambda": run_lambda_invoke,
    "python manage.py": read_manage,
}


def runner(name: str):
    program = name.split(" ", maxsplit=1)[0]
    return COMMANDS.get(name) or COMMANDS.get(program)


def is_shell(block: Block) -> bool:
    return block.language == "sh"


@functools.cache
def make(*arguments: str) -> str:
    # Not those of a `make test` around us.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    result = subprocess.run(
        ["make", *arguments], cwd=ROOT, env=inherited, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def invoke(event: object, project: Project) -> dict:
    schedules = read_schedules(project.template)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            schedules[0].function.environment | {"REDIS_URL": project.redis_url}
        ).items():
            patch.setenv(name, value)
        allowed = f"{schedules[0].function.environment['KIQBRIDGE_ALLOWED_CLASSES']},Greeting"
        patch.setenv("KIQBRIDGE_ALLOWED_CLASSES", allowed)
        return load_app().lambda_handler(event, Context())


def shape(value: object) -> object:
    """The same with every text and number replaced by its type."""
    if isinstance(value, dict):
        return {key: shape(child) for key, child in value.items()}
    return [shape(child) for child in value] if isinstance(value, list) else type(value)


YAML_FILES = {
    "mappings": re.compile(r"(mappings|allow|schemas):"),
    "settings": re.compile(r"(alerts|capsules|queues|fleets):"),
    "templates": re.compile(r"(Transform|Parameters|Resources):"),
}


def yaml_blocks(kind: str) -> pytest.MarkDecorator:
    """Those that are files of mappings, files of settings, or `rules`, which all others are."""
    chosen = []
    for block in BLOCKS:
        if block.language == "yaml":
            kinds = [name for name, begin in YAML_FILES.items() if begin.match(block.text)]
            if (kinds or ["rules"]) == [kind]:
                chosen.append(block)
    return pytest.mark.parametrize("block", chosen, ids=str)


@yaml_blocks("settings")
def test_the_settings_of_the_documents_are_read(block):
    warned: list[str] = []

    # Where a document says provider, it names a variable of the reader's.
    named = re.findall(r"provider: (\w+)", block.text)
    environ = dict.fromkeys(named, "rediss://redis.example:6379/0")
    content = settings_file.parse(block.text, str(block), {})
    environ["KIQBRIDGE_FLEET"] = next(iter(content.get("fleets", ())), "")
    config = merge(file=content, environ=environ, flags={}, warn=warned.append)

    assert warned == []
    assert "file" in config.sources.values()


@yaml_blocks("mappings")
def test_mappings_of_the_documents_pass_the_check(block, tmp_path, capsys):
    path = tmp_path / "mappings.yml"
    path.write_text(block.text.replace("../../", f"{ROOT}/"), encoding="utf-8")

    code = check_mappings([str(path), "--template", str(ROOT / "template.yaml")])

    lines = capsys.readouterr().out
    assert code == 0, lines
    assert lines.count(".json: ") >= block.text.count(".json")


@yaml_blocks("rules")
def test_a_rule_of_the_documents_fits_into_the_template(block, project):
    rule = block.text
    [name] = re.findall(r"^(\w+):$", rule, re.MULTILINE)
    template = project.template
    source = template.read_text(encoding="utf-8")
    before = "      Events:\n"
    assert source.count(before) == 1
    indented = re.sub(r"^(?=.)", " " * 8, rule, flags=re.MULTILINE)
    template.write_text(source.replace(before, before + indented), encoding="utf-8")
    allowed = yaml.load(source, AnyTag)["Parameters"]["AllowedClasses"]["Default"]

    schedules = read_schedules(template, {"AllowedClasses": f"{allowed},Greeting"})

    assert allow_list_problems(schedules) == []
    [schedule] = [schedule for schedule in schedules if schedule.where.endswith(name)]
    assert schedule.jobs[0]["class"] == "Greeting"


@yaml_blocks("templates")
def test_a_template_of_the_documents_passes_the_linter_and_names_what_ours_has(block):
    ours = yaml.load((ROOT / "template.yaml").read_text(encoding="utf-8"), AnyTag)
    nested = yaml.load(block.text, AnyTag)["Resources"]["Kiqbridge"]["Properties"]

    found = cfnlint.api.lint(block.text, config=ManualArgs(regions=["eu-west-1"]))
    assert [str(fault) for fault in found] == []
    assert set(nested["Parameters"]) - set(ours["Parameters"]) == set()
    page = (ROOT / block.document).read_text(encoding="utf-8")
    outputs = set(re.findall(r"(?:Outputs\.|outputs\[\")(\w+)", page))
    assert outputs and outputs - set(ours["Outputs"]) == set()


class AnyTag(yaml.SafeLoader):
    """Reads a template without resolving its !Ref and !Sub."""


AnyTag.add_multi_constructor("!", lambda _loader, _tag, node: str(node.value))


@of_language("json")
def test_a_json_block_is_an_answer_or_an_event_that_enqueues_once(block, project):
    shown = json.loads(block.text)
    # Compared with the real one by run_lambda_invoke; and a policy, or a statement of one, is no event.
    if "enqueued" in shown or {"Principal", "Statement"} & shown.keys():
        return

    event = delivered(shown)

    first, second = invoke(event, project), invoke(event, project)

    assert (len(first["enqueued"]), len(first["duplicates"])) == (1, 0)
    assert (len(second["enqueued"]), len(second["duplicates"])) == (0, 1)


def delivered(shown: dict) -> dict:
    """What the function gets of a published event, a rule with this InputTransformer, or a state's task."""
    if str(shown.get("Resource", "")).endswith("lambda:invoke.waitForTaskToken"):
        payload = shown["Parameters"]["Payload"]
        assert payload.pop("task_token.$") == "$$.Task.Token"
        return {**payload, "task_token": "AQC="}
    if "InputTemplate" in shown:
        assert shown["InputPathsMap"] == {"time": "$.time"}
        text = shown["InputTemplate"].replace("<time>", f"{datetime.now(UTC):%FT%H:%M:00Z}")
        rule = "arn:aws:events:eu-west-1:123456789012:rule/nightly"
        return json.loads(text.replace("<aws.events.rule-arn>", rule))
    return {
        "version": "0",
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "detail-type": shown["DetailType"],
        "source": shown["Source"],
        "detail": json.loads(shown["Detail"]),
    }


# What the prose names


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_document_names_exists(path):
    missing = [*missing_paths(path), *missing_commands(path), *missing_variables(path)]

    assert missing == []


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_link_to_a_heading_finds_it(path):
    links = re.findall(
        r"(?<!!)\[[^\]]*\]\(([^)#:]*)#([^)]+)\)", prose(path)
    )  # a picture has no headings

    assert [
        f"{name}#{anchor}"
        for name, anchor in links
        if anchor not in anchors(path.parent / name if name else path)
    ] == []


def anchors(path: Path) -> set[str]:
    """What the headings of a document are called in links: lower case, hyphens, no other signs."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing_paths(path: Path) -> list[str]:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", prose(path))
    relative = [link for link in links if not link.startswith("http") and not beside(path, link)]
    named = [text for text in quoted(path) if re.fullmatch(r"[\w.-]+(/[\w.-]+)+/?", text)]
    places = (ROOT, ROOT / "worker", ROOT / "worker/kiqbridge", path.parent)
    return relative + [
        text
        for text in named
        if is_file_name(text) and not any((place / text).exists() for place in places)
    ]


def beside(path: Path, link: str) -> bool:
    return (path.parent / link).exists()


def is_file_name(text: str) -> bool:
    """Whether a text with slashes means a file of ours, such as those below a folder of ours."""
    top = text.split("/", maxsplit=1)[0]
    if top in MADE_BY_RUNS:
        return False
    return text not in FILES_OF_USERS and ((ROOT / top).is_dir() or bool(Path(text).suffix))


def missing_commands(path: Path) -> list[str]:
    targets = re.findall(r"^  make (\S+) ", make("help"), re.MULTILINE)
    texts = [text.split() for text in quoted(path)]
    missing = [words for words in texts if words[0] == "make" and words[1] not in targets]
    for words in texts:
        if words[0] == "kiqbridge" and len(words) > 1:
            flags = [word for word in words if word.startswith("-")]
            missing += [words] if any(flag not in flags_of(*words[1:3]) for flag in flags) else []
        flag = re.match("--[a-z][a-z-]+", words[0])
        if flag and flag[0] not in source_text() and flag[0] not in NAMES_OF_OTHERS:
            missing.append(words)
    return [" ".join(words) for words in missing]


@functools.cache
def flags_of(verb: str, below: str = "") -> str:
    """The help of a verb, which names itself, its flags and its arguments, and of a verb below it."""
    _, shown = ran(verb, "--help")
    if not re.search(rf"^    {re.escape(below)}(?: |$)", shown, re.MULTILINE):
        return shown
    return shown + ran(verb, below, "--help")[1]


def test_parameters_and_outputs_that_the_readme_names_are_the_templates():
    names = [text.split("=")[0] for text in quoted(ROOT / "README.md")]
    compound = {name for name in names if re.fullmatch(r"[A-Z][a-z]+([A-Z][a-z]+)+", name)}
    template = yaml.load((ROOT / "template.yaml").read_text(encoding="utf-8"), AnyTag)

    known = template["Parameters"].keys() | template["Outputs"].keys()

    assert compound - known == set()


def missing_variables(path: Path) -> list[str]:
    known = {name for setting in ALL_SETTINGS for name in setting.env} | NAMES_OF_OTHERS
    found = set(re.findall(r"KIQBRIDGE_[A-Z_]+", path.read_text(encoding="utf-8")))
    return [name for name in sorted(found - known) if f'"{name}"' not in source_text()]


@functools.cache
def source_text() -> str:
    return "".join(file.read_text("utf-8") for file in (ROOT / "worker/kiqbridge").rglob("*.py"))


def test_the_table_of_our_keys_has_each_key():
    table = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("## Our keys")[1]
    first_cells = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    source = (ROOT / "worker/kiqbridge/wire/keys.py").read_text(encoding="utf-8")

    def names(text: str) -> set[str]:
        return {name.rstrip(":") for name in re.findall(r"kb:[a-z:]+", text)} - {"kb"}

    assert names(" ".join(first_cells)) == names(source)


HOW_TOS = sorted((ROOT / "docs/how_to").glob("*.md"))


@pytest.mark.parametrize("path", HOW_TOS, ids=lambda path: path.stem)
def test_a_how_to_is_one_page_of_at_most_sixty_lines_that_begins_with_a_command_or_code(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    until_block = list(itertools.takewhile(lambda line: not line.startswith("```"), lines))

    assert len(lines) <= 60
    assert lines[0].startswith("# ")
    assert len(" ".join(until_block[1:]).split()) <= 40, "command or code first, then why"


def test_there_are_at_most_sixty_pages_and_the_how_tos_are_short():
    """Without the protocol and the decisions."""
    pages = [
        path
        for path in (ROOT / "docs").rglob("*.md")
        if path.name != "protocol.md" and path.parent.name != "decisions"
    ]
    words = sum(len(path.read_text(encoding="utf-8").split()) for path in HOW_TOS)

    assert len(pages) <= 60
    assert len(HOW_TOS) <= 30
    assert words <= 13_800


def first_cells(page: str, section: str = "") -> list[str]:
    """What the rows of a page of the reference, or of a section, are about: the names in their first cells."""
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    text = text.partition(section)[2].split("\n## ")[0] if section else text
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_the_table_of_errors_has_each_error():
    public = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    ]

    assert sorted(first_cells("api.md", "## Errors\n")) == sorted(public)


def test_the_table_of_options_has_each_option_of_a_job_and_of_a_push():
    pushed = PushOptions.__annotations__.keys()
    text = (ROOT / "docs/reference/job_options.md").read_text(encoding="utf-8")
    marked = re.findall(r"^\| (`.*?) \|.* s?\s?p \|$", text, re.MULTILINE)

    assert sorted(first_cells("job_options.md", "# Options of a job\n")) == sorted(
        JobDeclaration.__annotations__.keys() | pushed
    )
    assert {name for cell in marked for name in re.findall(r"`(\w+)`", cell)} == set(pushed)


NOT_MESSAGES = re.compile(
    r"[{}\[\]<>=\"$@#*|&]| -|\w\(|:$|^_|^\w+/|^(kiqbridge|python3|rq|every|from|OOM|limiter) "
)
"""Code, commands, expressions and Redis' own messages among what stands in backticks."""
VALUES = re.compile(r"\S*…|\d+|[A-Z]{3,}\S*")
UNITS = {"days": 86_400, "hours": 3_600}


def pages() -> list[Path]:
    """Without the protocol and the decisions, which quote others, and what is made of the code."""
    left_out = {"protocol.md", "settings.md"}
    return [
        path for path in documents() if path.name not in left_out and "decisions" not in path.parts
    ]


@functools.cache
def code() -> list[ast.AST]:
    paths = (ROOT / "worker/kiqbridge").rglob("*.py")
    return [node for path in paths for node in ast.walk(ast.parse(path.read_text("utf-8")))]


@functools.cache
def messages() -> tuple[str, list[str]]:
    """All texts of the code, and a pattern of each that values are put into."""
    texts = [
        node.value
        for node in code()
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    patterns = [
        "".join(re.escape(v.value) if isinstance(v, ast.Constant) else ".+" for v in node.values)
        for node in code()
        if isinstance(node, ast.JoinedStr)
    ]
    return "\n".join(texts), [each for each in patterns if len(re.findall("[a-z]", each)) > 9]


def is_written(quote: str) -> bool:
    """Whether the code writes such a message: what `…`, numbers and capitals stand for, and a reason behind `: `, vary."""
    texts, patterns = messages()
    begin, _, reason = quote.partition(": ")
    return (
        all(part.strip() in texts for part in VALUES.split(quote))
        or any(re.fullmatch(each, quote) for each in patterns)
        or (bool(reason) and begin in texts and (len(begin.split()) > 3 or is_written(reason)))
    )


def test_a_message_that_a_page_quotes_is_written_by_the_code():
    """What stands in backticks, four words or more."""
    quotes = [
        (path.name, text)
        for path in pages()
        for text in quoted(path)
        if len(text.split()) > 3 and not NOT_MESSAGES.search(text)
    ]

    assert len(quotes) > 15
    assert [(name, text) for name, text in quotes if not is_written(text)] == []
    assert not is_written("job … ran for longer than its max_run_s")


@functools.cache
def defaults() -> dict[str, set[str]]:
    """Of settings by each of their names, of parameters of functions and of the stack, of fields and of keys."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for each in ALL_SETTINGS:
        for name in (each.name, each.file_key or each.name, *each.env, *each.flags):
            found[name].add(str(each.default))
    for node in code():
        if isinstance(node, ast.arguments):
            plain = [*node.posonlyargs, *node.args]
            plain = plain[len(plain) - len(node.defaults) :]
            for argument, value in zip(
                [*plain, *node.kwonlyargs], [*node.defaults, *node.kw_defaults], strict=True
            ):
                found[argument.arg].add(str(getattr(value, "value", "")))
        if (
            isinstance(node, ast.Call)
            and len(node.args) > 1
            and ast.unparse(node.func).endswith("get")
        ):
            found[getattr(node.args[0], "value", "")].add(str(getattr(node.args[1], "value", "")))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id].add(str(getattr(node.value, "value", "")))
    for path in (ROOT / "template.yaml", *ROOT.glob("infra/*.yaml")):
        declared = yaml.load(path.read_text(encoding="utf-8"), AnyTag).get("Parameters", {})
        for name, parameter in declared.items():
            found[name].add(str(parameter.get("Default")))
    return found


def test_a_number_in_brackets_behind_a_name_is_its_default():
    claims = [
        (path.name, *found)
        for path in pages()
        for found in re.findall(r"`([\w-]+)`\*{0,2} \((\d[\d,.]*)( \w+)?", prose(path))
        if found[0] in defaults()
    ]
    wrong = [
        (page, name, number + unit)
        for page, name, number, unit in claims
        if float(number.strip(",.").replace(",", "")) * UNITS.get(unit.strip(), 1)
        not in {float(each) for each in defaults()[name] if re.fullmatch(r"[\d.]+", each)}
    ]

    assert len(claims) > 15
    assert wrong == []


def test_the_table_of_screens_has_each_page_of_the_navigation():
    text = (ROOT / "docs" / "reference" / "web.md").read_text(encoding="utf-8")
    tabs = [*TABS, *(tab for each in seams.shipped() for tab in each.tabs)]

    assert [tab.path for tab in tabs if f"`{tab.path}`" not in text] == []
