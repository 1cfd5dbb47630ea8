"""Lambda's API of `kiqbridge dev`: what boto3 does in AWS, it does on this machine."""

import json
import re
import shlex
import socket
from urllib.parse import urlsplit

import boto3
import httpx
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from support.dev_project import dev_project, interrupt, lines_of

ARN = "arn:aws:lambda:eu-west-1:000000000000:function:EnqueueFunction"
JOB = {"class": "HealthPulse", "args": []}
ECHO = """Resources:
  EchoFunction:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: lambdas/echo
      Handler: app.handler
"""
INVOCATIONS = "/2015-03-31/functions/EnqueueFunction/invocations"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with dev_project(tmp_path_factory.mktemp("invoked")) as project:
        project.change("Resources:\n", ECHO)
        (project.folder / "lambdas/echo").mkdir()
        (project.folder / "lambdas/echo/app.py").write_text(
            "def handler(event, context):\n"
            "    return [event, context.aws_request_id, context.invoked_function_arn]\n"
        )
        run = project.dev()
        run.wait_for_output(" is ready: ", 60)
        yield run
        assert interrupt(run) == 0
        assert "Traceback" not in run.output


@pytest.fixture(scope="module")
def url(run):
    return re.search(r"Lambda's API, by which .*: (http://127\.0\.0\.1:\d+)\n", run.output)[1]


@pytest.fixture(scope="module")
def client(url):
    config = Config(signature_version=UNSIGNED, retries={"total_max_attempts": 1})
    client = boto3.client("lambda", endpoint_url=url, region_name="eu-west-1", config=config)
    yield client
    client.close()


def invoke(client, payload=JOB, name="EnqueueFunction", **more):
    """Status, the function's error or None, and what was answered."""
    text = payload if isinstance(payload, bytes) else json.dumps(payload)
    answer = client.invoke(FunctionName=name, Payload=text, **more)
    body = answer["Payload"].read()
    return answer["StatusCode"], answer.get("FunctionError"), json.loads(body) if body else None


def test_a_job_is_enqueued_and_performed(run, client):
    status, error, answer = invoke(client)

    [job] = answer["enqueued"]
    assert (status, error, job["class"]) == (200, None, "HealthPulse")
    done = re.compile(rf"done +HealthPulse +{job['jid'][:8]} ")
    run.wait_for(lambda: done.search(run.output), 60, "the job")
    assert job["jid"] in lines_of(run, "invoke")[0]


def test_the_command_that_is_shown_names_a_rule_s_job(run, url):
    [shown] = re.findall(r"aws lambda invoke (?:.*\\\n)*.*\n", run.output)
    words = shlex.split(shown)

    assert words[words.index("--endpoint-url") + 1] == url
    assert words[words.index("--function-name") + 1] == "EnqueueFunction"
    payload = json.loads(words[words.index("--payload") + 1])
    assert {*payload} == {"class", "queue", "args"}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        (ARN, {}),
        (f"{ARN}:live", {}),
        ("000000000000:function:EnqueueFunction", {}),
        ("EnqueueFunction:live", {}),
        ("EnqueueFunction", {"Qualifier": "$LATEST"}),
    ],
)
def test_a_function_is_named_as_in_aws(client, name, more):
    assert invoke(client, name=name, **more)[2]["enqueued"]


def test_a_function_without_rules_is_invoked_as_well_and_sees_id_and_alias(client):
    answer = client.invoke(FunctionName="EchoFunction:live")

    shown = [{}, answer["ResponseMetadata"]["RequestId"], f"{ARN[:-15]}EchoFunction:live"]
    assert json.loads(answer["Payload"].read()) == shown


def test_an_event_is_accepted_and_performed_later(run, client):
    payload = {"jobs": [{**JOB, "jid": "of-an-event"}]}

    assert invoke(client, payload, InvocationType="Event") == (202, None, None)

    run.wait_for(lambda: "of-an-event" in run.output, 60, "the event")


def test_a_dry_run_enqueues_nothing(run, client):
    payload = {**JOB, "jid": "of-a-dry-run"}

    assert invoke(client, payload, InvocationType="DryRun") == (204, None, None)

    invoke(client)  # after it
    assert "of-a-dry-run" not in run.output


def test_what_the_function_raises_is_its_error(run, client):
    status, error, answer = invoke(client, {"class": "Kernel", "args": []})

    assert (status, error, answer["errorType"]) == (200, "Unhandled", "NotAllowed")
    assert "class: 'Kernel' is not among the classes" in answer["errorMessage"]
    run.wait_for(lambda: "invoked, failed: NotAllowed: class: 'Kernel'" in run.output, 60, "it")


def test_what_cannot_be_invoked_is_refused_as_by_lambda(client):
    of = client.exceptions
    with pytest.raises(of.ResourceNotFoundException, match=r"found: Nope; .* such as E"):
        invoke(client, name="Nope")
    with pytest.raises(of.ResourceNotFoundException):
        invoke(client, name="Nope", InvocationType="DryRun")
    with pytest.raises(of.InvalidRequestContentException, match="Could not parse request body"):
        invoke(client, b'{"class": ')
    with pytest.raises(of.InvalidParameterValueException, match="ends with a, and Qualifier is b"):
        invoke(client, name="EnqueueFunction:a", Qualifier="b")


@pytest.mark.parametrize(("kind", "most"), [("RequestResponse", 6_291_456), ("Event", 1_048_576)])
def test_a_payload_may_be_as_large_as_in_aws(client, kind, most):
    with pytest.raises(client.exceptions.RequestTooLargeException, match=f"limit {most} bytes"):
        invoke(client, b'"' + b"a" * (most - 1) + b'"', InvocationType=kind)
    status, *_ = invoke(client, b'"' + b"a" * (most - 2) + b'"', InvocationType=kind)
    assert status in {200, 202}


def test_only_this_machine_and_no_page_in_a_browser_may_invoke(url):
    with httpx.Client(base_url=url, timeout=60) as browser:
        headers = {"Origin": "http://evil.example", "Content-Type": "text/plain"}
        refused = browser.post(INVOCATIONS, content=json.dumps(JOB), headers=headers)
        assert (refused.status_code, refused.headers["x-amzn-errortype"]) == (
            403,
            "AccessDeniedException",
        )
        assert browser.post("/elsewhere").status_code == 404
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", urlsplit(url).port), 60)


def test_a_port_that_is_named_and_in_use_ends_the_start(url, project):
    port = urlsplit(url).port

    run = project.dev("--invoke-port", str(port))

    assert run.wait() == 1
    assert f"--invoke-port {port}: nothing can listen on 127.0.0.1:{port}: " in run.output
