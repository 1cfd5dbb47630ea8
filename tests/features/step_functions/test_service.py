"""Calls to Step Functions: what their errors mean, and what of them may be logged."""

import pytest
from botocore.exceptions import ClientError
from support.processes import run_python
from support.step_functions import StepFunctionsStandIn

from kiqbridge.features.step_functions.heartbeats import (
    CallFailed,
    NobodyWaits,
    OutputRefused,
    StepFunctions,
)

TOKEN = "AQC/secret=="


@pytest.fixture
def stand_in(monkeypatch):
    with StepFunctionsStandIn(TOKEN) as stand_in:
        for name, value in stand_in.env.items():
            monkeypatch.setenv(name, value)
        yield stand_in


@pytest.fixture
def service(stand_in):
    return StepFunctions()


def test_the_three_calls_arrive_as_aws_documents_them(service, stand_in):
    service.heartbeat(TOKEN)
    service.succeed(TOKEN, '{"a":1}')
    stand_in.waiting.add(TOKEN)
    service.fail(TOKEN, "OSError", "why")

    assert [(call.name, call.parameters) for call in stand_in.calls] == [
        ("SendTaskHeartbeat", {"taskToken": TOKEN}),
        ("SendTaskSuccess", {"taskToken": TOKEN, "output": '{"a":1}'}),
        ("SendTaskFailure", {"taskToken": TOKEN, "error": "OSError", "cause": "why"}),
    ]


@pytest.mark.parametrize(
    "code", ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken", "ValidationException"]
)
def test_a_task_that_waits_no_more_is_final(service, stand_in, code):
    stand_in.refuse["SendTaskSuccess"] = (400, code)

    with pytest.raises(NobodyWaits, match=f"^{code}$"):
        service.succeed(TOKEN, "1")


def test_an_output_that_is_refused_is_something_else_and_an_odd_token_final(service):
    with pytest.raises(OutputRefused):
        service.succeed(TOKEN, "no json")
    with pytest.raises(NobodyWaits):
        service.heartbeat("")  # which botocore refuses


@pytest.mark.parametrize(
    ("status", "code", "is_service"),
    [
        (400, "ThrottlingException", True),
        (429, "Slow", True),
        (500, "InternalFailure", True),
        (503, "ServiceUnavailable", True),
        (400, "AccessDeniedException", False),
        (400, "KmsAccessDeniedException", False),
        (400, "ExpiredTokenException", False),
    ],
)
def test_all_else_may_succeed_later_and_is_logged_without_the_token(
    service, stand_in, status, code, is_service
):
    stand_in.refuse["SendTaskHeartbeat"] = (status, code)

    with pytest.raises(CallFailed, match=code) as raised:
        service.heartbeat(TOKEN)

    assert raised.value.is_service == is_service
    assert TOKEN not in str(raised.value)
    assert "[REDACTED]" in str(raised.value)
    assert raised.value.__cause__ is None
    assert len(stand_in.calls) == 1  # not repeated by botocore


def test_a_service_that_is_away_is_reported_without_the_token(service, stand_in):
    stand_in.close()

    with pytest.raises(CallFailed, match="EndpointConnectionError") as raised:
        service.heartbeat(TOKEN)

    assert raised.value.is_service
    assert TOKEN not in str(raised.value)


def test_a_client_that_cannot_be_made_is_tried_again_and_without_boto3_the_extra_named():
    errors = [ModuleNotFoundError("No module named 'boto3'"), ValueError("no region")]

    def connect():
        if errors:
            raise errors.pop(0)
        return StandInClient()

    class StandInClient:
        def send_task_heartbeat(self, *, taskToken):  # noqa: N803 - boto3's name
            raise ClientError({"Error": {"Code": "TaskTimedOut"}}, "SendTaskHeartbeat")

    service = StepFunctions(connect)
    with pytest.raises(CallFailed, match=r"install kiqbridge\[aws\]") as raised:
        service.heartbeat(TOKEN)
    assert raised.value.is_service
    with pytest.raises(CallFailed, match="no region"):
        service.heartbeat(TOKEN)
    with pytest.raises(NobodyWaits):
        service.heartbeat(TOKEN)


def test_boto3_is_not_loaded_before_the_first_call():
    script = (
        "import sys; from kiqbridge.engine import launcher; "
        "sys.exit(bool({'boto3', 'botocore'} & set(sys.modules)))"
    )

    run_python(script)
