"""What `make e2e` is made of, as far as it can be checked without LocalStack."""

import re
import subprocess
import sys
from pathlib import Path

import cfnlint.api
import pytest
import yaml
from cfnlint.config import ManualArgs
from e2e.project import lay_out
from support.lambda_runtime_api import LambdaProcess, RuntimeApi, install_runtime_client

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
E2E = ROOT / "tests/e2e"
LINT = ManualArgs(regions=["eu-west-1"])


def test_make_test_collects_nothing_of_it():
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", E2E],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "no tests collected" in found.stdout, found.stdout + found.stderr


def test_its_versions_are_pinned_without_an_address():
    lines = (ROOT / "constraints-e2e.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]

    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []
    assert "://" not in "".join(lines)


def test_the_template_of_its_sources_is_sound():
    text = (E2E / "sources.yaml").read_text(encoding="utf-8")

    assert [str(fault) for fault in cfnlint.api.lint(text, config=LINT)] == []


def test_the_copy_has_the_examples_with_short_waits_and_spilled_jobs_keep_their_attempts(tmp_path):
    written = yaml.safe_load(lay_out(tmp_path / "project").read_text(encoding="utf-8"))

    resources = written["Resources"]
    assert {"NightlyReport", "Orders", "Ledger", "Notices", "Uploads"} <= set(
        resources["EnqueueFunction"]["Properties"]["Events"]
    )
    ledger, spill = (resources[name]["Properties"] for name in ("LedgerQueue", "SpillQueue"))
    assert (ledger["VisibilityTimeout"], ledger["RedrivePolicy"]["maxReceiveCount"]) == (2, 2)
    assert spill["VisibilityTimeout"] == 2
    assert spill["RedrivePolicy"]["maxReceiveCount"] == {"Ref": "SpillMaxReceives"}


def test_the_function_sees_the_arn_and_the_time_limit_that_its_runtime_api_is_given(tmp_path):
    (tmp_path / "app.py").write_text(
        "def lambda_handler(event, context):\n"
        "    return [context.invoked_function_arn, context.aws_request_id,"
        " context.get_remaining_time_in_millis() > 50_000, event]\n"
    )
    runtime = install_runtime_client(tmp_path / "runtime")
    api = RuntimeApi("arn:of:it", 60)

    with LambdaProcess(
        task=tmp_path, layer=tmp_path, runtime_client=runtime, env={}, api=api
    ) as process:
        process.wait_ready()
        answer = process.api.invoke({"a": 1}, "request-7").get(timeout=30)

    assert answer.body == ["arn:of:it", "request-7", True, {"a": 1}]
