"""What `kiqbridge dev` makes of the worker's log lines, and how it writes."""

import io
import json
from datetime import UTC, datetime

import pytest

from kiqbridge.dev.console import Console, shown_instant
from kiqbridge.dev.worker_child import WorkerLines

JID = "3f9a1c22" + "0" * 16


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ClosedPipe(io.StringIO):
    def write(self, _text):
        raise BrokenPipeError


@pytest.fixture
def stream():
    return io.StringIO()


@pytest.fixture
def lines(stream):
    return WorkerLines(Console(stream, lambda: None))


def entry(message, *, level="INFO", exc=None, **context):
    line = {"ts": "t", "pid": 1, "tid": "a", "lvl": level, "msg": message}
    if context:
        line["ctx"] = {"class": "Pulse", "jid": JID, "queue": "low", **context}
    return json.dumps(line | ({"exc": exc} if exc else {}))


def job_entry(message, **context):
    return entry(message, **{"queue": "low"} | context)


class TestAJob:
    def test_is_told_with_its_rule_from_start_to_done(self, lines, stream):
        lines.expect(JID, "Nightly")

        lines.show(job_entry("start"))
        lines.show(job_entry("done", elapsed=0.25))

        start, done = stream.getvalue().splitlines()
        assert start.endswith("start    Pulse  3f9a1c22  from queue low  rule Nightly")
        assert done.endswith("done     Pulse  3f9a1c22  in 0.250 s  rule Nightly")
        assert lines.counts["done"] == 1
        assert lines.unfinished == 0

    def test_that_fails_shows_its_error_and_traceback(self, lines, stream):
        lines.show(job_entry("start"))
        lines.show(job_entry("fail", elapsed=0.1))
        lines.show(job_entry("ValueError: no", level="WARN", exc="Traceback …\nValueError: no"))

        output = stream.getvalue()
        assert "fail     Pulse  3f9a1c22  in 0.100 s" in output
        assert "warning  Pulse  3f9a1c22  ValueError: no" in output
        assert "\n    Traceback …\n    ValueError: no\n" in output
        assert lines.counts["fail"] == 1

    def test_that_was_interrupted_counts_as_given_back(self, lines, stream):
        lines.show(job_entry("start"))
        lines.show(job_entry("interrupted: given back", elapsed=3.0))

        assert "interrupted and given back" in stream.getvalue()
        assert lines.unfinished == 1

    def test_may_log_the_words_of_its_steps_itself(self, lines, stream):
        lines.show(job_entry("start"))
        lines.show(job_entry("start"))
        lines.show(job_entry("done"))

        assert lines.counts["done"] == 0
        assert stream.getvalue().count(" job      Pulse") == 2


class TestOtherLines:
    @pytest.mark.parametrize("line", ["hello", '{"a": 1}', "{", "[1]", '{"ts": 1}', ""])
    def test_are_shown_as_they_are(self, lines, stream, line):
        lines.show(line)

        assert stream.getvalue() == f"{line}\n"

    def test_of_the_worker_itself_are_marked_so(self, lines, stream):
        lines.show(entry("kiqbridge 0.1.0 is ready: 10 threads"))

        assert " worker " in stream.getvalue()
        assert lines.is_ready


class TestColours:
    def test_are_for_a_terminal_and_left_out_when_nobody_wants_them(self, monkeypatch, stream):
        def written(to):
            Console(to, lambda: None).line("done", "Pulse", "x")
            return to.getvalue()

        monkeypatch.delenv("NO_COLOR", raising=False)
        assert "\033[32m" in written(Terminal())
        assert "\033" not in written(stream)
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\033" not in written(Terminal())


def test_a_reader_that_has_gone_is_told_once():
    told = []
    console = Console(ClosedPipe(), lambda: told.append(True))

    console.text("a")
    console.text("b")

    assert told == [True]


@pytest.mark.parametrize(
    ("instant", "zone", "shown"),
    [
        ("2026-11-21T02:00:00", "Europe/Paris", "Sat 2026-11-21 03:00 CET = 02:00 UTC"),
        ("2026-11-20T23:30:00", "Europe/Paris", "Sat 2026-11-21 00:30 CET = 2026-11-20 23:30 UTC"),
        ("2026-11-21T02:00:07", "UTC", "Sat 2026-11-21 02:00:07 UTC"),
    ],
)
def test_an_instant_is_shown_in_its_zone_and_in_utc(instant, zone, shown):
    assert shown_instant(datetime.fromisoformat(instant).replace(tzinfo=UTC), zone) == shown
