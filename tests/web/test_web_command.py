"""`kiqbridge web`, the real process."""

import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest
from support.servers import find_free_port
from support.web_process import WebProcess
from support.web_users import PASSWORD, cheap_hash

from kiqbridge.errors import ConfigError
from kiqbridge.web.auth import Auth, User
from kiqbridge.web.security import Security
from kiqbridge.web.server import require_sign_in


@pytest.fixture(scope="module")
def page(session_server):
    with WebProcess("--role", "operator", redis_url=session_server.url) as process:
        assert process.address
        yield process


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "kiqbridge", "web", *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
        **options,
    )


def test_it_prints_one_line_with_its_address_on_loopback(page):
    page.wait_for_output("/\n")

    assert re.fullmatch(r"kiqbridge web serves http://127\.0\.0\.1:\d+/\n", page.output)


def test_it_serves_pages_style_sheets_and_health(page):
    queues = page.get("queues")

    assert queues.status_code == 200
    assert "operator" in queues.text
    assert "server" not in queues.headers
    assert page.get("static/kiqbridge.css").status_code == 200
    assert page.get("healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_orderly_by_a_signal_though_a_browser_holds_a_connection(redis_url, number):
    with WebProcess("--base-path", "/jobs", redis_url=redis_url) as process:
        address = process.address
        assert address.endswith("/jobs/")
        with httpx.Client() as browser:
            assert browser.get(f"{address}queues").status_code == 200
            process.signal(number)
            assert process.wait() == 0
    assert process.output.count("\n") == 1


@pytest.mark.slow
def test_a_connection_that_sends_no_whole_request_is_closed(page):
    host, port = urlsplit(page.address).netloc.split(":")
    parts = {
        "nothing": b"",
        "half a head": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
        "half a body": b"POST /dead HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx",
        "a head after an answer": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /",
    }
    with ExitStack() as stack:
        sockets = {}
        for name, sent in parts.items():
            sockets[name] = stack.enter_context(socket.create_connection((host, int(port)), 20))
            sockets[name].sendall(sent)

        assert [name for name, each in sockets.items() if not is_closed(each)] == []


def is_closed(connection):
    """Whether the server ends it before the socket's own time-out."""
    try:
        while connection.recv(65_536):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


def test_a_port_in_use_is_named_with_the_reason():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])

        done = run("--port", port)

    assert (done.returncode, done.stdout) == (1, "")
    assert f"port {port}: Address already in use; choose another --port" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_listens_for_others_only_with_sign_in():
    done = run("--host", "0.0.0.0", "--port", str(find_free_port()))

    assert (done.returncode, done.stdout) == (1, "")
    assert "KIQBRIDGE_WEB_USERS_FILE" in done.stderr and "127.0.0.1" in done.stderr

    user = User(role="viewer", password_hash=cheap_hash())
    require_sign_in("0.0.0.0", Security(auth=Auth(users={"ann": user})))
    for host in ("0.0.0.0", "::", "", "10.0.0.4", "ops.example.com"):
        for auth in (Auth(), Auth(is_iam=True)):  # nobody has verified an AWS identity there
            with pytest.raises(ConfigError, match="no user would have to sign in"):
                require_sign_in(host, Security(auth=auth))


def test_a_wrong_role_is_a_fault_of_usage():
    done = run("--role", "root")

    assert done.returncode == 2
    assert "invalid choice: 'root'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--base-path", "jobs"], "web_base_path: 'jobs' is no path"),
        (["--port", "x"], "web_port: 'x' is not a whole number"),
        (["--host", "no host"], "no user would have to sign in"),
    ],
)
def test_a_wrong_setting_is_named(arguments, message):
    done = run(*arguments)

    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_a_password_is_hashed_and_not_shown():
    done = run("--hash-password", input=f"{PASSWORD}\n")

    assert done.returncode == 0
    assert re.fullmatch(r"scrypt\$15\$8\$3\$[\w-]{22}\$[\w-]{43}\n", done.stdout)
    assert PASSWORD not in done.stdout + done.stderr
