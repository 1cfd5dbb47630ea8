"""What `import kiqbridge` offers is loaded when it is asked for, and the command decides how."""

import gc
from pathlib import Path

import pytest
from support.processes import run_python

import kiqbridge
from kiqbridge.commands import cli


@pytest.mark.parametrize("statement", ["import kiqbridge", "import kiqbridge.commands.cli"])
def test_neither_the_package_nor_the_command_loads_what_nobody_has_asked_for(statement):
    code = f"import sys; {statement}; print(*{{'redis', 'kiqbridge.client'}} & set(sys.modules))"

    assert run_python(code).stdout.split() == []


def test_a_command_says_in_a_line_what_it_cannot_load():
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from kiqbridge.commands.cli import main
sys.exit(main(["worker"]))
"""
    ended = run_python(code, str(Path(kiqbridge.__file__).parents[1]), options=["-S"], check=False)

    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "the command cannot be loaded: No module named 'orjson'" in ended.stderr


def test_a_command_that_reads_yaml_names_the_extra_that_brings_it():
    code = """
import sys
sys.modules["yaml"] = None
from kiqbridge.commands.cli import main
sys.exit(main(["schedule", "list"]))
"""
    ended = run_python(code, check=False)

    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert ended.stderr.endswith("pip install 'kiqbridge[worker]'\n")


def test_all_names_are_there_and_stay_the_same_and_another_is_refused():
    for name in set(kiqbridge.__all__) & set(dir(kiqbridge)):  # without what went with a feature
        assert getattr(kiqbridge, name) is getattr(kiqbridge, name)
    with pytest.raises(AttributeError, match="module 'kiqbridge' has no attribute 'jobs'"):
        kiqbridge.jobs  # noqa: B018 - asking is what fails


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_rests_while_a_command_is_loaded_and_works_afterwards(monkeypatch, was_on):
    seen = []
    original = cli.build_parser
    monkeypatch.setattr(
        cli, "build_parser", lambda words: seen.append(gc.isenabled()) or original(words)
    )
    (gc.enable if was_on else gc.disable)()
    try:
        with pytest.raises(SystemExit):
            cli.main(["--version"])
        assert seen == [False]
        assert gc.isenabled() is was_on
    finally:
        gc.enable()
