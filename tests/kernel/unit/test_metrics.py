"""Measuring jobs in memory: under which name, in which bucket, what is new, and percentiles."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import at_once

from kiqbridge.api.percentiles import Histogram, bucket_label, read_histogram
from kiqbridge.config.merge import merge
from kiqbridge.engine.settle.metrics import (
    FORMS,
    LONGEST_NAME,
    MOST_NAMES,
    OTHERS,
    Metrics,
    measured_name,
)
from kiqbridge.errors import ConfigError
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.measures import BOUNDS_MS, BUCKETS


def bucket_of(milliseconds):
    metrics = Metrics(Keys(), identity="host:1:aaa")
    metrics.record("Work", milliseconds, False)
    [(index, count)] = metrics._take()["Work"].histogram.items()
    assert count == 1
    return index


class TestHistogram:
    @given(st.floats(0, 1e12))
    def test_the_bucket_is_the_first_whose_bound_is_strictly_greater(self, milliseconds):
        bounds = (*BOUNDS_MS, math.inf)

        index = bucket_of(milliseconds)

        assert milliseconds < bounds[index]
        assert all(bound <= milliseconds for bound in bounds[:index])

    def test_there_are_26_buckets_with_growing_bounds_each_in_the_next_bucket(self):
        assert BUCKETS == 26
        assert list(BOUNDS_MS) == sorted(set(BOUNDS_MS))
        times = (0, 19.99, 20, 149, 150, 13_000, 334_999, 335_000)
        assert [bucket_of(time) for time in times] == [0, 0, 1, 5, 6, 17, 24, 25]


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({}, "Work"),
        ({"wrapped": "NightlyJob"}, "NightlyJob"),
        *[({"wrapped": odd}, "Work") for odd in (None, "", 5, True, ["NightlyJob"], {"a": 1})],
        *[({"wrapped": odd}, "Work") for odd in ("<b>Nightly</b>", "a|b", "two words", "line\n")],
        ({"wrapped": "Billing::Nightly_2.Job-a"}, "Billing::Nightly_2.Job-a"),
        ({"wrapped": "x" * 10_000}, "x" * LONGEST_NAME),
    ],
)
def test_the_name_is_that_of_the_wrapped_class_if_there_is_one(attributes, name):
    assert measured_name({"class": "changed meanwhile", **attributes}, "Work") == name


class TestNew:
    """What `flush` takes: each difference once, over all threads."""

    def setup_method(self):
        self.metrics = Metrics(Keys(), identity="host:1:aaa")

    def take(self):
        return {
            name: (dict(each.histogram), each.failed, each.ms)
            for name, each in self.metrics._take().items()
        }

    @given(
        st.lists(st.tuples(st.sampled_from("ABC"), st.floats(0, 1e6), st.booleans()), max_size=50),
        st.integers(0, 50),
    )
    def test_each_execution_counts_once_and_only_successes_with_time(self, executions, half):
        self.setup_method()
        taken = {}
        for part in (executions[:half], executions[half:]):
            for execution in part:
                self.metrics.record(*execution)
            for name, (histogram, failed, ms) in self.take().items():
                before = taken.get(name, (0, 0, 0))
                new = (sum(histogram.values()), failed, ms)
                taken[name] = tuple(map(sum, zip(before, new, strict=True)))

        assert taken.keys() == {name for name, _, _ in executions}
        for name, (succeeded, failed, ms) in taken.items():
            times = [time for each, time, fails in executions if each == name and not fails]
            assert succeeded == len(times)
            assert failed == sum(each == name and fails for each, _, fails in executions)
            assert ms == pytest.approx(sum(times), abs=1)

    def test_threads_are_added_up_and_only_what_is_new_is_taken(self):
        def perform():
            self.metrics.record("A", 25, False)
            self.metrics.record("A", 0, True)
            self.metrics.record("B", 0, True)

        self.metrics.record("A", 10, False)
        at_once(perform)
        assert self.take() == {"A": ({0: 1, 1: 1}, 1, 35), "B": ({}, 1, 0)}
        assert self.take() == {}
        self.metrics.record("A", 70, False)
        assert self.take() == {"A": ({4: 1}, 0, 70)}
        assert repr(self.metrics) == "<Metrics for 7 and 8, 2 classes>"
        assert repr(Metrics(Keys(), identity="i", forms="off")) == "<Metrics for none, 0 classes>"

    def test_names_beyond_the_limit_count_together(self):
        for number in range(MOST_NAMES + 50):
            self.metrics.record(f"Work{number}", 1.0, False)
        self.metrics.record("Work0", 1.0, False)

        taken = self.take()
        assert len(taken) == MOST_NAMES + 1
        assert taken[OTHERS] == ({0: 50}, 0, 50)
        assert taken["Work0"] == ({0: 2}, 0, 2)

    def test_parts_of_milliseconds_add_up(self):
        taken = []
        for _ in range(40):
            for _ in range(5):
                self.metrics.record("A", 0.25, False)
            taken.append(self.take()["A"][2])

        assert sum(taken) == 50
        assert set(taken) == {1, 2}

    def test_names_that_readers_would_cut_or_redis_cannot_carry_are_changed(self):
        for name in ("A|B", "A!B", "C\ud800", "Ã|é|"):
            self.metrics.record(name, 1, False)

        assert self.take() == {
            "A!B": ({0: 2}, 0, 2),
            "C?": ({0: 1}, 0, 1),
            "Ã!é!": ({0: 1}, 0, 1),
        }


class TestSetting:
    def config(self, environ=(), file=()):
        return merge(file=dict(file), file_name="the file", environ=dict(environ), flags={})

    def test_every_form_may_be_set_and_both_is_the_default(self):
        assert self.config().metrics == "both"
        for value in FORMS:
            assert self.config(environ={"KIQBRIDGE_METRICS": value}).metrics == value
        for value, meaning in ((False, "off"), (8, "8"), ("Off", "off")):  # as YAML reads it
            assert self.config(file={"metrics": value}).metrics == meaning

    @pytest.mark.parametrize("value", [True, 9, "none"])
    def test_others_are_refused(self, value):
        with pytest.raises(ConfigError, match=r"metrics: .* is not one of both, 7, 8, off \(from"):
            self.config(file={"metrics": value})


COUNTS = st.lists(st.integers(0, 65535), min_size=BUCKETS, max_size=BUCKETS)


def histogram(**counts):
    return Histogram(tuple(counts.get(f"b{index}", 0) for index in range(BUCKETS)))


def test_within_a_bucket_it_is_linear_and_of_nothing_there_is_none():
    for share, milliseconds in ((0, 0.0), (0.25, 5.0), (0.5, 10.0), (1, 20.0), (7, 20.0)):
        assert histogram(b0=4).percentile(share) == milliseconds
    assert Histogram().p50 is None


def test_it_lies_in_the_bucket_that_holds_its_rank():
    spread = histogram(b0=50, b3=45, b25=5)

    assert spread.p50 == 20.0
    assert spread.percentile(0.95) == 65.0
    assert spread.p95 == 65.0
    assert spread.p99 == BOUNDS_MS[-1]


@given(COUNTS)
def test_percentiles_grow_with_their_share_and_stay_within_the_bounds(counts):
    shown = Histogram(tuple(counts))
    found = [shown.percentile(share / 20) for share in range(21)]

    if not any(counts):
        assert set(found) == {None}
    else:
        assert found == sorted(found)
        assert 0 <= found[0] <= found[-1] <= BOUNDS_MS[-1]


@given(COUNTS)
def test_what_is_written_as_counters_is_read(counts):
    raw = b"".join(count.to_bytes(2, "big") for count in counts)

    assert read_histogram(raw) == Histogram(tuple(counts))
    assert read_histogram(raw.rstrip(b"\0")) == Histogram(tuple(counts))


def test_buckets_are_labelled_as_in_rubys_pages():
    assert [bucket_label(index) for index in (0, 9, 10, 24, 25)] == [
        *("20ms", "750ms", "1.1s", "335s"),
        "Slow",
    ]
