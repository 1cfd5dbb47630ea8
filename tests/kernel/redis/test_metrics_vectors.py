"""Metrics as Sidekiq's workers wrote them, and as its readers read them.

The measurements of a recorded flush are given to our recorder, so the very commands must come out.
"""

import calendar
import re
from itertools import pairwise

import pytest
from support.vectors import FILES, of_kind, recorded_state, state_of

from kiqbridge.engine.settle.metrics import Measured, Metrics
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.measures import BOUNDS_MS

VERSIONS = {"worker-7.3.10": "7", "worker-8.1.7": "8"}
TEN_MINUTES = re.compile(r"j\|\d{6}\|\d+:\d")
AT_EXIT = "hard_shutdown"


def is_of_metrics(words):
    return words[0] == "bitfield" or (
        words[0] in {"hincrby", "expire"} and re.match(r"j\||(h\|)?\w+-\d+-\d+:", words[1])
    )


def flushes():
    """(file, operation) of each recorded operation in which metrics were flushed."""
    return [
        (file, name)
        for file in VERSIONS
        for name, operation in FILES[file].items()
        if any(is_of_metrics(command["cmd"]) for command in operation["commands"])
    ]


def recorded_flush(file, name):
    return [
        command["cmd"] for command in FILES[file][name]["commands"] if is_of_metrics(command["cmd"])
    ]


def moment_of(commands):
    """The minute of a flush, epoch seconds, from the key of its minute."""
    key = [words[1] for words in commands if words[1].startswith("j|")][-1]
    _, day, time = key.split("|")
    year = int(day[:-4]) + (2000 if len(day) == 6 else 0)
    hour, minute = map(int, time.split(":"))
    return calendar.timegm((year, int(day[-4:-2]), int(day[-2:]), hour, minute, 0))


def perform_as_recorded(metrics, commands):
    """Record what leads to these commands: times of the recorded sums, in the recorded buckets."""
    counts = {}
    for words in commands:
        if words[0] == "hincrby" and not TEN_MINUTES.fullmatch(words[1]):
            job_class, field = words[2].split("|")
            counts.setdefault(job_class, {})[field] = int(words[3])
    for job_class, fields in counts.items():
        succeeded = fields["p"] - fields.get("f", 0)
        for _ in range(succeeded):
            metrics.record(job_class, fields["ms"] / succeeded, False)
        for _ in range(fields.get("f", 0)):
            metrics.record(job_class, 1.0, True)


def commands_in_scripts(redis, act):
    """What the server did within scripts meanwhile, as words."""
    with redis.monitor() as monitor:
        act()
        redis.echo("the end")
        for told in monitor.listen():
            words = told["command"].split(" ")
            if words[0] == "ECHO":
                return
            if told["client_type"] == "lua":
                yield [words[0].lower(), *words[1:]]


@pytest.mark.parametrize(("file", "name"), flushes())
def test_a_flush_runs_the_recorded_commands(file, name, redis, redis_url):
    theirs = recorded_flush(file, name)
    metrics = Metrics(Keys(), identity="host:1:aaa", forms=VERSIONS[file])
    perform_as_recorded(metrics, theirs)
    connection = RedisPool(redis_url).connection()

    ours = commands_in_scripts(redis, lambda: metrics.flush(connection, moment_of(theirs)))

    assert [words for words in ours if is_of_metrics(words)] == theirs


@pytest.mark.parametrize("file", VERSIONS)
def test_flush_after_flush_the_recorded_keys_are_there(file, redis, redis_url):
    metrics = Metrics(Keys(), identity="host:1:aaa", forms=VERSIONS[file])
    connection = RedisPool(redis_url).connection()
    compared = 0

    for name in [name for each, name in flushes() if each == file and name != AT_EXIT]:
        theirs = recorded_flush(file, name)
        perform_as_recorded(metrics, theirs)
        metrics.flush(connection, moment_of(theirs))
        expected = {
            key: value
            for key, value in recorded_state(FILES[file][name].get("keys", [])).items()
            if is_of_metrics(["expire", key])
        }
        if name.startswith("beat"):  # later ones kept their keys to those of interest
            assert state_of(redis) == expected
            compared += len(expected)

    assert compared >= 5


def test_the_bounds_are_those_that_the_recorded_times_show():
    shown = {
        (int(words[6][1:]), int(other[3]) / int(words[7]))
        for file, name in flushes()
        for words, other in pairwise(recorded_flush(file, name))
        if words[0] == "bitfield" and other[0] == "hincrby" and other[2].endswith("|ms")
    }
    for index, milliseconds in shown:
        lower = BOUNDS_MS[index - 1] if index else 0
        assert lower <= milliseconds < BOUNDS_MS[index]


class Given(Metrics):
    """Metrics with a given measurement."""

    def __init__(self, measured, forms):
        super().__init__(Keys(), identity="host:1:aaa", forms=forms)
        self._waiting.append(measured)


@pytest.mark.parametrize(("file", "name"), of_kind("metrics"))
def test_sidekiqs_readers_read_what_we_write(file, name, redis, redis_url):
    operation = FILES[file][name]
    measured = {"PyJob": Measured(histogram={6: 2}, failed=1, ms=250)}

    Given(measured, "both").flush(RedisPool(redis_url).connection(), operation["now"])

    recorded = recorded_state(operation["state"])
    stats = {key: value for key, value in recorded.items() if key.startswith("stat:")}
    assert state_of(redis) == {key: recorded[key] for key in recorded.keys() - stats.keys()}
    assert stats.keys() == {
        Keys().stat(each, day) for each in ("processed", "failed") for day in ("2026-11-20", None)
    }
