"""Deploys, updates and deletes the stacks, with the real `sam`."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from botocore.exceptions import ClientError
from e2e.commands import run
from e2e.localstack import ROOT, LocalStack
from support.waiting import wait_until

SAM = ROOT / ".venv-sam/bin/sam"
SOURCES_TEMPLATE = Path(__file__).with_name("sources.yaml")
DEPLOY_TIMEOUT_S = 240


@dataclass(slots=True, kw_only=True)
class Stack:
    """A stack in LocalStack, made, changed and removed by CloudFormation."""

    cloud: LocalStack
    name: str
    template: Path
    parameters: dict[str, str] = field(default_factory=dict)

    def deploy(self, **parameters: str) -> None:
        """Create or update it; parameters that are not given keep their values."""
        self.parameters |= parameters
        known = yaml.load(self.template.read_text(encoding="utf-8"), Loader=_Loader)["Parameters"]
        unknown = sorted(self.parameters.keys() - known.keys())
        assert not unknown, f"{self.template.name} has no parameters {unknown}"
        run(
            [
                *(str(SAM), "deploy", "--template-file", str(self.template)),
                *("--config-file", str(ROOT / "samconfig.toml"), "--stack-name", self.name),
                *("--no-confirm-changeset", "--no-progressbar", "--parameter-overrides"),
                *(f'{name}="{value}"' for name, value in self.parameters.items()),
            ],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.template.parent),
                **self.cloud.variables,
            },
            cwd=ROOT,
            timeout_s=DEPLOY_TIMEOUT_S,
        )

    def outputs(self) -> dict[str, str]:
        """By key."""
        [stack] = self.cloud.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"]
        assert stack["StackStatus"] in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}, stack["StackStatus"]
        return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())}

    def resources(self) -> dict[str, str]:
        """Physical ids by logical ids."""
        answer = self.cloud.client("cloudformation").describe_stack_resources(StackName=self.name)
        return {
            each["LogicalResourceId"]: each.get("PhysicalResourceId", "")
            for each in answer["StackResources"]
        }

    def delete(self) -> None:
        """`sam delete`, and wait until it is gone."""
        cloudformation = self.cloud.client("cloudformation")
        cloudformation.delete_stack(StackName=self.name)
        wait_until(lambda: self._is_gone(cloudformation), 120, f"the end of stack {self.name}")

    def _is_gone(self, cloudformation: Any) -> bool:
        try:
            [stack] = cloudformation.describe_stacks(StackName=self.name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return True
            raise
        assert not stack["StackStatus"].endswith("FAILED"), stack
        return stack["StackStatus"] == "DELETE_COMPLETE"


class _Loader(yaml.SafeLoader):
    """Reads CloudFormation's short forms as plain values."""


def _plain(loader: yaml.Loader, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node)
    return loader.construct_mapping(node)


_Loader.add_multi_constructor("!", _plain)
