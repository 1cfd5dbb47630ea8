"""How Sidekiq's metrics are named and cut: buckets of durations, buckets of time (protocol §12.2, §12.3).

The counters of a minute are under one name for the readers of Sidekiq 7 and under another one for those
of 8; 8 has those of ten minutes besides. All times are UTC.
"""

import time
from typing import Final

BOUNDS_MS: Final = (
    *(20.0, 30.0, 45.0, 65.0, 100.0, 150.0, 225.0, 335.0, 500.0, 750.0, 1100.0, 1700.0, 2500.0),
    *(3800.0, 5750.0, 8500.0, 13_000.0, 20_000.0, 30_000.0, 45_000.0, 65_000.0, 100_000.0),
    *(150_000.0, 225_000.0, 335_000.0),
)
"""Upper bounds of all histogram buckets but the last, in milliseconds; a bound is in the next one."""

BUCKETS: Final = len(BOUNDS_MS) + 1

MINUTE_TTL_S: Final = 8 * 3600
TEN_MINUTES_TTL_S: Final = 3 * 86_400


def minute_7(at: time.struct_time) -> str:
    """A minute in the key of its counters, for `Keys.metrics`: `20260214|8:3`."""
    return f"{time.strftime('%Y%m%d', at)}|{at.tm_hour}:{at.tm_min}"


def minute_8(at: time.struct_time) -> str:
    """A minute in the key of its counters, for readers from version 8: `260214|8:03`."""
    return f"{time.strftime('%y%m%d', at)}|{at.tm_hour}:{at.tm_min:02}"


def ten_minutes_8(at: time.struct_time) -> str:
    """Ten minutes in the key of their counters: `260214|8:0`."""
    return f"{time.strftime('%y%m%d', at)}|{at.tm_hour}:{at.tm_min // 10}"


def histogram_minute_7(at: time.struct_time) -> str:
    """A minute in the key of a histogram, for `Keys.histogram_7`: `14-08:3`."""
    return f"{at.tm_mday:02}-{at.tm_hour:02}:{at.tm_min}"


def histogram_minute_8(at: time.struct_time) -> str:
    """A minute in the key of a histogram, for `Keys.histogram_8`: `14-8:3`."""
    return f"{at.tm_mday}-{at.tm_hour}:{at.tm_min}"


def field_name(job_class: str) -> str:
    """A class as part of a field and of a key: readers split fields at `|`; and as UTF-8 can carry it."""
    return job_class.replace("|", "!").encode(errors="replace").decode()
