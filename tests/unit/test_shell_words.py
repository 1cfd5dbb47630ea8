"""What a shell makes of a command line, compared with a real one."""

import string
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.runtime.shell_words import ShellSyntax, plain_words, shell_words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("backup --full /srv", ["backup", "--full", "/srv"]),
        ("echo 'a b' \"c d\" e\\ f", ["echo", "a b", "c d", "e f"]),
        ("echo 'it'\\''s'", ["echo", "it's"]),
        ('echo "a \\"b\\" \\x"', ["echo", 'a "b" \\x']),
        ("echo '$HOME' '`id`' 'a;b' '*'", ["echo", "$HOME", "`id`", "a;b", "*"]),
        ("echo \\$HOME \\; ''", ["echo", "$HOME", ";", ""]),
        ("echo a~b x=1", ["echo", "a~b", "x=1"]),
    ],
)
def test_plain_words_are_those_of_a_program(command, words):
    assert plain_words(command) == words


@pytest.mark.parametrize(
    "command",
    [
        "",
        "   ",
        "a; b",
        "a && b",
        "a | b",
        "a &",
        "a > f",
        "a < f",
        "a\nb",
        "a $(id)",
        "a `id`",
        'a "$HOME"',
        'a "`id`"',
        "a *.txt",
        "a ~/x",
        "a {b,c}",
        "a # b",
        "(a)",
        "A=1 b",
        "a 'b",
        'a "b',
        "a \\",
        "a \\\nb",
        "!a",
        "a [x]",
        "a ${IFS}b",
    ],
)
def test_what_only_a_shell_can_run_is_no_plain_words(command):
    assert plain_words(command) is None


def test_operators_are_separate_and_quoted_ones_are_not():
    words = shell_words("cd /a&&b 'c && d' 2>&1")

    assert [word.text for word in words if word.is_operator] == ["&&", ">", "&"]
    assert "c && d" in [word.text for word in words]


def test_a_quote_without_its_end_is_named():
    with pytest.raises(ShellSyntax, match="character 6"):
        shell_words("echo 'a")


@given(
    st.text(string.ascii_letters + string.digits + " \t'\"\\$`;&|<>()*?[]~#=-_./!{}", max_size=20)
)
def test_a_real_shell_reads_plain_words_alike(text):
    words = plain_words("printf %s\\\\0 " + text)
    if words is None:
        return

    said = subprocess.run(
        ["/bin/sh", "-c", "printf '%s\\0' " + text], capture_output=True, check=True, timeout=60
    ).stdout

    assert said.decode().split("\0")[:-1] == (words[2:] or [""])
