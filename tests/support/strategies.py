"""What hypothesis draws from: JSON values, payloads, queues, settings. The only such file."""

import copy

from hypothesis import strategies as st

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
"""Any text that UTF-8 can carry: control characters, U+2028 and emoji included."""

INTEGERS = st.one_of(
    st.integers(-10, 10),
    st.integers(),
    st.builds(
        lambda power, offset, sign: sign * (2**power + offset),
        st.integers(30, 400),
        st.integers(-2, 2),
        st.sampled_from([1, -1]),
    ),
)
"""Small ones, and those around powers of two, where readers begin to round."""

FLOATS = st.floats(allow_nan=False, allow_infinity=False)

SCALARS = st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, TEXTS)

JSON_VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
"""Whatever a job may carry."""

ARGUMENTS = st.lists(JSON_VALUES, max_size=5)

EPOCH_SECONDS = st.floats(1_000_000_000, 4_000_000_000)

CLASS_NAMES = st.from_regex(r"\A[A-Z][A-Za-z0-9]{0,8}(::[A-Z][A-Za-z0-9]{0,8}){0,2}\Z")

QUEUE_NAMES = st.from_regex(r"\A[a-z][a-z0-9_.:-]{0,10}\Z")

FOREIGN_ATTRIBUTES = st.dictionaries(TEXTS.map("x_{}".format), JSON_VALUES, max_size=4)
"""Attributes that no version knows and every one must keep."""

PAYLOADS = st.builds(
    lambda known, foreign: {**known, **foreign},
    st.fixed_dictionaries(
        {"class": CLASS_NAMES, "args": ARGUMENTS, "jid": st.from_regex(r"\A[0-9a-f]{24}\Z")},
        optional={
            "queue": QUEUE_NAMES,
            "retry": st.one_of(st.booleans(), st.integers(0, 30), st.none()),
            "created_at": EPOCH_SECONDS,
            "enqueued_at": EPOCH_SECONDS,
            "retry_count": st.integers(-1, 30),
            "retry_queue": QUEUE_NAMES,
            "failed_at": EPOCH_SECONDS,
            "dead": st.booleans(),
        },
    ),
    FOREIGN_ATTRIBUTES,
)
"""Jobs as any producer may have written them."""

QUEUES = st.lists(
    st.tuples(QUEUE_NAMES, st.integers(0, 5)),
    min_size=1,
    max_size=6,
    unique_by=lambda pair: pair[0],
)
"""Names with weights."""

CSV_ROWS = st.lists(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff"), max_size=8),
        min_size=1,
        max_size=4,
    ).filter(lambda row: row != [""]),
    max_size=12,
)
"""Rows that a CSV file can carry: separators, quotes and line breaks within the fields included.

A row of one empty field is written as an empty line, which is no row.
"""


@st.composite
def mutated(draw, value, *, changes=3):
    """A JSON value in which some members, at any depth, are others, gone, or of another type."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, changes))):
        places = list(_places(value))
        if not places:
            return draw(JSON_VALUES)
        container, key = draw(st.sampled_from(places))
        if draw(st.booleans()):
            container[key] = draw(JSON_VALUES)
        else:
            del container[key]
    return value


def _places(value):
    if isinstance(value, dict | list):
        for key, child in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _places(child)
