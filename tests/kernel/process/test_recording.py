"""What docs/tutorial/start.md shows of a running app, and the first page of the site with it, is what is printed now.

Times, dates, ports, ids and durations differ, and so does the order in which the processes of one terminal print.
"""

import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from first_ten_minutes import Terminal, run_it
from support.documents import ROOT

pytestmark = pytest.mark.slow

SHAPES = {
    r"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d CES?T = \d\d:\d\d UTC": "DATE",
    r"(?:\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\dZ": "TIME",  # with the day, if that is another one
    r"\d{4}-\d\d-\d\d": "DAY",
    r"127\.0\.0\.1:\d+": "ADDRESS",
    r"\b[0-9a-f]{8}(?:[0-9a-f]{16})?\b": "JID",
    r"\d+\.\d+ s\b": "SECONDS",
}


def shapes(text: str) -> Counter[str]:
    for pattern, name in SHAPES.items():
        text = re.sub(pattern, name, text)
    return Counter(filter(None, text.splitlines()))


def test_a_run_prints_what_was_recorded(tmp_path):
    document = (ROOT / "docs" / "tutorial" / "start.md").read_text(encoding="utf-8")
    recorded = f"### Run it{document.split('### Run it')[1].split('### Towards AWS')[0]}"
    terminal = Terminal(tmp_path.resolve())
    terminal.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    terminal.run("kiqbridge init shop")
    terminal.folder /= "shop"
    terminal.change("jobs/greeting.py", "Hello", "Good morning")
    terminal.parts.clear()

    run_it(terminal)

    printed = shapes("\n".join(terminal.parts))
    assert {"printed": printed - shapes(recorded), "recorded": shapes(recorded) - printed} == {
        "printed": Counter(),
        "recorded": Counter(),
    }, "call `make capture`"
