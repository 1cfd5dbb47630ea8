"""An app that `kiqbridge init` of the installed wheel has written: its own commands work, from test to build."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.lambda_build import FIXED, MACHINE, ROOT, THIS_PYTHON
from support.processes import ChildProcess

pytestmark = pytest.mark.slow

SAM = ROOT / ".venv-sam/bin/sam"


class AppFolder:
    """The app's folder, and the environment in which its owner works."""

    def __init__(self, folder: Path, venv: Path) -> None:
        self.folder = folder
        self.python = venv / "bin/python"
        inherited = {
            name: value
            for name, value in os.environ.items()
            # ARGS is what a person gave to the `make` around this test.
            if name != "ARGS" and not name.startswith(("MAKE", "KIQBRIDGE_", "PYTEST_", "REDIS_"))
        }
        self.environ = {**inherited, "VIRTUAL_ENV": str(venv)}

    def run(self, *command: str, **variables: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{command}:\n{said}"
        return said

    def make(self, *words: str, **variables: str) -> str:
        return self.run("make", *words, f"SAM={SAM}", **variables)


@pytest.fixture(scope="module")
def app(distribution, tmp_path_factory) -> AppFolder:
    above = tmp_path_factory.mktemp("own")
    made = AppFolder(above, distribution.venv)
    made.run(str(made.python), "-I", "-m", "kiqbridge", "init", "shop")
    made.folder = above / "shop"
    # What `pip install -e '.[dev]'` brings is borrowed from the environment of the tests.
    (distribution.venv / ".shop").touch()
    shutil.copy(distribution.wheel, made.folder / "wheels")
    return made


def test_it_passes_its_own_tests(app):
    assert re.search(r"^\d+ passed", app.make("test"), re.MULTILINE)


def test_its_checks_find_nothing(app):
    said = app.make("check")

    assert "1 schedule: nothing to say" in said
    assert "is a valid SAM Template" in said


@pytest.mark.parametrize("template", ["template.yaml", ""])
def test_dev_performs_a_job_with_and_without_a_template(app, tmp_path, template):
    shutil.copytree(app.folder / "jobs", tmp_path / "jobs")
    if template:
        shutil.copy(app.folder / template, tmp_path)
        shutil.copytree(app.folder / "lambdas", tmp_path / "lambdas")
    command = [str(app.python), "-m", "kiqbridge", "dev", "--no-web"]
    with ChildProcess(command, cwd=tmp_path, env=app.environ, inherit=False) as dev:
        dev.wait_for_output(" is ready: ", 60)
        if not template:
            assert "kiqbridge dev: jobs alone, without a template, on embedded" in dev.output
            url = re.search(r"REDIS_URL=(\S+)", dev.output)[1]
            enqueued = (str(app.python), "-m", "kiqbridge", "enqueue", "Greeting", '"Ada"')
            app.run(*enqueued, REDIS_URL=url)
        dev.wait_for(lambda: re.search(r"^\S+Z done ", dev.output, re.MULTILINE), 60, "a job done")
        assert ("DailyReport" if template else "Hello Ada.") in dev.output
        dev.signal(signal.SIGINT)
        assert dev.wait() == 0


def test_sam_builds_its_function_and_a_layer_with_the_wheel(app, tmp_path):
    app.make(
        "build",
        **FIXED | {"MAPPINGS_PYTHON": ""},
        BUILD_DIR=str(tmp_path),
        BUILD_ARGS="EnqueueFunction",
        BUILD_PYTHON=sys.executable,
        LAMBDA_ARCHITECTURE=MACHINE,
        LAMBDA_PYTHON=THIS_PYTHON,
    )

    layer, function = tmp_path / "KiqbridgeLayer/python", tmp_path / "EnqueueFunction"
    manifest = json.loads((layer / "kiqbridge/schedule/manifest.json").read_bytes())
    assert set(manifest["schedules"]) == {"DailyReport"}
    assert not (layer / "kiqbridge/dev/scaffold").exists()
    [record] = layer.glob("kiqbridge-*.dist-info/RECORD")
    assert "kiqbridge/dev/scaffold" not in record.read_text(encoding="utf-8")
    program = (
        f"import sys; sys.path[:0] = {[str(function), str(layer)]}; import app, kiqbridge, hiredis;"
        " print(kiqbridge.__file__, app.lambda_handler)"
    )
    # Without the packages of the environment: all comes from the layer.
    shown = app.run(sys.executable, "-I", "-S", "-c", program)
    assert str(layer / "kiqbridge") in shown


def test_deploy_begins_with_sam_s_questions(app, tmp_path):
    """The script that comes with the package finds its answers and its helper; SAM itself is a stand-in here."""
    sam = tmp_path / "sam"
    sam.write_text('#!/bin/sh\necho "sam $*"\n', encoding="utf-8")
    sam.chmod(0o755)

    said = app.run(
        *(
            str(app.python),
            "-m",
            "kiqbridge.dev.scaffold.run_script",
            "deploy.sh",
            "--no-execute-changeset",
        ),
        SAM_COMMAND=str(sam),
    )

    assert said.startswith("sam deploy --config-file ")
    assert said.rstrip().endswith("--guided --no-execute-changeset")
    assert 'stack_name = "shop"' in (app.folder / "samconfig.local.toml").read_text("utf-8")
