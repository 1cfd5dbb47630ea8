"""`sam deploy --guided`, with an answer to a hidden parameter that is only Enter.

SAM asks for a NoEcho parameter (RedisUrl) without a default and repeats the question until something is
typed. Here Enter leaves the parameter out: CloudFormation then keeps what is deployed, or takes the
default of the template. The Python of .venv-sam runs this; its arguments are those of `sam`.
"""

# ruff: noqa: INP001 - a script of the Makefile, in no package
import sys
from collections.abc import Callable
from typing import Any

import click
from samcli.cli.main import cli
from samcli.commands.deploy import guided_context
from samcli.commands.deploy.guided_context import GuidedContext

HINT = " [Enter: as deployed, or the template's default]"


def prompt(text: str, **options: Any) -> Any:
    """`click.prompt`, with an empty default where the answer is hidden."""
    if options.get("hide_input"):
        return click.prompt(text + HINT, **{**options, "default": "", "show_default": False})
    return click.prompt(text, **options)


def without_empty_secrets(ask: Callable[..., dict]) -> Callable[..., dict]:
    """The method of SAM that asks for parameters; hidden answers that are empty are left out."""

    def prompt_parameters(*arguments: Any, **options: Any) -> dict:
        return {
            name: answer
            for name, answer in ask(*arguments, **options).items()
            if not (answer["Hidden"] and answer["Value"] == "")
        }

    return prompt_parameters


def main() -> None:
    """Run `sam` with both."""
    guided_context.prompt = prompt
    GuidedContext.prompt_parameters = without_empty_secrets(GuidedContext.prompt_parameters)
    sys.argv[0] = "sam"
    cli(prog_name="sam")


if __name__ == "__main__":
    main()
