"""Verbs that features bring to a command of the kernel."""

import json
import subprocess
import sys

import pytest

from kiqbridge.commands.cli import main

LOADED = """
import json, sys
from kiqbridge.commands.cli import build_parser

loaded = []
for verb in ("list", "import"):
    build_parser(["schedule", verb])
    loaded.append("kiqbridge.features.imports.command" in sys.modules)
print(json.dumps(loaded))
"""


def test_the_code_of_a_verb_is_loaded_where_it_is_given():
    found = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, check=True).stdout

    assert json.loads(found) == [False, True]


def test_the_help_of_the_command_lists_it(capsys):
    with pytest.raises(SystemExit):
        main(["schedule", "--help"])

    listed = capsys.readouterr().out
    assert [
        verb for verb in ("list", "import", "lint", "simulate") if f"\n    {verb} " not in listed
    ] == []
