"""What Ruby's operator API was recorded to do and to answer, ours does and answers, on the same data.

The keys before are the recorded ones, the keys afterwards must be as well, byte by byte; masked are the
times of the moment, and left out our own keys. Versions differ in two ways: 6.4.1 retries all from the
highest score down, later versions and ours from the lowest up; and 6.4.1 takes processes off that are
gone without noting when.
"""

import json
import re
import time

import pytest
from support.vectors import (
    FILES,
    Moment,
    comparable,
    given_in,
    of_kind,
    profile_of,
    put_state,
    recorded_state,
    state_of,
)

from kiqbridge.api import (
    DeadSet,
    ProcessSet,
    Queue,
    RetrySet,
    ScheduledSet,
    Stats,
    WorkSet,
    open_operator,
    read_audit,
)
from kiqbridge.client.client import Client
from kiqbridge.wire.payload import read_timestamp

_ENQUEUED = re.compile(rb'"enqueued_at":([\d.]+)')


@pytest.fixture
def operator_of(redis_url):
    clients = []

    def made(file):
        clients.append(Client(redis_url, profile=profile_of(file)))
        return open_operator(client=clients[-1], by="ann")

    yield made
    for client in clients:
        client.close()


def each(entries, action):
    """As Ruby's `each(&:action)`."""
    for entry in list(entries):
        assert getattr(entry, action)() is True


def signal(operator, action):
    processes = ProcessSet(operator)
    processes.cleanup()
    for process in processes:
        getattr(process, action)()


def retry_all(operator, file):
    if file == "api-6.4.1":
        return RetrySet(operator).apply("retry", list(RetrySet(operator)))
    return RetrySet(operator).retry_all()


def reschedule(operator, file):
    [entry] = ScheduledSet(operator)
    return 1_900_000_005.0 if entry.reschedule(1_900_000_005) else None


def first_of_queue(operator, file):
    return next(iter(Queue("default", operator))).delete()


def counts(operator, file):
    stats = Stats(operator)
    return [stats.processed, stats.failed, stats.enqueued]


CALLS = {
    "api_retry_retry": lambda operator, _: each(RetrySet(operator), "retry"),
    "api_retry_kill": lambda operator, _: each(RetrySet(operator), "kill"),
    "api_retry_delete": lambda operator, _: each(RetrySet(operator), "delete"),
    "api_retry_all": retry_all,
    "api_schedule_add_to_queue": lambda operator, _: each(ScheduledSet(operator), "add_to_queue"),
    "api_schedule_reschedule": reschedule,
    "api_dead_retry": lambda operator, _: each(DeadSet(operator), "retry"),
    "api_queue_delete_job": first_of_queue,
    "api_queue_clear": lambda operator, _: bool(Queue("default", operator).clear()),
    "api_stats": counts,
    "api_quiet": lambda operator, _: signal(operator, "quiet"),
    "api_stop": lambda operator, _: signal(operator, "stop"),
    "api_dump_threads": lambda operator, _: signal(operator, "dump_threads"),
    "api_workset": lambda operator, _: len(list(WorkSet(operator))),
}
READING = {"api_stats", "api_workset"}


def answer(file, name):
    """What Ruby's call returned, where that says something."""
    returned = FILES[file][name]["result"]["return"]
    if name in {"api_quiet", "api_stop", "api_dump_threads"}:
        return None  # Ruby's rows of the processes
    if (file, name) == ("api-6.4.1", "api_retry_all"):
        return 2  # Ruby's returns nothing there
    return True if name == "api_queue_clear" else returned


def comparable_state(state, at, given):
    """The keys, with the texts of jobs and the scores of this moment masked."""

    def text(raw):
        return comparable(raw, Moment(at=at, given=given))

    found = {}
    for key, (kind, value) in state.items():
        if kind == "list":
            found[key] = [text(each) for each in value]
        elif kind == "zset":
            found[key] = [
                (text(member), "NOW" if abs(score - at) < 60 else score) for member, score in value
            ]
        else:
            found[key] = value
    found.pop("process_cleanup", None)  # 6.4.1 has none
    return found


def recorded_moment(operation):
    """When the recorded call was made: out of the time that it has set, epoch seconds."""
    state = recorded_state(operation["keys"])
    before = json.dumps(operation["before"]).encode()
    for key, (kind, value) in state.items():
        if key == "dead":
            return value[0][1]
        if kind == "list":
            for found in _ENQUEUED.findall(value[0]):
                if found not in before:
                    return read_timestamp(found.decode())
    return 0.0


@pytest.mark.parametrize(
    "case", of_kind("api") + of_kind("revived") + of_kind("signal"), ids="-".join
)
def test_a_call_answers_and_leaves_what_ruby_recorded(case, operator_of, redis):
    file, name = case
    operation = FILES[file][name]
    put_state(redis, operation["before"])
    operator = operator_of(file)

    assert CALLS[name](operator, file) == answer(file, name)

    ours, theirs = state_of(redis), recorded_state(operation["keys"])
    given = frozenset().union(
        *(
            given_in(member.encode(), without=b"enqueued_at")
            for key in operation["before"]
            for member in members_of(key)
        )
    )
    assert comparable_state(ours, time.time(), given) == comparable_state(
        theirs, recorded_moment(operation), given
    )
    assert bool(read_audit(operator)) == (name not in READING)


def members_of(key):
    if key["type"] == "zset":
        return [entry["member"] for entry in key["value"]]
    return key["value"] if key["type"] == "list" else []


def test_the_calls_are_all_that_were_recorded():
    names = {name for file, found in FILES.items() if file.startswith("api-") for name in found}

    assert names - {"cancel", "deploy_mark"} == CALLS.keys()


@pytest.mark.parametrize(("file", "name"), of_kind("work"))
def test_work_is_read_as_by_each_version(file, name, operator_of, redis):
    operation = FILES[file][name]
    put_state(redis, operation["state"])

    works = WorkSet(operator_of(file))
    [work] = works

    assert works.find_work(work.job.jid).tid == work.tid
    assert works.find_work("0" * 24) is None
    # A version reads one of the two names of the hash; we read both, as our processes write both.
    shown = [
        each
        for version in operation["read"].values()
        if isinstance(version["work"], dict)
        for each in version["work"]["list"]
    ]
    assert shown
    for theirs in shown:
        assert (work.process, work.tid) == (theirs["process"], theirs["tid"])
        assert work.run_at == read_timestamp(
            int(theirs["run_at"]) if float(theirs["run_at"]).is_integer() else theirs["run_at"]
        )
        assert work.job.queue == theirs["queue"]
        job = theirs["payload"] if "payload" in theirs else theirs["job"]["item"]
        assert dict(work.job.item) == job


@pytest.mark.parametrize("name", [name for name in FILES["readers"] if name.startswith("process_")])
def test_processes_are_read_as_by_8(name, operator_of, redis):
    operation = FILES["readers"][name]
    put_state(redis, operation["state"])
    theirs = operation["read"]["8.1.7"]["processes"]

    [ours] = ProcessSet(operator_of("readers"))

    [row] = theirs["list"]
    assert (ours.identity, ours.hostname, ours.pid) == (
        row["identity"],
        row["hostname"],
        row["pid"],
    )
    assert (ours.tag, list(ours.labels), ours.busy) == (row["tag"], row["labels"], row["busy"])
    assert (ours.started_at, ours.beat_at) == (row["started_at"], row["beat"])
    assert (ours.rss_kb, ours.rtt_us, ours.is_quiet) == (row["rss"], row["rtt_us"], row["stopping"])
    assert sorted(ours.queues) == sorted(row["queues"])
    assert ours.version == (row["version"] or "")


def test_entries_of_sets_are_read_as_by_8(operator_of, redis):
    operation = FILES["readers"]["sets"]
    put_state(redis, operation["state"])
    operator = operator_of("readers")

    for job_set, name in ((RetrySet, "retries"), (DeadSet, "dead"), (ScheduledSet, "scheduled")):
        theirs = operation["read"]["8.1.7"][name]
        ours = list(job_set(operator))
        assert job_set(operator).size == theirs["size"]
        for entry, row in zip(ours, theirs["entries"], strict=True):
            assert entry.text.decode() == row["value"]
            assert entry.jid == (row["jid"] or "")
            assert entry.job_class == (row["class"] or "")
            assert entry.display_class == (row["display_class"] or "")
            assert (dict(entry.item), list(entry.tags)) == (row["item"], row["tags"])
            assert entry.score == row["score"] == row["at"]
            assert list(entry.error_backtrace) == (row["error_backtrace"] or [])
            if row[
                "item"
            ]:  # of what cannot be read Ruby shows the text in the place of the arguments
                assert list(entry.args) == row["args"]
                assert list(entry.display_args) == row["display_args"]
                assert entry.queue == row["queue"]
                assert entry.created_at == row["created_at"]
                assert entry.failed_at == row["failed_at"]
