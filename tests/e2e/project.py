"""A copy of the project as its user would have it: the sources of infra/examples in the template, and mappings.

What LocalStack cannot create is left out, and waits are shortened. The copy is built and deployed, so the
checkout stays as it is.
"""

import os
import shutil
from pathlib import Path

import yaml
from e2e.commands import run
from e2e.localstack import ROOT
from infra.examples import EXAMPLES, with_examples
from support.lambda_build import MACHINE

USED = ("bucket", "event_bus", "fifo_queue", "function_url", "queue", "schedules", "topic")
"""Examples that LocalStack can create; the others need services of GAPS."""
COPIED = (
    *("Makefile", ".make", "infra", "lambdas", "worker", "samconfig.toml"),
    *("pyproject.toml", "constraints.txt", "constraints-sam.txt", "README.md", "LICENSE"),
)
MAPPINGS = Path(__file__).with_name("mappings.yml")
VISIBLE_AFTER_S = 2
RECEIVES = 2
"""In the place of what the examples set: minutes until a refused message is a dead letter."""
SPILL_QUEUES = ("SpillQueue", "SpillFifoQueue")
BUILD_TIMEOUT_S = 180


def lay_out(folder: Path) -> Path:
    """Write the copy; its template."""
    folder.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            shutil.copy2(source, folder / name)
    for environment in ROOT.glob(".venv*"):
        (folder / environment.name).symlink_to(environment.resolve())
    shutil.copy(MAPPINGS, folder / "lambdas/enqueue/mappings.yml")
    template = with_examples(
        (ROOT / "template.yaml").read_text(encoding="utf-8"),
        [EXAMPLES / f"{name}.yaml" for name in USED],
    )
    shorten_waits(template)
    path = folder / "template.yaml"
    path.write_text(yaml.safe_dump(plain(template), sort_keys=False), encoding="utf-8")
    return path


def shorten_waits(template: dict) -> None:
    """Of queues: a message that failed comes back soon, and is given up soon but for spilled ones."""
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::SQS::Queue" and "VisibilityTimeout" in properties:
            properties["VisibilityTimeout"] = VISIBLE_AFTER_S
            if name not in SPILL_QUEUES:
                properties["RedrivePolicy"]["maxReceiveCount"] = RECEIVES


def plain(value: object) -> object:
    """Without the ordered dictionaries of SAM's reader."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def build(template: Path) -> Path:
    """`make build` in the copy, for this machine's processor; the built template."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    # The environments are the checkout's: they are not to be renewed from here.
    stamps = [f"--old-file={each}" for each in (".venv-sam/.sam", *venv_stamps(template.parent))]
    run(
        ["make", "build", f"LAMBDA_ARCHITECTURE={MACHINE}", *stamps],
        cwd=template.parent,
        env=environment,
        timeout_s=BUILD_TIMEOUT_S,
    )
    return template.parent / ".aws-sam/build/template.yaml"


def venv_stamps(folder: Path) -> list[str]:
    return [f"{path.name}/.up" for path in folder.glob(".venv*")]
