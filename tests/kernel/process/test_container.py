"""The image's rules, and its command as PID 1; the image itself is built elsewhere."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from support.processes import ChildProcess
from support.waiting import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "worker" / "Dockerfile"
OF_AN_APP = ROOT / "worker/kiqbridge/dev/scaffold/app/Dockerfile.tmpl"
UNSHARE = [
    *("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"),
    *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]),
]
JOBS = """
import os, time
from kiqbridge import job

@job
def until_open():
    os.write(1, b"begin as %d\\n" % os.getpid())  # in one piece: a line of the log may come between two
    while not os.path.exists("open"):
        time.sleep(0.005)
    print("end", flush=True)
"""


def instructions(path=DOCKERFILE):
    """(name, rest) of each instruction, continued lines joined, comments left out."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(" ", 1)) for line in joined.splitlines() if line.strip()]


def last_stage():
    found = instructions()
    start = max(index for index, (name, _) in enumerate(found) if name == "FROM")
    return found[start:]


def only(name):
    [rest] = [rest for found, rest in last_stage() if found == name]
    return rest


def environment():
    return dict(pair.split("=", 1) for pair in shlex.split(only("ENV")))


# The rules of the file


@pytest.mark.parametrize("path", [DOCKERFILE, OF_AN_APP], ids=lambda path: path.name)
def test_the_base_is_slim_of_the_functions_python_and_may_be_given_by_digest(path):
    first, *others = instructions(path)
    bases = [rest.split()[0] for name, rest in others if name == "FROM"]

    assert first == ("ARG", "PYTHON_IMAGE=python:3.13-slim")
    assert bases == ["${PYTHON_IMAGE}"] * 2, "both stages are of one image"
    assert ("LABEL", "org.opencontainers.image.base.name=${PYTHON_IMAGE}") in others
    assert [rest for name, rest in others if name == "ARG"][-1] == "PYTHON_IMAGE"
    assert "Default: python3.13" in (ROOT / "template.yaml").read_text()


def test_it_does_not_run_as_root():
    user = only("USER")
    names = [name for name, _ in last_stage()]

    assert int(user) > 0
    assert f"--uid {user}" in DOCKERFILE.read_text()
    assert "RUN" not in names[names.index("USER") :]


def test_no_shell_stands_before_the_worker():
    command = json.loads(only("CMD"))

    assert command[:2] == ["kiqbridge", "worker"]
    assert only("STOPSIGNAL") == "SIGTERM"
    assert "ENTRYPOINT" not in [name for name, _ in instructions()]


def test_health_is_the_live_check_which_needs_no_redis():
    _, _, command = only("HEALTHCHECK").partition("CMD ")

    assert json.loads(command) == ["kiqbridge", "health", "--live"]


def test_nothing_secret_and_nothing_unpinned_goes_in():
    text = DOCKERFILE.read_text()
    names = {name for name, _ in instructions()}

    assert names.isdisjoint({"ADD", "VOLUME"})
    assert "REDIS_URL" not in environment()
    assert not re.search(r"://\S*@|PASSWORD|SECRET|TOKEN", text, re.IGNORECASE)
    assert "--constraint constraints.txt" in text


def test_what_it_copies_is_there_and_let_through():
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    let_through = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    copied = {
        source
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }

    assert "*" in rules
    assert let_through == copied
    assert all((ROOT / source).exists() for source in copied)
    assert not any(fnmatch(".env", source) or source == "." for source in copied)


# The command as PID 1


@pytest.fixture
def own_namespace():
    """Skips where the system lets nobody make a process namespace; under CI=true that is a failure."""
    found = shutil.which("unshare") and shutil.which("nsenter")
    if (
        found
        and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    ):
        return
    reason = "NOT RUN: this system does not permit `unshare --pid`"
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"{reason}, and CI skips nothing", pytrace=False)
    pytest.skip(reason)


class Container:
    """The image's CMD in a process namespace of its own, in a folder laid out as in the image."""

    def __init__(self, folder, url):
        folder.joinpath("worker", "jobs").mkdir(parents=True)
        folder.joinpath("worker", "jobs", "long_job.py").write_text(JOBS)
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.env = {
            **environment(),
            "PATH": path,
            "REDIS_URL": url,
            "KIQBRIDGE_BEAT_S": "0.1",
            "KIQBRIDGE_RECOVER_AFTER_S": "6",
            "KIQBRIDGE_RUN_DIR": str(folder / "run"),
        }
        command = json.loads(only("CMD"))
        self.child = ChildProcess([*UNSHARE, *command], env=self.env, cwd=folder)

    @property
    def pid(self):
        """The worker's pid as we see it; it calls itself 1."""
        children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text()
        return int(children.split()[0])

    def health(self, check):
        """(exit code, output) of the command as the engine runs it: inside."""
        enter = ["nsenter", "--target", str(self.pid), "--pid", "--mount"]
        if os.geteuid() != 0:
            enter += ["--user", "--preserve-credentials"]
        answer = subprocess.run(
            [*enter, "kiqbridge", "health", check],
            env={**os.environ, **self.env},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return answer.returncode, answer.stdout

    def stop(self):
        """What `docker stop` does."""
        os.kill(self.pid, getattr(signal, only("STOPSIGNAL")))
        return self.child.wait()


@pytest.fixture
def contain(own_namespace, tmp_path):
    made = []

    def contain(url):
        made.append(Container(tmp_path / "app", url))
        return made[-1]

    yield contain
    for container in made:
        container.child.close()


def enqueue(redis, name):
    text = json.dumps({"class": name, "args": [], "jid": "0123456789abcdef01234567", "retry": True})
    redis.lpush("queue:default", text)


def test_term_drains_and_the_exit_code_is_0(redis, redis_url, contain):
    container = contain(redis_url)
    enqueue(redis, "until_open")
    container.child.wait_for_output("begin as 1\n", timeout_s=30)
    container.child.wait_for(lambda: redis.smembers("processes"), what="its heartbeat")
    [identity] = redis.smembers("processes")
    assert identity.decode().split(":")[-2] == "1"

    os.kill(container.pid, signal.SIGTERM)
    container.child.wait_for_output("no new jobs are taken")
    enqueue(redis, "until_open")  # comes too late for this worker
    assert container.child.is_running
    (container.folder / "open").touch()

    assert container.child.wait() == 0
    assert "\nend\n" in container.child.output
    assert redis.llen("queue:default") == 1
    kept = (
        b"kb:poller:clock",
        b"kb:done",
        b"kb:queues:",
    )  # for an hour, and of what has ended
    assert not [key for key in redis.keys("kb:*") if not key.startswith(kept)]
    assert not redis.exists("processes", "retry", "dead")
    assert list((container.folder / "run").iterdir()) == []


def test_health_is_told_inside(redis_url, contain):
    container = contain(redis_url)
    container.child.wait_for_output("is ready", timeout_s=30)

    wait_until(lambda: container.health("--ready")[0] == 0, 20)
    assert container.health("--live") == (0, "worker 1 is live (running)\n")

    assert container.stop() == 0
