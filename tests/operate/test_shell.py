"""`kiqbridge shell`: code with the jobs and the API at hand."""

import io
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
from support.jobs import own_declarations

from kiqbridge.commands import cli

JOBS = """
from kiqbridge import Job, job

@job(name="mailers.send")
def send(number): ...

@job
def Queue(): ...

class Nightly(Job):
    def perform(self): ...
"""


@pytest.fixture
def run(redis_url, redis, monkeypatch, capsys, tmp_path):
    """Runs `kiqbridge shell` in this process, with jobs declared in a file."""
    (tmp_path / "shell_jobs.py").write_text(JOBS)
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*words, text=None):
        if text is not None:
            monkeypatch.setattr("sys.stdin", io.StringIO(text))
        with own_declarations():
            code = cli.main(["shell", "-r", "shell_jobs", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    yield run
    sys.modules.pop("shell_jobs", None)


def test_code_has_the_jobs_the_client_and_the_api_at_hand(run):
    code = (
        "jid = send.perform_async(7); jobs['mailers.send'].perform_async(8); Nightly.perform_async();"
        "print(Stats().enqueued, [each.args for each in Queue('default')], find_job(jid)[0].name)"
    )

    assert run("-c", code) == (0, "3 [[], [8], [7]] default\n", "")


def test_a_name_of_the_api_stands_before_a_job_s(run):
    assert run("-c", "print(Queue.__module__, jobs['Queue'])") == (
        0,
        "kiqbridge.api.queues <job Queue>\n",
        "",
    )


def test_code_from_a_pipe_is_run(run):
    assert run(text="for jobs in [1, 2]:\n    print(jobs)\n") == (0, "1\n2\n", "")


def test_an_error_is_shown_and_the_exit_code_is_1(run):
    code, out, err = run("-c", "1 / 0")

    assert (code, out) == (1, "")
    assert err.startswith("Traceback (most recent call last):\n  … 1 frame of kiqbridge\n")
    assert err.endswith("ZeroDivisionError: division by zero\n")


def test_an_error_of_ours_is_its_message_and_exit_code(run):
    assert run("-c", "send.perform_async({1})")[0] == 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_without_ipython_a_console_starts_that_lists_what_is_there(run, monkeypatch):
    lines = iter(["send", "Stats().enqueued"])

    def typed(_prompt=""):
        line = next(lines, None)
        if line is None:
            raise EOFError
        return line

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", typed)

    code, out, err = run("--plain")

    assert (code, out) == (0, "<job mailers.send>\n0\n")
    assert "  jobs     mailers.send, Queue, Nightly\n" in err
    assert "  api      Stats, Queue, RetrySet" in err


def test_with_ipython_that_is_started(run, monkeypatch):
    started = {}
    ipython, config = ModuleType("IPython"), ModuleType("traitlets.config")
    ipython.__spec__ = ModuleSpec("IPython", None)
    ipython.start_ipython = lambda **options: started.update(options)
    config.Config = lambda: SimpleNamespace(TerminalInteractiveShell=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "traitlets.config", config)
    monkeypatch.setattr("sys.stdin", Terminal())

    assert run() == (0, "", "")

    assert started["user_ns"]["Nightly"].__name__ == "Nightly"
    assert "jobs     mailers.send" in started["config"].TerminalInteractiveShell.banner1
