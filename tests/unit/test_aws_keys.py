"""Where the access key of a process comes from."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from unittest import mock

import pytest
from botocore.exceptions import ClientError
from support.servers import HOST

from kiqbridge.credentials.sigv4 import Keychain, Keys
from kiqbridge.errors import RedisMisconfigured, RedisUnavailable

ROLE = {
    "AccessKeyId": "ASIAROLE",
    "SecretAccessKey": "of-the-role",
    "Token": "t0ken",
    "Expiration": "2999-01-01T00:00:00Z",
}


@pytest.fixture
def no_keys(monkeypatch, tmp_path):
    """Nothing that AWS's SDKs would find on this machine."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("BOTO_CONFIG", str(tmp_path / "none"))


@pytest.fixture
def task(monkeypatch, no_keys):
    """The endpoint at which a task of ECS gets the keys of its role; what it answers can be set."""
    answers = [ROLE]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(answers[0]).encode()
            self.send_response(200 if "Token" in answers[0] else 400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer((HOST, 0), Handler) as server:
        url = f"http://{HOST}:{server.server_address[1]}/keys"
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield answers
        server.shutdown()
        thread.join()


def test_those_of_the_environment_need_no_botocore(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    aws = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}

    assert Keychain(aws).keys() == Keys(access_key="A", secret_key="s", session_token="t")
    aws["AWS_SESSION_TOKEN"] = ""
    assert Keychain(aws).keys() == Keys(access_key="A", secret_key="s")


def test_those_of_a_tasks_role_are_read_by_botocore(task):
    assert Keychain({}).keys() == Keys(
        access_key="ASIAROLE", secret_key="of-the-role", session_token="t0ken"
    )


def test_a_role_that_cannot_be_read_now_is_tried_again(task):
    task[0] = {"Message": "busy"}
    keychain = Keychain({})
    with pytest.raises(
        RedisUnavailable, match="the keys of the role cannot be read now"
    ) as refusal:
        keychain.keys()
    assert not isinstance(refusal.value, RedisMisconfigured)

    task[0] = ROLE

    assert keychain.keys().access_key == "ASIAROLE"


def test_a_role_that_may_not_be_assumed_is_named(monkeypatch):
    """As of a profile with role_arn: STS answers, and refuses."""
    refusal = ClientError({"Error": {"Code": "AccessDenied", "Message": "No."}}, "AssumeRole")
    session = mock.Mock()
    session.get_credentials.side_effect = refusal
    monkeypatch.setattr("botocore.session.get_session", lambda: session)

    with pytest.raises(RedisUnavailable, match="AssumeRole operation: No"):
        Keychain({}).keys()


def test_without_botocore_the_extra_is_named(monkeypatch, no_keys):
    monkeypatch.setitem(sys.modules, "botocore.session", None)

    with pytest.raises(RedisMisconfigured, match=r"pip install 'kiqbridge\[aws\]'"):
        Keychain({}).keys()


def test_without_any_keys_a_role_is_asked_for(no_keys):
    with pytest.raises(RedisMisconfigured, match="there are no AWS credentials; give the function"):
        Keychain({}).keys()
