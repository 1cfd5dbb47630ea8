"""What Sidekiq wrote is read here as Sidekiq reads it, and its settings and log lines are ours too."""

import argparse
import hashlib
import inspect
import io
import json
import logging
import random
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.engine import capsule_of, heartbeat_of
from support.runners import make_runner
from support.vectors import (
    FILES,
    FOLDER,
    KINDS,
    LEFT_OUT,
    TABLE,
    NotAsserted,
    job_texts,
    of_kind,
    recorded_info,
)

from kiqbridge.client.middleware import Chain
from kiqbridge.client.registry import JobDefinition, Registry
from kiqbridge.commands.worker_command import add_arguments, load_config
from kiqbridge.engine.capsule_runtime import capsules_of
from kiqbridge.engine.heartbeat import Heartbeat, ProcessInfo
from kiqbridge.engine.perform.job_logger import JSONFormatter, LineFormatter
from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.runtime.logs.log_writer import LogWriter
from kiqbridge.store.process_set import profile_for
from kiqbridge.wire.json_text import dumps_moved, loads
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import read_timestamp

TESTS = Path(__file__).parents[2]


class TestTheTable:
    def test_every_recorded_operation_is_asserted_or_has_its_reason(self, tell):
        undecided = [operation for operation, entry in TABLE.items() if entry is None]
        kinds = {entry for entry in TABLE.values() if isinstance(entry, str)}
        reasons = {}
        for (file, name), entry in TABLE.items():
            if isinstance(entry, NotAsserted):
                reasons.setdefault(entry.reason, []).append(f"{file}/{name}")

        assert undecided == []
        assert kinds == KINDS.keys()
        left = sum(map(len, reasons.values()))
        tell(f"vectors: {len(TABLE) - left} asserted, {left} not asserted")
        for left_out in LEFT_OUT:
            tell(f"  left out of {left_out}")
        for reason, operations in reasons.items():
            tell(f"  {len(operations)} not asserted: {reason}: {', '.join(operations)}")

    def test_no_operation_hides_behind_another_of_its_name(self):
        for file, operations in FILES.items():
            recorded = json.loads((FOLDER / f"{file}.json").read_text(encoding="utf-8"))
            assert len(operations) == len(recorded["operations"]), file

    @pytest.mark.parametrize(
        "kind",
        [
            kind for kind, test in KINDS.items() if (TESTS / test).parent.exists()
        ],  # else its feature was taken away
    )
    def test_a_kind_names_a_test_that_takes_its_operations_from_the_table(self, kind):
        file, _, name = KINDS[kind].partition("::")
        source = (TESTS / file).read_text(encoding="utf-8")

        assert f"def {name}(" in source
        # The Active Jobs are taken from their file itself, and counted there.
        assert f'of_kind("{kind}")' in source or 'vectors" / "activejob.json"' in source

    def test_the_recordings_are_as_they_were_recorded(self):
        sums = (FOLDER / "SHA256SUMS").read_text(encoding="ascii").splitlines()
        known = {line.split("  ")[1]: line.split("  ")[0] for line in sums}

        assert known == {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in FOLDER.glob("*.json")
        }


class Runner:
    """Runs any job class with a function that takes what comes."""

    def __init__(self, perform):
        self.registry = Registry()
        self.runner = make_runner(self.registry)
        self._perform = perform

    def run(self, text):
        self.registry.register(
            JobDefinition(
                name=loads(text)["class"],
                options={"retry": True, "queue": "default"},
                instantiate=lambda jid: SimpleNamespace(jid=jid),
                perform_of=lambda _instance: self._perform,
                signature=inspect.signature(self._perform),
                origin=__name__,
            )
        )
        return self.runner.run(
            text, "default", SimpleNamespace(performing=False, interrupted=False)
        )


@pytest.mark.parametrize(("file", "name"), of_kind("read"))
def test_a_recorded_job_runs_here_with_its_very_values(file, name):
    texts = job_texts(FILES[file][name])
    assert texts

    for text in texts:
        performed = []
        raw, payload = text.encode(), json.loads(text)

        assert Runner(lambda *args, got=performed: got.append(list(args))).run(raw) is None

        assert exactly(performed) == exactly([payload["args"]])
        assert exactly(loads(dumps_moved(loads(raw), raw))) == exactly(payload)


def exactly(value):
    """A text in which 1, 1.0 and True differ, as does the order of keys."""
    return json.dumps(value)


@pytest.mark.parametrize(("file", "name"), of_kind("timestamp"))
def test_a_time_is_read_as_the_version_that_wrote_it_reads(file, name):
    operation = FILES[file][name]
    (payload,) = [json.loads(text) for text in job_texts(operation)]
    # Integers are milliseconds for 8 alone; for the versions before it, they are seconds.
    read = operation["read"]["8.1.7" if name == "timestamps_integer_milliseconds" else "7.3.10"]

    for field in ("created_at", "enqueued_at"):
        ours = read_timestamp(payload.get(field))
        assert (ours or 0) == pytest.approx(read[field] or 0, abs=1e-6)
        assert (ours is None) == (field not in payload)


@pytest.mark.parametrize(("file", "name"), of_kind("process"))
def test_a_process_tells_which_times_it_reads(file, name):
    version = ""  # 6.4.1 tells none
    if "read" in FILES[file][name]:
        [process] = FILES[file][name]["read"]["8.1.7"]["processes"]["list"]
        version = process.get("version") or ""

    assert profile_for([recorded_info(file, name)]) == ("8" if version.startswith("8.") else "7")


@pytest.mark.parametrize(
    ("versions", "profile"),
    [(["8.1.7"], "8"), (["7.3.10"], "7"), (["8.1.7", "7.3.10"], "7"), (["8.1.7", "6.4.1"], "7")],
)
def test_milliseconds_are_written_when_all_recorded_processes_read_them(versions, profile):
    infos = [recorded_info(f"worker-{version}", "boot_and_first_beat") for version in versions]

    assert profile_for(infos) == profile


DEVIATIONS = {
    "ok": lambda info, work, fields: not (info and work and fields),
    "no_labels": lambda info, _work, _fields: "labels" not in info,
    "no_queues": lambda info, _work, _fields: "queues" not in info,
    "no_queues_weights_capsules": lambda info, _work, _fields: (
        not {"queues", "weights", "capsules"} <= info.keys()
    ),
    "tag_null": lambda info, _work, _fields: info["tag"] is None,
    "no_hostname": lambda info, _work, _fields: not info.get("hostname"),
    "no_started_at": lambda info, _work, _fields: "started_at" not in info,
    "started_at_ms": lambda info, _work, _fields: type(info["started_at"]) is not float,
    "weights_object": lambda info, _work, _fields: type(info["weights"]) is not list,
    "weights_float": lambda info, _work, _fields: any(
        type(weight) is not int for weights in info["weights"] for weight in weights.values()
    ),
    "no_version": lambda info, _work, _fields: not info.get("version"),
    "no_identity": lambda info, _work, _fields: not info.get("identity"),
    "no_embedded": lambda info, _work, _fields: info.get("embedded") is not False,
    "no_pid": lambda info, _work, _fields: type(info.get("pid")) is not int,
    "capsules_without_weights": lambda info, _work, _fields: any(
        "weights" not in capsule for capsule in info["capsules"].values()
    ),
    "work_no_payload": lambda _info, work, _fields: type(work.get("payload")) is not str,
    "work_no_run_at": lambda _info, work, _fields: "run_at" not in work,
    "work_no_queue": lambda _info, work, _fields: "queue" not in work,
    "work_run_at_string": lambda _info, work, _fields: type(work["run_at"]) is not int,
    "work_not_json": lambda _info, work, _fields: type(work) is not dict,
    "beat_missing": lambda _info, _work, fields: "beat" not in fields,
    "info_not_json": lambda info, _work, _fields: type(info) is not dict,
}
"""Deviation → whether (info, work, fields of the process hash) has it."""


class Recorder:
    """Takes a heartbeat's commands and answers as Redis would."""

    def __init__(self):
        self.hashes = {}

    def call(self, *_command):
        return b"PONG"

    def run(self, *commands, repeatable=True):
        for name, *rest in commands:
            if name == "HSET":
                self.hashes[rest[0]] = dict(zip(rest[1::2], rest[2::2], strict=True))
        return [[None, 1, None]]


@pytest.fixture
def our_state():
    """(info, work, fields) of a process of ours with one running job."""
    recorder = Recorder()
    unit = RunningJob("default", b'{"class":"A","args":[]}', 1_700_000_000.5)
    Heartbeat(
        info=process_info(capsule_of({"default": 2}, concurrency=3)),
        keys=Keys(),
        connection=recorder,
        **heartbeat_of([SimpleNamespace(tid="t", current=unit, processed=0, failed=0)]),
        on_signal=lambda _name: None,
    ).beat()
    fields = recorder.hashes["host:1:0123456789ab"]
    work = json.loads(recorder.hashes["host:1:0123456789ab:work"]["t"])
    return json.loads(fields["info"]), work, fields


def process_info(*capsules, **options):
    return ProcessInfo(
        **{
            "identity": "host:1:0123456789ab",
            "hostname": "host",
            "pid": 1,
            "tag": "",
            "labels": ["kiqbridge"],
            "concurrency": sum(capsule.concurrency for capsule in capsules),
            "capsules": capsules,
            "version": "kiqbridge-0.1.0",
            "started_at": 1_700_000_000.25,
            "beat_s": 60,
            **options,
        }
    )


@pytest.mark.parametrize(("file", "name"), of_kind("busy_page"))
def test_our_process_has_none_of_the_deviations(file, name, our_state):
    assert not DEVIATIONS[name](*our_state)
    statuses = set(FILES[file]["ok"]["busy_page"].values())
    assert statuses == {200}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Our configuration for recorded arguments and file."""
    monkeypatch.chdir(tmp_path)

    def load(operation):
        arguments = list(operation["arguments"])
        if operation["file"] is None:
            arguments += ["-c", "5"]  # Sidekiq's default from 7 on; ours is 10
        else:
            path = tmp_path / "cfg.yml"
            path.write_text(operation["file"], encoding="utf-8")
            arguments[arguments.index("-C") + 1] = str(path)
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        return load_config(parser.parse_args(arguments), {})[0]

    return load


@pytest.mark.parametrize(("file", "name"), of_kind("config"))
def test_the_same_settings_give_the_same_capsules(file, name, load):
    operation = FILES[file][name]
    theirs = json.loads(operation["process_hash"]["info"])
    has_file = operation["file"] is not None

    config = load(operation)
    capsules = capsules_of(config, {}, Chain())
    if "weights" in theirs and len(theirs["weights"]) == 1:  # 6.4 knows no capsules
        capsules = capsules[:1]
    info = process_info(*capsules, tag=config.tag, labels=config.labels)
    ours = json.loads(info.text())

    assert exactly(ours["weights"]) == exactly(theirs["weights"])
    assert ours["queues"] == theirs["queues"]
    assert ours["labels"] == theirs["labels"]
    if has_file:
        assert (ours["tag"], config.timeout_s) == (theirs["tag"], 2)
    if "capsules" in theirs:
        assert exactly(ours["capsules"]) == exactly(theirs["capsules"])
        assert ours["concurrency"] == int(operation["process_hash"]["concurrency"])
    else:
        assert ours["concurrency"] == theirs["concurrency"]
    for capsule in capsules:
        assert_orders(capsule, operation["brpop_seen"], random.Random(1))


def assert_orders(capsule, seen, rng):
    """Each order in which the recorded worker asked for its queues is one that ours may draw."""
    draw = capsule.order(rng)
    drawn = {tuple(draw()) for _ in range(1000)}
    orders = [tuple(key.removeprefix("queue:") for key in keys[:-1]) for keys in seen]
    theirs = {order for order in orders if set(order) <= capsule.weights.keys()}

    assert theirs
    assert theirs <= drawn
    if capsule.mode == "strict":
        assert theirs == drawn


LOGGED = (
    {"class": "EchoJob", "jid": "a" * 24, "args": []},
    {
        "class": "EchoJob",
        "jid": "b" * 24,
        "args": [],
        "wrapped": "Inner::Job",
        "display_class": "Shown",
        "bid": "b1d",
        "tags": ["x", "y"],
    },
    {"class": "NoRetryJob", "jid": "c" * 24, "args": ["fail"], "retry": False},
)


@pytest.fixture
def log():
    """Run a job of each recorded kind with a formatter, and the lines at info that it gives."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    writer = LogWriter(stream)
    root.handlers[:] = [writer]
    root.setLevel(logging.INFO)

    def perform(*args):
        if args:
            raise RuntimeError(*args)

    def log(formatter):
        writer.setFormatter(formatter)
        for payload in LOGGED:
            Runner(perform).run(json.dumps(payload).encode())
        writer.flush()
        return [line for line in stream.getvalue().splitlines() if "INFO" in line]

    yield log
    writer.close()
    root.handlers[:] = handlers
    root.setLevel(level)


def shown_line(line):
    """A line without what varies: time, ids, duration; and without our queue."""
    for form, stand_in in (
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME"),
        (r'\bpid("?[=:])\d+', r"pid\1P"),
        (r'\btid=\w+|"tid":"\w+"', "TID"),
        (r'\belapsed("?[=:])\d+\.\d+', r"elapsed\1S"),
        (r' queue=default|"queue":"default",|,"queue":"default"', ""),
    ):
        line = re.sub(form, stand_in, line)
    return line


@pytest.mark.parametrize(("file", "name"), of_kind("log"))
def test_the_lines_of_three_jobs_are_the_recorded_ones(file, name, log):
    formatter = (
        JSONFormatter()
        if name.endswith("JSON")
        else LineFormatter(colour=False, with_time="WithoutTimestamp" not in name)
    )

    ours = log(formatter)

    assert [shown_line(line) for line in ours] == [
        shown_line(line) for line in FILES[file][name]["lines"]
    ]
