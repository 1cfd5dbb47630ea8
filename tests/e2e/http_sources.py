"""Jobs by HTTP: the function's own URL, and a REST API of API Gateway.

LocalStack verifies no signature and names no caller in the event, so the function, as it is deployed,
refuses each request. That is checked; then anybody is let in, and the requests are sent again.
"""

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from e2e.localstack import REGION
from e2e.stage import Stage
from support.servers import HOST
from support.waiting import wait_until

OPEN = {"KIQBRIDGE_HTTP_AUTH": "none"}


def post_to_function_url(stage: Stage, job: dict[str, Any], marker: str) -> None:
    config = stage.client("lambda").get_function_url_config(FunctionName=stage.function)
    host = config["FunctionUrl"].partition("://")[2].rstrip("/")
    deliver(stage, f"{stage.cloud.url}/", host, job, "lambda")


def post_to_rest_api(stage: Stage, job: dict[str, Any], marker: str) -> None:
    url = f"{stage.cloud.url}/_aws/execute-api/{stage.resources['Api']}/e2e/jobs"
    deliver(stage, url, f"{HOST}:{stage.cloud.port}", job, "execute-api")


def check_http(stage: Stage, markers: Sequence[str]) -> str:
    """What `deliver` has asserted."""
    return "401 as deployed; then 202, and 200 for the same Idempotency-Key"


def deliver(stage: Stage, url: str, host: str, job: object, service: str) -> None:
    """Post a job under one key: refused as deployed, then enqueued, then known."""
    key = uuid.uuid4().hex
    if not is_open(stage):
        status, answer = post(url, host, job, service, key)
        assert status == 401, f"{status}: {answer}"
        set_variables(stage, OPEN)
    answers = [post(url, host, job, service, key) for _ in range(2)]
    assert [status for status, _ in answers] == [202, 200], answers


def is_open(stage: Stage) -> bool:
    return OPEN.items() <= variables_of(stage).items()


def variables_of(stage: Stage) -> dict[str, str]:
    answer = stage.client("lambda").get_function_configuration(FunctionName=stage.function)
    return answer["Environment"]["Variables"]


def set_variables(stage: Stage, variables: dict[str, str]) -> None:
    """Add to the environment of the deployed function, until the next deployment.

    LocalStack loses asynchronous invocations that come right after that: these sources are the last.
    """
    client = stage.client("lambda")
    client.update_function_configuration(
        FunctionName=stage.function,
        Environment={"Variables": variables_of(stage) | variables},
    )
    wait_until(
        lambda: (
            client.get_function_configuration(FunctionName=stage.function)["LastUpdateStatus"]
            == "Successful"
        ),
        30,
        "the function's new variables",
    )


def post(url: str, host: str, body: object, service: str, key: str) -> tuple[int, str]:
    """A signed POST to LocalStack under the name of this host; status and answer."""
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": key, "Host": host}
    request = AWSRequest("POST", url, data=data, headers=headers)
    SigV4Auth(Credentials("test", "test"), service, REGION).add_auth(request)
    sent = urllib.request.Request(url, data, dict(request.headers.items()), method="POST")
    try:
        with urllib.request.urlopen(sent, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(errors="replace")
