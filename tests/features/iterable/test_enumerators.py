"""What jobs iterate over: begun anywhere anew, each gives every item once."""

import asyncio
import csv
import gzip
import io
import itertools
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import CSV_ROWS

from kiqbridge.features.iterable import enumerators


def taken(pairs, count):
    """The first so many pairs of an enumerator, which is then left."""
    try:
        return list(itertools.islice(pairs, count))
    finally:
        pairs.close()


def assert_goes_on_anywhere(begin, items):
    """Left at each item, also the first, and begun anew from its cursor: nothing is missed or doubled."""
    pairs = list(begin(None))
    assert [item for item, _ in pairs] == items
    for index, (_, cursor) in enumerate(pairs):
        kept = json.loads(json.dumps(cursor))
        assert list(begin(kept)) == pairs[index:]


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "data"
        path.write_bytes(content)
        return path

    return write


class TestSequence:
    @given(st.lists(st.integers(), max_size=10))
    def test_it_goes_on_anywhere(self, items):
        assert_goes_on_anywhere(lambda cursor: enumerators.sequence(items, cursor=cursor), items)

    def test_a_range_of_any_size_is_begun_in_the_midst_and_one_that_grows_followed(self):
        many, at = range(0, 10**15, 3), 10**14
        pairs = taken(enumerators.sequence(many, cursor=at), 2)
        assert pairs == [(3 * at, at), (3 * at + 3, at + 1)]
        items = [1]
        pairs = enumerators.sequence(items, cursor=None)
        assert next(pairs) == (1, 0)
        items.append(2)
        assert list(pairs) == [(2, 1)]

    @pytest.mark.parametrize("cursor", ["a", -1, 1.5, True, [0]])
    def test_a_cursor_of_something_else_is_refused(self, cursor):
        with pytest.raises(ValueError, match=r"is not an index.*it-JID"):
            list(enumerators.sequence([1], cursor=cursor))


class TestNumbers:
    @given(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from([-2, -1, 1, 2]))
    def test_it_goes_on_anywhere(self, start, stop, step):
        assert_goes_on_anywhere(
            lambda cursor: enumerators.numbers(start, stop, step, cursor=cursor),
            list(range(start, stop, step)),
        )

    def test_without_an_end_it_goes_on_for_ever_and_a_step_of_0_is_refused(self):
        pairs = taken(enumerators.numbers(7, cursor=10**30), 2)
        assert pairs == [(10**30, 10**30), (10**30 + 1, 10**30 + 1)]
        with pytest.raises(ValueError, match="step: 0"):
            next(enumerators.numbers(1, 2, 0, cursor=None))
        with pytest.raises(ValueError, match="size: 0"):
            next(enumerators.batches(iter([(1, 1)]), 0))


KEYS = st.lists(st.integers(0, 50), unique=True, max_size=12).map(sorted)


def behind(keys, key):
    return [{"id": each} for each in keys if key is None or each > key]


class TestWhatHasKeys:
    @given(KEYS)
    def test_a_restartable_source_goes_on_anywhere(self, keys):
        assert_goes_on_anywhere(
            lambda cursor: enumerators.restartable(
                lambda key: behind(keys, key), key=lambda row: row["id"], cursor=cursor
            ),
            behind(keys, None),
        )

    @given(KEYS, st.integers(1, 5))
    def test_pages_go_on_anywhere(self, keys, size):
        assert_goes_on_anywhere(
            lambda cursor: enumerators.pages(
                lambda key: behind(keys, key)[:size], key=lambda row: row["id"], cursor=cursor
            ),
            behind(keys, None),
        )

    @given(KEYS, st.integers(1, 5))
    def test_asynchronous_ones_give_the_same(self, keys, size):
        async def rows(key):
            for row in behind(keys, key):
                await asyncio.sleep(0)
                yield row

        async def page(key):
            await asyncio.sleep(0)
            return behind(keys, key)[:size]

        async def compare():
            expected = enumerators.pages(
                lambda key: behind(keys, key)[:size], key=lambda row: row["id"], cursor=None
            )
            pairs = list(expected)
            for start in (None, *(cursor for _, cursor in pairs)):
                wanted = pairs if start is None else pairs[[c for _, c in pairs].index(start) :]
                for source in (
                    enumerators.async_restartable(rows, key=lambda row: row["id"], cursor=start),
                    enumerators.async_pages(page, key=lambda row: row["id"], cursor=start),
                ):
                    assert [pair async for pair in source] == wanted

        asyncio.run(compare())

    def test_a_source_is_closed_when_it_is_left(self):
        closed = []

        def rows(key):
            try:
                yield from behind([1, 2, 3], key)
            finally:
                closed.append(True)

        taken(enumerators.restartable(rows, key=lambda row: row["id"], cursor=None), 1)

        assert closed == [True]


LINES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n\ufeff"), max_size=6), max_size=8
)


class TestLines:
    @given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans())
    def test_they_go_on_anywhere(self, lines, end, is_ended):
        text = end.join(lines) + (end if is_ended and lines else "")
        expected = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []

        assert_goes_on_anywhere(
            lambda cursor: enumerators.lines(lambda: io.BytesIO(text.encode()), cursor=cursor),
            expected,
        )

    def test_the_cursor_is_the_byte_offset(self, write):
        path = write("é\nb\n\nlast".encode())
        pairs = [("é", 0), ("b", 3), ("", 5), ("last", 6)]
        assert list(enumerators.lines(path, cursor=None)) == pairs
        assert list(enumerators.lines(str(path), cursor=5)) == pairs[2:]
        path = write("\ufeffa\nb\n".encode())  # with a byte order mark
        assert list(enumerators.lines(path, cursor=None)) == [("a", 0), ("b", 5)]
        path = write("Größe\nMaß\n".encode("latin-1"))
        assert list(enumerators.lines(path, cursor=6, encoding="latin-1")) == [("Maß", 6)]

    @pytest.mark.parametrize("encoding", ["utf-16", "UTF_32_LE"])
    def test_encodings_whose_line_end_is_no_single_byte_are_refused(self, write, encoding):
        with pytest.raises(ValueError, match=r"encoding: .* convert the file"):
            next(enumerators.lines(write(b"a\n"), cursor=None, encoding=encoding))

    @pytest.mark.parametrize("cursor", [1, 3, 4, 100])
    def test_another_file_than_before_is_noticed(self, write, cursor):
        with pytest.raises(ValueError, match=f"no line begins at byte {cursor} of .*data"):
            list(enumerators.lines(write(b"ab\n"), cursor=cursor))

    def test_a_compressed_file_is_read_through_a_function(self, tmp_path):
        path = tmp_path / "data.gz"
        path.write_bytes(gzip.compress(b"a\nb\nc\n"))

        def begin(cursor):
            return enumerators.lines(lambda: gzip.open(path), cursor=cursor)

        assert_goes_on_anywhere(begin, ["a", "b", "c"])

    def test_the_file_is_closed_when_it_is_left_also_by_batches(self):
        opened = []

        def source():
            opened.append(io.BytesIO(b"a\nb\nc\n"))
            return opened[-1]

        taken(enumerators.lines(source, cursor=None), 1)
        taken(enumerators.batches(enumerators.lines(source, cursor=None), 2), 1)
        assert [file.closed for file in opened] == [True, True]

    def test_nothing_is_loaded_of_a_file_but_what_is_read(self, tmp_path):
        path = tmp_path / "large"
        line = b"x" * 999 + b"\n"
        size = 300 << 20
        with path.open("wb") as file:  # a hole in the midst: no room on the disk is needed
            file.write(line)
            file.seek(size - 1)
            file.write(b"\n")
            file.write(line)

        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        try:
            assert taken(enumerators.lines(path, cursor=None), 1) == [("x" * 999, 0)]
            assert list(enumerators.lines(path, cursor=size)) == [("x" * 999, size)]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak - before < 4 * enumerators.BUFFER_BYTES


def csv_bytes(rows, **dialect):
    file = io.StringIO(newline="")
    csv.writer(file, **dialect).writerows(rows)
    return file.getvalue().encode()


class TestCsvRows:
    @given(CSV_ROWS, st.sampled_from(["\n", "\r\n"]), st.sampled_from([",", ";"]))
    def test_they_go_on_anywhere(self, rows, end, delimiter):
        # All quoted: csv.writer leaves a \r as it is where \n alone ends the lines.
        content = csv_bytes(rows, lineterminator=end, delimiter=delimiter, quoting=csv.QUOTE_ALL)

        assert_goes_on_anywhere(
            lambda cursor: enumerators.csv_rows(
                lambda: io.BytesIO(content), cursor=cursor, header=False, delimiter=delimiter
            ),
            rows,
        )

    @given(CSV_ROWS, st.booleans())
    def test_with_a_header_they_are_what_csv_dictreader_gives(self, rows, has_mark):
        content = (b"\xef\xbb\xbf" if has_mark else b"") + csv_bytes([["id", "two\nlines"], *rows])
        expected = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))

        assert_goes_on_anywhere(
            lambda cursor: enumerators.csv_rows(lambda: io.BytesIO(content), cursor=cursor),
            expected,
        )
        assert len(expected) == len(rows)

    def test_the_cursor_is_the_byte_at_which_a_row_begins(self, write):
        path = write(b'name,note\nada,"two\nlines"\n\nbob,\xc3\xa9\n')

        assert list(enumerators.csv_rows(path, cursor=None)) == [
            ({"name": "ada", "note": "two\nlines"}, 10),
            ({"name": "bob", "note": "é"}, 27),
        ]
        assert list(enumerators.csv_rows(path, cursor=27)) == [({"name": "bob", "note": "é"}, 27)]

    @pytest.mark.parametrize("content", [b"", b"\n\n", b"name,note\n", b"name,note"])
    def test_a_file_without_rows_and_a_truncated_one(self, write, content):
        path = write(content)
        assert list(enumerators.csv_rows(path, cursor=None)) == []
        with pytest.raises(ValueError, match="no line begins at byte 500"):
            list(enumerators.csv_rows(path, cursor=500))

    def test_a_quote_that_is_never_closed_does_not_swallow_the_file(self):
        content = b'name\n"ada\n' + b"bob\n" * 100_000

        with pytest.raises(csv.Error, match="field larger than field limit"):
            list(enumerators.csv_rows(lambda: io.BytesIO(content), cursor=None))


class TestBatches:
    @given(st.lists(st.integers(), max_size=12), st.integers(1, 5))
    def test_they_go_on_anywhere(self, items, size):
        assert_goes_on_anywhere(
            lambda cursor: enumerators.batches(enumerators.sequence(items, cursor=cursor), size),
            [items[at : at + size] for at in range(0, len(items), size)],
        )

    def test_asynchronous_ones(self):
        async def source():
            for number in range(5):
                yield number, number * 10

        async def collect():
            return [pair async for pair in enumerators.async_batches(source(), 2)]

        assert asyncio.run(collect()) == [([0, 1], 0), ([2, 3], 20), ([4], 40)]
