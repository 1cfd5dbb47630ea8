"""Writes a section of docs/tutorial/start.md: what somebody sees who has never used Kiqbridge, with the times it took.

python tests/first_ten_minutes.py

It really runs the steps, in a folder of its own: a fresh virtual environment, the wheel of `make dist` with what it
needs from the package index, an app, its tests, a changed job, and a job that is performed. The folder's name is
shown as `~`, nothing else is changed. `make capture` runs it; no test does, since it needs the index.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis
from support.distribution import make_once
from support.documents import ROOT
from support.processes import ChildProcess

DOCUMENT = ROOT / "docs" / "tutorial" / "start.md"
HEAD = """## The first ten minutes

Written by `make capture`: each command was run, in an empty folder and in a fresh environment, and this is what it
printed. The time beside the prompt is that of the command. The wheel is that of `make dist`; pip takes the other
packages from its index.
"""
RECORDING = "<!-- --8<-- [start:recording] -->\n\n{}\n\n<!-- --8<-- [end:recording] -->"
"""Marks what docs/index.md shows, too."""
LONGEST = 8
"""Lines of an output that are shown, from its two ends."""
NEW_TEST = '    assert capsys.readouterr().out == "Good morning Ada!\\n"\n'


class Terminal:
    """Runs commands in a folder, and keeps what a terminal would show."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home
        self.parts: list[str] = []
        self.began = time.monotonic()
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MAKE", "KIQBRIDGE_", "PYTEST_", "REDIS_", "VIRTUAL_ENV"))
        }
        # Where this machine's pip looks is nobody's business.
        quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "2", "NO_COLOR": "1"}
        self.environ = {**inherited, **quiet}

    def say(self, text: str) -> None:
        """Prose; a line that stands alone, so that a blank one follows it."""
        self.parts.append(f"{text.rstrip()}\n")

    def run(self, line: str, *, expect: int = 0, **variables: str) -> str:
        """Run a line as a shell does; it ends with this code."""
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env={**self.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == expect, f"{line}: {done.returncode}\n{done.stdout}"
        self.show(line, done.stdout, time.monotonic() - began)
        return done.stdout

    def show(self, line: str, output: str, took_s: float) -> None:
        lines = self._cleaned(output).splitlines()
        if len(lines) > LONGEST:
            half = LONGEST // 2
            lines = [*lines[:half], f"… ({len(lines) - 2 * half} more lines)", *lines[-half:]]
        text = "\n".join([f"{self._where()}$ {line}    # {took_s:.1f} s", *lines])
        self.parts.append(f"```text\n{text}\n```\n")

    def change(self, path: str, old: str, new: str) -> None:
        """Edit a file of the app."""
        file = self.folder / path
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, (path, old)
        file.write_text(text.replace(old, new), encoding="utf-8")

    def _where(self) -> str:
        return self._cleaned(str(self.folder))

    def _cleaned(self, text: str) -> str:
        return text.replace(str(self.home), "~")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name).resolve()
        wheel = make_once(scratch / "dist").wheel
        home = scratch / "home"
        home.mkdir()
        shutil.copy(wheel, home)
        terminal = Terminal(home)
        play(terminal, wheel.name)
        minutes = (time.monotonic() - terminal.began) / 60
        text = "\n".join([HEAD, *terminal.parts])
    text += (
        f"\nAll of it took {minutes:.1f} minutes, on a machine with {os.cpu_count()} processors.\n"
    )
    assert str(scratch) not in text and "/tmp/" not in text, "a path of this machine"
    page = DOCUMENT.read_text(encoding="utf-8")
    before, heading, _old = page.partition(HEAD.partition("\n")[0])
    assert heading
    DOCUMENT.write_text(f"{before}{text}", encoding="utf-8")
    sys.stdout.write(f"wrote {DOCUMENT}\n")


def play(terminal: Terminal, wheel: str) -> None:
    """The steps."""
    terminal.say("### Install\n")
    terminal.run("python3 -m venv venv")
    activated = {
        "VIRTUAL_ENV": str(terminal.home / "venv"),
        "PATH": f"{terminal.home / 'venv/bin'}{os.pathsep}{terminal.environ['PATH']}",
    }
    terminal.environ |= activated
    terminal.say("After `source venv/bin/activate`:\n")
    terminal.run(f"pip install './{wheel}[local]'")
    terminal.say("### Begin an app\n")
    terminal.run("kiqbridge init shop")
    terminal.folder = terminal.home / "shop"
    terminal.say("No index has the wheel here, so it goes where pip looks besides:\n")
    terminal.run(f"cp ../{wheel} wheels/")
    terminal.run("make test")
    terminal.say("### Change a job\n")
    terminal.say('In `jobs/greeting.py` the greeting becomes "Good morning", and a test notices:\n')
    terminal.change("jobs/greeting.py", "Hello", "Good morning")
    terminal.run("make test", expect=2)
    terminal.say("The test is changed as well:\n")
    old = '    assert capsys.readouterr().out == "Hello Ada!\\n"\n'
    terminal.change("tests/test_jobs.py", old, NEW_TEST)
    terminal.run("make test")
    run_it(terminal)
    terminal.say("### Towards AWS\n")
    terminal.run("kiqbridge schedule list --template template.yaml")
    terminal.say(
        "`make check`, `make build` and `make deploy` go on from here ([deploy](../how_to/deploy.md)).\n"
    )


def run_it(terminal: Terminal) -> None:
    """The steps of the app that runs; tests/kernel/process/test_recording.py compares what they print now."""
    terminal.say("### Run it\n")
    terminal.say(
        "The first terminal runs `kiqbridge dev` (or `make up`): server, cron rule, worker and page. The second one enqueues:\n"
    )
    began = time.monotonic()
    with ChildProcess(
        ["kiqbridge", "dev"], cwd=terminal.folder, env=terminal.environ, inherit=False
    ) as dev:
        dev.wait_for_output("the page with queues and jobs", 60)
        url = re.search(r"REDIS_URL=(\S+)", dev.output)[1]
        terminal.environ["REDIS_URL"] = url
        terminal.run(f"REDIS_URL={url} kiqbridge enqueue Greeting '\"Ada\"'")
        dev.wait_for_output("Good morning Ada.", 60)
        dev.wait_for(lambda: re.search(r"Z done +Greeting ", dev.output), 60, "the job done")
        terminal.run(
            "python -c 'from jobs.greeting import greet; print(greet.perform_async(\"Grace\", loud=True))'"
        )
        dev.wait_for(lambda: len(re.findall(r"Z done +Greeting ", dev.output)) == 2, 60, "two done")
        starts = dev.output.count(" is ready: ")
        terminal.say(
            'While it runs, `jobs/greeting.py` says "Good evening"; the worker starts anew by itself:\n'
        )
        terminal.change("jobs/greeting.py", "Good morning", "Good evening")
        dev.wait_for(lambda: dev.output.count(" is ready: ") > starts, 60, "a new worker")
        terminal.run("kiqbridge enqueue Greeting '\"Ada\"'")
        dev.wait_for_output("Good evening Ada.", 60)
        dev.wait_for(lambda: len(re.findall(r"Z done +Greeting ", dev.output)) == 3, 60, "three")
        # Numbers of jobs are written with the heartbeat.
        client = redis.Redis.from_url(url)
        dev.wait_for(lambda: client.get("stat:processed") == b"4", 60, "four counted")
        client.close()
        terminal.run("kiqbridge stats")
        dev.signal(signal.SIGINT)
        assert dev.wait(60) == 0
        terminal.say("What the first terminal showed, until Ctrl-C:\n")
        lines = terminal._cleaned(dev.output).rstrip()
        took = time.monotonic() - began
        shown = f"```text\n~/shop$ kiqbridge dev    # {took:.1f} s\n{lines}\n```"
        terminal.say(RECORDING.format(shown))


if __name__ == "__main__":
    main()
