"""Percentiles out of histograms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.api.percentiles import Histogram, bucket_label, read_histogram
from kiqbridge.wire.measures import BOUNDS_MS, BUCKETS

COUNTS = st.lists(st.integers(0, 65535), min_size=BUCKETS, max_size=BUCKETS)


def histogram(**counts):
    return Histogram(tuple(counts.get(f"b{index}", 0) for index in range(BUCKETS)))


@pytest.mark.parametrize(
    ("share", "milliseconds"), [(0, 0.0), (0.25, 5.0), (0.5, 10.0), (1, 20.0), (7, 20.0)]
)
def test_within_a_bucket_it_is_linear(share, milliseconds):
    assert histogram(b0=4).percentile(share) == milliseconds


def test_it_lies_in_the_bucket_that_holds_its_rank():
    spread = histogram(b0=50, b3=45, b25=5)

    assert spread.p50 == 20.0
    assert spread.percentile(0.95) == 65.0
    assert spread.p95 == 65.0
    assert spread.p99 == BOUNDS_MS[-1]


def test_of_nothing_there_is_none():
    assert Histogram().p50 is None


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
