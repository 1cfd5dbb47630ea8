"""infra/kubernetes/worker.yaml fits the worker: its command line, its times, its restrictions."""

import pytest
import yaml
from support.documents import ROOT

from kiqbridge.commands.cli import build_parser
from kiqbridge.config.config import SETTINGS

FILE = ROOT / "infra" / "kubernetes" / "worker.yaml"


@pytest.fixture(scope="module")
def pod():
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def worker(pod):
    [container] = pod["containers"]
    return container


def test_the_selector_finds_the_pods():
    spec = yaml.safe_load(FILE.read_text(encoding="utf-8"))["spec"]

    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]


def test_its_variables_are_settings_and_their_values_are_taken(worker):
    settings = {name: setting for setting in SETTINGS for name in setting.env}

    for each in worker["env"]:
        setting = settings[each["name"]]
        if "value" in each:
            assert setting.parsed(each["value"], each["name"]) is not None


def test_a_pod_has_longer_to_stop_than_its_worker(pod, worker):
    variables = {each["name"]: each.get("value") for each in worker["env"]}

    assert pod["terminationGracePeriodSeconds"] > int(variables["KIQBRIDGE_TIMEOUT_S"]) + 5


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_a_probe_is_a_command_that_there_is(worker, probe):
    program, *words = worker[probe]["exec"]["command"]

    assert program == "kiqbridge"
    assert build_parser(words).parse_args(words).check in ("live", "ready")


def test_the_start_has_as_long_as_the_worker_gives_itself(worker):
    probe = worker["startupProbe"]

    assert probe["periodSeconds"] * probe["failureThreshold"] >= 60


def test_the_worker_may_do_no_more_than_it_needs(pod, worker):
    context = worker["securityContext"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    variables = {each["name"]: each.get("value") for each in worker["env"]}
    mounts = [each["mountPath"] for each in worker["volumeMounts"]]
    assert any(variables["KIQBRIDGE_RUN_DIR"].startswith(f"{path}/") for path in mounts)
