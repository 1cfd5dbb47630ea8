"""After a deployment: have the function publish the schedules of its template (docs/reference/schedules.md).

The Python of .venv-sam runs this, which has boto3; its argument is the file with the answers of `make deploy`. What
fails here fails no deployment: the function publishes them at its next event.
"""

# ruff: noqa: INP001 - a script of the Makefile, in no package
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

OUTPUT = "EnqueueFunctionArn"


def main() -> None:
    """Invoke the function, and print what it answers."""
    answers = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8")).get("default", {})
    found = answers.get("global", {}).get("parameters", {})
    found = {**found, **answers.get("deploy", {}).get("parameters", {})}
    try:
        answer = publish(found, rollback=os.environ.get("ROLLBACK") == "1")
        sys.stdout.write(f"{sentence(answer)}\n")
    except Exception as error:  # noqa: BLE001 - whatever it is, the stack is deployed
        sys.stderr.write(
            f"schedules: they were not published now ({error}); the function publishes them at its next event\n"
        )


def publish(answers: dict[str, Any], *, rollback: bool) -> dict[str, Any]:
    """What the function of the deployed stack answers."""
    import boto3  # noqa: PLC0415 - of the tools of SAM

    session = boto3.Session(region_name=answers.get("region"), profile_name=answers.get("profile"))
    stacks = session.client("cloudformation").describe_stacks(StackName=answers["stack_name"])
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stacks["Stacks"][0]["Outputs"]}
    command = {"kiqbridge": "publish", **({"rollback": True} if rollback else {})}
    reply = session.client("lambda").invoke(
        FunctionName=outputs[OUTPUT], Payload=json.dumps(command).encode()
    )
    answer: dict[str, Any] = json.loads(reply["Payload"].read())
    if "FunctionError" in reply:
        raise RuntimeError(answer.get("errorMessage", answer))
    return answer


def sentence(answer: dict[str, Any]) -> str:
    """What is printed of an answer."""
    if answer["outcome"] == "older":
        return (
            f"schedules: version {answer['version']} is older than version {answer['standing']}, which stays "
            "published; if this deployment is a rollback on purpose: make deploy ROLLBACK=1"
        )
    return f"schedules: {answer['schedules']} {answer['outcome']} (version {answer['version']})"


if __name__ == "__main__":
    main()
