"""Servers for every tier, what `make test` runs, and what happens where Ruby Sidekiq or Debian's Redis is missing.

`--quick` (`make test`) leaves out what is marked `slow`, what needs more than Python, and whole folders (REST).
Without it (`make test-all`), what needs something that is missing is skipped and the last lines of the run say so;
under CI=true it fails. `KIQBRIDGE_TEST_SERVER=redis` runs the tests on Debian's Redis instead of the embedded
Valkey. Every process of pytest-xdist has servers of its own.
"""

import gc
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import redis as redis_py
from hypothesis import HealthCheck, settings
from support import proving
from support.faketime import faketime_library
from support.ruby import (
    has_active_job,
    has_cron_gem,
    has_debian_13,
    has_fugit,
    has_ruby_sidekiq,
    has_web_ui,
)
from support.servers import NAMELESS, ServerProcess, debian_server, embedded_server

from kiqbridge.runtime.job_forks import _forget_errors_of_others

if TYPE_CHECKING:
    from kiqbridge import Client

pytest_plugins = ["support.fixtures"]

# How long an example takes is the machine's business, under xdist more than ever. CI draws the same
# examples in each run; on a laptop each run draws new ones.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,
)
settings.load_profile("patient")


def has_program(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


class Need(NamedTuple):
    """What the tests under a marker need besides Python."""

    marker: str
    name: str
    package: str
    is_installed: Callable[[], bool]

    @property
    def reason(self) -> str:
        return f"{self.name} is not installed"


NEEDS = (
    Need("interop", "Ruby Sidekiq", "ruby-sidekiq", has_ruby_sidekiq),
    Need("web_ui", "WEBrick, which serves Sidekiq's Web UI,", "ruby-webrick", has_web_ui),
    Need("rails", "Rails' Active Job", "ruby-activejob", has_active_job),
    Need("fugit", "fugit, which reads sidekiq-cron's schedules,", "ruby-fugit", has_fugit),
    Need("cron", "the gem sidekiq-cron", "ruby-sidekiq-cron", has_cron_gem),
    Need(
        "debian_13",
        "Debian 13 with its Ruby, which `make .debian13/.root` unpacks as root,",
        "debootstrap",
        has_debian_13,
    ),
    Need("systemd", "systemd-analyze", "systemd", has_program("systemd-analyze")),
    Need("redis_server", "redis-server", "redis-server", has_program("redis-server")),
    Need("openssl", "openssl", "openssl", has_program("openssl")),
    Need("faketime", "libfaketime", "libfaketime", lambda: faketime_library() is not None),
    Need("browser", "chromium", "chromium", has_program("chromium")),
)
REPORTED = "reported"
REST = [Path(__file__).parent / name for name in ("browser", "interop", "prove")]
"""Folders that only `make test-all` looks into."""
SLOW_FILE = re.compile(r"^pytestmark = .*\bpytest\.mark\.slow\b", re.MULTILINE)
"""A file with such a line is not even imported by `make test`."""
LEFT_OUT = {"slow", *(need.marker for need in NEEDS)}
BESIDES = (
    "make test-all runs besides: tests/browser, tests/interop, tests/prove, tests/kernel/redis on redis-server, and what "
    "takes long or needs more than Python in tests/kernel/faults, tests/infra, tests/kernel/lambdas and tests/kernel/process"
)
INSTALL_ALL = f"apt-get install {' '.join(need.package for need in NEEDS)}"
SERVERS = {"valkey": embedded_server, "redis": debian_server}
TEST_SETTINGS = ("KIQBRIDGE_TEST_SERVER", "KIQBRIDGE_SCREENSHOTS", proving.VARIABLE)


def is_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true"}


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="only what `make test` runs")


def pytest_configure(config):
    gc.disable()  # until all is collected: modules and tests are no garbage, and looking for it takes a tenth
    name = os.environ.get("KIQBRIDGE_TEST_SERVER", "valkey")
    if name not in SERVERS:
        raise pytest.UsageError(f"KIQBRIDGE_TEST_SERVER={name}: write one of {', '.join(SERVERS)}")
    if proving.size() not in proving.SIZES:
        raise pytest.UsageError(
            f"{proving.VARIABLE}={proving.size()}: write one of {', '.join(proving.SIZES)}"
        )
    # Nobody's own server or settings: a test must not flush what a developer works on.
    for variable in list(os.environ):
        if variable.startswith(("REDIS_", "KIQBRIDGE_")) and variable not in TEST_SETTINGS:
            del os.environ[variable]
    # Nor where their workers say how they are.
    run_folder = tempfile.TemporaryDirectory(prefix="kiqbridge-test-", ignore_cleanup_errors=True)
    config.add_cleanup(run_folder.cleanup)
    os.environ["KIQBRIDGE_RUN_DIR"] = run_folder.name


def pytest_ignore_collect(collection_path, config):
    if not config.getoption("quick"):
        return None
    is_test = collection_path.match("test_*.py")
    is_slow = is_test and SLOW_FILE.search(collection_path.read_text("utf-8"))
    return True if is_slow or collection_path in REST else None


def pytest_collection_modifyitems(config, items):
    if config.getoption("quick"):
        left_out = [
            each for each in items if LEFT_OUT.intersection(m.name for m in each.iter_markers())
        ]
        gone = set(left_out)
        items[:] = [each for each in items if each not in gone]
        config.hook.pytest_deselected(items=left_out)
    if os.environ.get("KIQBRIDGE_TEST_SERVER") == "redis":
        left_out = [each for each in items if not asks_the_server(each)]
        gone = set(left_out)
        items[:] = [each for each in items if each not in gone]
        config.hook.pytest_deselected(items=left_out)


def asks_the_server(item) -> bool:
    """Whether a test is for the second run: of features not what goes by a command, a page, a function, a process."""
    of_other_tiers = {"run", "start", "project", "browser", "load", "fleet"}
    is_of_feature = REST[0].parent / "features" in item.path.parents
    return "session_server" in item.fixturenames and not (
        is_of_feature and of_other_tiers.intersection(item.fixturenames)
    )


def pytest_collection_finish():
    gc.enable()
    gc.freeze()


def pytest_runtest_setup(item):
    for need in NEEDS:
        if item.get_closest_marker(need.marker) and not need.is_installed():
            if is_ci():
                pytest.fail(f"{need.reason}, and CI skips nothing: {INSTALL_ALL}", pytrace=False)
            pytest.skip(need.reason)


def pytest_unconfigure(config):
    # Later than pytest's own summary, so that nothing pushes it out of sight.
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    reasons = [str(report.longrepr) for report in reporter.stats.get("skipped", ())]
    missing = []
    for need in NEEDS:
        count = sum(need.reason in reason for reason in reasons)
        if count:
            missing.append(need.package)
            tests = f"{count} {need.marker} test{'s' if count > 1 else ''}"
            reporter.write_line(f"NOT RUN: {tests} ({need.reason})", yellow=True, bold=True)
    if missing:
        reporter.write_line(f"Install: apt-get install {' '.join(missing)}", yellow=True, bold=True)
    if config.getoption("quick"):
        reporter.write_line(BESIDES)


def pytest_terminal_summary(terminalreporter):
    lines = [
        line
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, line in report.user_properties
        if name == REPORTED
    ]
    if lines:
        terminalreporter.section("counted")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def tell(record_property) -> Callable[[str], None]:
    """Puts a line at the end of the run, also when pytest-xdist runs the test: what was counted."""
    return lambda line: record_property(REPORTED, line)


@pytest.fixture(autouse=True)
def no_error_is_owed() -> None:
    """Hypothesis traces once an example has failed, and beside a blocked thread of an earlier test that an error is
    to be raised in, CPython 3.11 would stand still then (see job_forks)."""
    _forget_errors_of_others()


@pytest.fixture(scope="session", autouse=True)
def no_signal_is_inherited_ignored():
    """`nohup` ignores SIGHUP and a shell's `&` SIGINT; children of the tests must get the defaults.

    A handler of our own ignores as well, and unlike SIG_IGN it is not inherited by what is started.
    """
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="session")
def folder_of_run(tmp_path_factory) -> Path:
    """A folder that all processes of this run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def session_server() -> Iterator[ServerProcess]:
    """The server that this test process uses; only `server` flushes it."""
    with SERVERS[os.environ.get("KIQBRIDGE_TEST_SERVER", "valkey")]() as server:
        yield server


@pytest.fixture
def server(session_server) -> ServerProcess:
    """The running server, empty; whoever pauses it must resume it."""
    session_server.flush()
    return session_server


@pytest.fixture
def redis_url(server) -> str:
    """An empty database."""
    return server.url


@pytest.fixture
def redis(redis_url) -> Iterator[redis_py.Redis]:
    """A raw client (bytes) of that database, for arranging and asserting.

    Patient: on a busy machine a server may be silent for longer than the 5 s that redis-py waits.
    """
    with redis_py.Redis.from_url(redis_url, socket_timeout=60, **NAMELESS) as client:
        yield client


@pytest.fixture
def client(redis_url) -> "Iterator[Client]":
    """A client of ours for that database."""
    from kiqbridge import Client

    client = Client(redis_url)
    yield client
    client.close()


@pytest.fixture
def run(redis_url, monkeypatch, capsys):
    """Runs one command in this process: (exit code, standard output, standard error), of wrong usage too."""
    from kiqbridge.commands import cli

    monkeypatch.setenv("REDIS_URL", redis_url)

    def run(*args):
        try:
            code = cli.main([str(each) for each in args])
        except SystemExit as ended:
            code = ended.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def own_jobs():
    """Nothing is declared but what the test declares."""
    from support.jobs import own_declarations

    with own_declarations():
        yield


@pytest.fixture
def schedules(client):
    from kiqbridge import Schedules

    return Schedules(client)


@pytest.fixture
def seen():
    """What jobs of the test note."""
    return []


@pytest.fixture
def pushes():
    """What the default client pushes."""
    from support.jobs import configure_capture

    return configure_capture()


@pytest.fixture
def services():
    """The services of AWS, as moto has them."""
    from support.aws_services import aws_services

    with aws_services() as made:
        yield made


@pytest.fixture(scope="session")
def session_debian_server() -> Iterator[ServerProcess]:
    with debian_server() as server:
        yield server


@pytest.fixture
def debian_redis_url(session_debian_server) -> str:
    """An empty database of Debian's Redis, for tests marked `redis_server`."""
    session_debian_server.flush()
    return session_debian_server.url
