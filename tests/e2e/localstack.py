"""LocalStack's open core without Docker: a process on a free port of 127.0.0.1, with folders of its own.

What it keeps and unpacks is in one folder, which the caller removes. Its Lambda starts the processes
of `process_executor.py`.
"""

import os
import shutil
import subprocess
import urllib.request
import uuid
from contextlib import suppress
from pathlib import Path

import boto3
from botocore.config import Config
from support.processes import ChildProcess
from support.servers import HOST, find_free_port
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-e2e/bin/python"
REGION = "eu-west-1"
START_TIMEOUT_S = 90
STOP_TIMEOUT_S = 5
RUN_VARIABLE = "E2E_RUN"
"""In the environment of every process that LocalStack starts: what it leaves behind is found by it."""

SETTINGS = {
    # The default server ignores the bind address.
    "GATEWAY_SERVER": "hypercorn",
    "DISABLE_EVENTS": "1",
    "SKIP_SSL_CERT_DOWNLOAD": "1",
    "DNS_ADDRESS": "0",
    # A host that resolves: the function calls a queue by its address.
    "SQS_ENDPOINT_STRATEGY": "path",
    # Seconds between two attempts, 60 of each in Lambda.
    "LAMBDA_RETRY_BASE_DELAY": "1",
    "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_ERROR_SEC": "1",
    "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": "1",
}


class LocalStack(ChildProcess):
    """Use it as a context manager: it ends with the block, with all that it started.

    Args:
        folder: an empty folder for its files.
    """

    def __init__(self, folder: Path) -> None:
        self.port = find_free_port()
        self.run = uuid.uuid4().hex
        self._client_options = Config(
            connect_timeout=5,
            read_timeout=60,
            retries={"total_max_attempts": 1},
            s3={"addressing_style": "path"},
        )
        home, temporary, files, client = (
            folder / name for name in ("home", "tmp", "root", "runtime")
        )
        for each in (home, temporary, files):
            each.mkdir()
        lay_out_runtime(client)
        super().__init__(
            [str(PYTHON), "-m", "e2e.localstack_main"],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT / "tests"),
                "PYTHONUNBUFFERED": "1",
                "HOME": str(home),
                "XDG_CACHE_HOME": str(home / ".cache"),
                "TMPDIR": str(temporary),
                "FILESYSTEM_ROOT": str(files),
                "GATEWAY_LISTEN": f"{HOST}:{self.port}",
                "LOCALSTACK_HOST": f"localhost:{self.port}",
                "E2E_RUNTIME_CLIENT": str(client),
                "DEBUG": os.environ.get("DEBUG", "0"),
                RUN_VARIABLE: self.run,
                **SETTINGS,
            },
            cwd=folder,
            inherit=False,
        )

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which `sam` and boto3 talk to it, and to nothing else."""
        return {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "SAM_CLI_TELEMETRY": "0",
        }

    def client(self, service: str):
        """A boto3 client of one of its services."""
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=self._client_options,
        )

    def wait_ready(self) -> None:
        self.wait_for(self._is_healthy, START_TIMEOUT_S, "LocalStack being ready")

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/_localstack/health", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def close(self) -> None:
        """In order if it can; then whatever is left of it."""
        if self._final_output is None and self.is_running:
            with suppress(AssertionError):
                self.stop(STOP_TIMEOUT_S)
        super().close()
        for pid in self.leftovers():
            os.kill(pid, 9)
        wait_until(lambda: not self.leftovers(), what="the end of the function's processes")

    def leftovers(self) -> list[int]:
        """Processes of the function that are still there."""
        mark = f"{RUN_VARIABLE}={self.run}".encode()
        return [
            int(folder.name)
            for folder in Path("/proc").glob("[0-9]*")
            if mark in environment_of(folder).split(b"\0")
        ]


def environment_of(folder: Path) -> bytes:
    """Of a process that may end at any moment, or be of somebody else."""
    try:
        return (folder / "environ").read_bytes()
    except OSError:
        return b""


def lay_out_runtime(folder: Path) -> None:
    """Copy what Lambda's Python brings out of LocalStack's environment."""
    script = (
        "import sys; from pathlib import Path; from support import lambda_runtime_api as lambda_; "
        "lambda_.install_runtime_client("
        "Path(sys.argv[1]), (*lambda_.RUNTIME_CLIENT, *lambda_.AWS_SDK))"
    )
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        [str(PYTHON), "-c", script, str(folder)],
        env={"PYTHONPATH": str(ROOT / "tests")},
        check=True,
        timeout=60,
    )
