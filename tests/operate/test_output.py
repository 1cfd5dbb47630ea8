"""How commands print: tables on a terminal and elsewhere, JSON, and texts that would act on a terminal."""

import io
import json
import os
import pty
import re
import subprocess
import sys

import pytest

from kiqbridge.commands import output
from kiqbridge.commands.cli import main
from kiqbridge.wire.names import printable, text_of

PRINT = """
import sys
{before}
from kiqbridge.commands.output import write_table
write_table(
    ("name", "arguments", ">jobs"),
    [["a", "x" * 300, "1,000"], ["\\x1b[31m東京", "[b]not bold[/b]", "2"]],
)
"""


def on_terminal(program, columns=80, **env):
    """What a program writes to a terminal of this width."""
    master, slave = pty.openpty()
    try:
        child = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), **env},
        )
        os.close(slave)
        read = bytearray()
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the last one who could write has closed it
                break
            if not part:
                break
            read += part
        assert child.wait() == 0, read.decode()
    finally:
        os.close(master)
    return read.decode()


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        ("plain ünïcödé 東京 🙂", "plain ünïcödé 東京 🙂"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\x9b31m\x7f\x00", r"\x9b31m\x7f\x00"),
        ("\u202egnp.exe\u2066\u200b\u2028", r"\u202egnp.exe\u2066\u200b\u2028"),
        ("10\u00a0000", "10\u00a0000"),
        (text_of(b"\xff\xfe"), r"\xff\xfe"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_does_not_show_itself_is_escaped(raw, seen):
    assert printable(raw) == seen


def test_without_a_terminal_columns_are_aligned_and_bare(capsys):
    output.write_table(
        ("name", "arguments", ">jobs"),
        [["a", "x" * 200, "1,000"], ["東京", "\x1b[2J", "2"]],
    )

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "ARGUMENTS", "JOBS"]
    assert [output.width_of(line) for line in lines] == [4 + 2 + 100 + 2 + 5] * 3
    assert lines[1].endswith("x…  1,000")
    assert lines[2].startswith(r"東京  \x1b[2J ")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_on_a_terminal_a_table_fits_and_has_no_sequence_but_rich_s_own(columns):
    shown = on_terminal(PRINT.format(before=""), columns)

    plain = re.sub(r"\x1b\[[\d;]*m", "", shown).replace("\r", "")
    assert "\x1b[1m" in shown
    assert "\x1b" not in plain
    assert r"\x1b[31m" in plain or columns == 40
    assert "[b]not" in plain
    assert max(output.width_of(line) for line in plain.splitlines()) <= columns


def test_what_is_to_be_copied_is_cut_last():
    program = """
from kiqbridge.commands.output import write_table
write_table(
    ("!jid", "class", "arguments"),
    [["b4a577edbccf1d805744efa9", "Billing::MonthlyInvoice", "x" * 300]],
)
"""

    cells = on_terminal(program, 50).splitlines()[1].split()

    assert cells[0] == "b4a577edbccf1d805744efa9"
    assert all(cell.endswith("…") for cell in cells[1:])


def test_no_color_is_honoured():
    assert "\x1b[3" not in on_terminal(PRINT.format(before=""), NO_COLOR="1")


def test_without_rich_a_terminal_gets_the_plain_table():
    shown = on_terminal(PRINT.format(before="sys.modules['rich'] = None"))

    assert shown.startswith("NAME")
    assert "\x1b" not in shown


def test_json_is_one_line_of_ascii_whatever_it_holds(capsys):
    output.write_json({"a": [float("inf"), float("nan"), 1.5], "b": "\x1b東\udcff", "c": (1,)})

    line = capsys.readouterr().out
    assert line.isascii() and "\x1b" not in line
    assert json.loads(line) == {"a": [None, None, 1.5], "b": "\x1b東\udcff", "c": [1]}


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_an_encoding_without_a_sign_for_it_gets_an_escape(monkeypatch, errors):
    """`surrogateescape` is what Python sets in the locale C."""
    buffer = io.BytesIO()
    stdout = io.TextIOWrapper(buffer, encoding="iso-8859-1", errors=errors)
    monkeypatch.setattr(sys, "stdout", stdout)

    output.write_line("é 東")
    sys.stdout.flush()

    assert buffer.getvalue() == b"\xe9 \\u6771\n"


def test_a_table_that_is_drawn_elsewhere_is_escaped_in_the_locale_c(monkeypatch, tmp_path):
    (tmp_path / "schedules.yml").write_text(
        "nightly: {cron: '0 3 * * *', class: Grüße}", encoding="utf-8"
    )
    buffer = io.BytesIO()
    stdout = io.TextIOWrapper(buffer, encoding="ascii", errors="surrogateescape")
    monkeypatch.setattr(sys, "stdout", stdout)

    assert main(["schedule", "list", "--file", str(tmp_path / "schedules.yml")]) == 0
    stdout.flush()

    assert b"Gr\\xfc\\xdfe" in buffer.getvalue()
