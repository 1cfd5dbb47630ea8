"""Plays the pages of docs/tutorial as a reader does: writes their files, runs their commands, compares what they print.

python tests/tutorial.py [--pictures]

A test plays them and fails where something else is printed. As a program it writes what is printed now into the pages
(`make capture`), and takes their pictures.

A fenced block is a file (its title is the path), commands (`sh`), or what was printed (`text`): by the commands before
it, or, with the title "first terminal", by `kiqbridge dev`: these lines, or, with ", until Ctrl-C", all of them, in any
order, since several processes print. `…` stands for any text.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from support.documents import ROOT
from support.processes import ChildProcess

FOLDER = ROOT / "docs" / "tutorial"
PAGES = ("first_job", "failing_job", "cron_rule", "queues_and_batches", "testing", "deploying")
NOT_RUN = {
    "python3 -m venv": "the package is in the environment that plays",
    "source": "as above",
    "pip install": "it would change the environment that plays; tests/infra/test_init.py installs the wheel",
    "make deploy": "it needs an AWS account",
    "docker build": "there is no container engine where this project is tested",
}
BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$'
    r"|^!\[[^\]]*\]\(\.\./images/(?P<picture>[\w-]+)\.png\)$",
    re.MULTILINE | re.DOTALL,
)
TERMINAL = "first terminal"
WHOLE = f"{TERMINAL}, until Ctrl-C"
SHAPES = {
    r"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d CES?T( = \d\d:\d\d UTC)?": "DATE",
    r"(?:\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\dZ": "TIME",  # with the day, if that is another one
    r"\d{4}-\d\d-\d\d": "DAY",
    r"127\.0\.0\.1:\d+": "ADDRESS",
    r"\b[0-9a-f]{8}(?:[0-9a-f]{16})?\b": "JID",
    r"\b\d+(?:\.\d+)? (?:s|ms|min|h|days?)\b": "SPAN",
    r" +": " ",
}
"""What differs from run to run → what it is compared as."""
PICTURES = {
    "tutorial-now": "/",
    "tutorial-dead": "/dead",
    "tutorial-schedules": "/schedules",
    "tutorial-queues": "/queues",
}
READY, WITH_PAGE = " is ready: ", "the page with queues and jobs"


class DifferentError(AssertionError):
    """A page shows something else than what is printed."""


class Reader:
    """Somebody with two terminals in one folder.

    Attributes:
        folder: the working directory.
        dev: what runs in the first terminal.
        printed: by the commands of the last block.
        look: is called with the address of the page and the name of a picture.
    """

    def __init__(self, home: Path, look: Callable[[str, str], None] = lambda *_: None) -> None:
        self.folder = home
        self.look = look
        self.printed = ""
        self.dev: ChildProcess | None = None
        self._home, self._since, self._stack = home, 0, ExitStack()
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MAKE", "KIQBRIDGE_", "PYTEST_", "REDIS_", "VIRTUAL_ENV"))
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environ = {**inherited, "NO_COLOR": "1", "PATH": path}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self, page: str, *, rewrite: bool = False) -> str:
        """Do what the page says.

        Args:
            page: its text.
            rewrite: return it with what is printed now, in place of raising.

        Raises:
            DifferentError: a block shows something else.
        """

        def replaced(block: re.Match[str]) -> str:
            try:
                self._do(block)
            except DifferentError:
                if not rewrite or block["title"] == TERMINAL:
                    raise
                return f"{block[0].partition(chr(10))[0]}\n{self.printed}```"
            return block[0]

        if self.dev is None and (self.folder / "jobs").is_dir():  # as on the page before
            self._start("kiqbridge dev")
        return BLOCK.sub(replaced, page)

    def close_first_terminal(self) -> str:
        """Ctrl-C; all that it has shown."""
        assert self.dev is not None
        self.dev.signal(signal.SIGINT)
        assert self.dev.wait(60) == 0, self.dev.output
        output, self.dev = self._shown(self.dev.output), None
        return output

    def _do(self, block: re.Match[str]) -> None:
        language, title, text = block["language"], block["title"], block["text"]
        if block["picture"]:
            assert self.dev is not None
            self.look(re.search(rf"{WITH_PAGE}: (\S+)", self.dev.output)[1], block["picture"])
        elif language == "text" and title == TERMINAL:
            self._compare_terminal(text)
        elif language == "text" and title == WHOLE:
            self.printed = f"~/shop$ kiqbridge dev\n{self.close_first_terminal()}"
            if Counter(_shape(text).splitlines()) != Counter(_shape(self.printed).splitlines()):
                raise DifferentError(f"shown:\n{text}\nprinted:\n{self.printed}")
        elif language == "text":
            self._compare(text)
        elif language == "sh":
            self._mark()
            self.printed = "".join(map(self._run, text.splitlines()))
        else:
            self._mark()
            self._write(title, text)

    def _mark(self) -> None:
        self._since = len(self.dev.output) if self.dev else 0

    def _run(self, line: str) -> str:
        if any(line.startswith(command) for command in NOT_RUN):
            return ""
        if line.startswith("cd "):
            self.folder /= line.removeprefix("cd ")
        elif line.startswith("export REDIS_URL="):
            pass  # it is set as soon as the first terminal shows it
        elif line.startswith("kiqbridge dev"):
            if self.dev is not None:
                self.close_first_terminal()
            self._start(line)
        else:
            return self._printed_by(line)
        return ""

    def _printed_by(self, line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.returncode}\n{done.stdout}"
        return self._shown(done.stdout)

    def _start(self, line: str) -> None:
        self.environ.pop("REDIS_URL", None)  # it would be used in the place of the embedded one
        command = [sys.executable, "-m", "kiqbridge", *shlex.split(line)[1:]]
        self.dev = self._stack.enter_context(
            ChildProcess(command, cwd=self.folder, env=self.environ, inherit=False)
        )
        self.dev.wait_for_output(WITH_PAGE, 60)
        self._since = 0
        self.environ["REDIS_URL"] = re.search(r"REDIS_URL=(\S+)", self.dev.output)[1]

    def _write(self, title: str, text: str) -> None:
        name, _, how = title.partition(", ")
        path = self.folder / name
        if how:
            text = _placed(path.read_text(encoding="utf-8"), how, text)
        starts = self.dev.output.count(READY) if self.dev else 0
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if self.dev and name.endswith(".py"):
            self.dev.wait_for(
                lambda: self.dev.output.count(READY) > starts, 60, f"the worker with {name}"
            )

    def _compare(self, text: str) -> None:
        pattern = r"(?s:.*)".join(re.escape(_shape(part)) for part in text.split("…"))
        if not re.fullmatch(pattern, _shape(self.printed)):
            raise DifferentError(f"shown:\n{text}\nprinted:\n{self.printed}")

    def _compare_terminal(self, text: str) -> None:
        expected = Counter(filter(None, _shape(text).splitlines()))

        def missing() -> Counter[str]:
            assert self.dev is not None
            return expected - Counter(_shape(self.dev.output[self._since :]).splitlines())

        try:
            self.dev.wait_for(lambda: not missing(), 30, "what the page shows")
        except AssertionError as error:
            raise DifferentError(f"not in the first terminal: {dict(missing())}\n{error}") from None

    def _shown(self, text: str) -> str:
        return text.replace(str(self._home), "~")


def _placed(template: str, how: str, text: str) -> str:
    """A template with these lines `below` or `replacing` a line of it, indented as that one."""
    verb, _, line = how.partition(" ")
    [found] = list(re.finditer(rf"(?m)^(?P<indent> *){re.escape(line)}:?$", template))[:1]
    indent = found["indent"] + (2 * " " if verb == "below" else "")
    lines = "".join(f"{indent}{each}\n" for each in text.splitlines())
    end = found.end() + 1
    return template[: end if verb == "below" else found.start()] + lines + template[end:]


def _shape(text: str) -> str:
    for pattern, name in SHAPES.items():
        text = re.sub(pattern, name, text)
    return text.strip()


def page(name: str) -> Path:
    return FOLDER / f"{name}.md"


def main() -> None:
    """Play all pages, write what is printed into them, and take their pictures."""
    with tempfile.TemporaryDirectory() as name, Reader(Path(name).resolve(), _take) as reader:
        for each in map(page, PAGES):
            text = reader.play(each.read_text(encoding="utf-8"), rewrite=True)
            assert name not in text, "a path of this machine"
            each.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {each.relative_to(ROOT)}\n")


def _take(site: str, picture: str) -> None:
    # Not on top: the tests that play the pages need no browser.
    sys.path.insert(0, str(ROOT / "tests"))
    from browser.readme_pictures import take

    take(site.rstrip("/"), {picture: PICTURES[picture]})


if __name__ == "__main__":
    main()
