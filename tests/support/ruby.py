"""Debian's Ruby Sidekiq, of this system or of Debian 13: scripts against its client and API, its real worker process."""

import contextlib
import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import redis

from support.processes import ChildProcess
from support.waiting import wait_until
from support.workers import find_identity

PRELUDE = Path(__file__).with_name("sidekiq_client.rb")
# Ruby reads scripts and output in the locale's encoding; ours is UTF-8 wherever the tests run.
UTF_8 = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}

ROOT_OF_13 = Path(__file__).parents[2] / ".debian13"
"""Debian 13, as `make .debian13/.root` unpacks it."""

Ruby = tuple[str, ...]
"""What stands before a command that is run with a Ruby."""

HERE: Final[Ruby] = ()
"""Ruby of this system: Sidekiq 6.4 on Debian 12."""


DEBIAN_13: Final[Ruby] = (
    "unshare",
    "--mount",
    *([] if os.geteuid() == 0 else ["--map-root-user"]),
    str(Path(__file__).with_name("debian_13.sh")),
)
"""Ruby of Debian 13: Sidekiq 7.3, Rails 7.2."""


@contextlib.contextmanager
def entered_debian_13() -> Iterator[Ruby]:
    """The same, mounted once: a command starts there in 3 ms, where mounting for each takes 30."""
    with ChildProcess([*DEBIAN_13, "sleep", "infinity"], is_forked=False) as holder:
        name = Path(f"/proc/{holder.pid}/comm")
        wait_until(lambda: name.read_text() == "sleep\n", what="Debian 13 being mounted")
        as_user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        yield ("nsenter", "--target", str(holder.pid), *as_user, "--mount", "--root")


@functools.cache
def has_debian_13() -> bool:
    """Whether Debian 13 is unpacked, and this process may enter it."""
    return (ROOT_OF_13 / ".root").exists() and _loads("sidekiq/web", "active_job", ruby=DEBIAN_13)


@functools.cache
def has_ruby_sidekiq() -> bool:
    """Whether `ruby` can load Sidekiq and the `sidekiq` command is there."""
    if not shutil.which("ruby") or not shutil.which("sidekiq"):
        return False
    return _loads("sidekiq")


@functools.cache
def has_web_ui() -> bool:
    """Whether Ruby can serve Sidekiq's Web UI over HTTP."""
    return has_ruby_sidekiq() and _loads("sidekiq/web", "rack/handler/webrick")


@functools.cache
def has_active_job() -> bool:
    """Whether Ruby has Rails' Active Job, with its adapter for Sidekiq."""
    return has_ruby_sidekiq() and _loads("sidekiq", "active_job")


@functools.cache
def has_fugit() -> bool:
    """Whether Ruby has fugit, which sidekiq-cron asks when a schedule is due."""
    return bool(shutil.which("ruby")) and _loads("fugit")


@functools.cache
def has_cron_gem() -> bool:
    """Whether Ruby has the gem sidekiq-cron."""
    return has_ruby_sidekiq() and _loads("sidekiq", "sidekiq-cron")


def _loads(*features: str, ruby: Ruby = HERE) -> bool:
    probe = [*ruby, "ruby", "-e", "ARGV.each { |feature| require feature }", *features]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def run_ruby(
    script: str, redis_url: str, timeout_s: float = 30, *, given: Any = None, ruby: Ruby = HERE
) -> Any:
    """Run `script` in Ruby and return what it answers.

    Sidekiq and its API are loaded, its client uses `redis_url`, and `GIVEN` is `given`, carried
    over as JSON. The answer is the last line of standard output, read as JSON; `answer(value)`
    in the script prints it.
    """
    result = subprocess.run(
        [*ruby, "ruby", "-r", str(PRELUDE), "-"],
        input=script,
        env={**os.environ, **UTF_8, "REDIS_URL": redis_url, "GIVEN": json.dumps(given)},
        capture_output=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )
    output = f"ruby ended with {result.returncode}\n{result.stdout}{result.stderr}"
    assert result.returncode == 0, output
    lines = result.stdout.rstrip("\n").split("\n")  # splitlines() would split at U+2028 as well
    assert lines[-1], f"no answer: {output}"
    return json.loads(lines[-1])


class RubySidekiq(ChildProcess):
    """Ruby's real `sidekiq` command on the server at `redis_url`.

    Args:
        jobs: Ruby source of the job classes; `REDIS_URL` is read by Sidekiq itself.
        queues: in order of weight, as `-q` takes them ("mail" or "mail,3").
    """

    def __init__(
        self,
        jobs: str,
        redis_url: str,
        *,
        queues: Sequence[str] = ("default",),
        concurrency: int = 2,
        shutdown_timeout_s: int = 5,
        env: Mapping[str, str] | None = None,
        ruby: Ruby = HERE,
    ) -> None:
        self._redis_url = redis_url
        self._folder = tempfile.TemporaryDirectory(prefix="ruby-sidekiq-")
        jobs_path = Path(self._folder.name, "jobs.rb")
        jobs_path.write_text(jobs, encoding="utf-8")
        command = [*ruby, "sidekiq", "-r", str(jobs_path)]
        command += ["-c", str(concurrency), "-t", str(shutdown_timeout_s)]
        command += [part for queue in queues for part in ("-q", queue)]
        super().__init__(
            command,
            env={**UTF_8, "REDIS_URL": redis_url, **(env or {})},
            cwd=Path(self._folder.name),
        )

    def wait_ready(self, timeout_s: float = 20) -> None:
        """Wait until the process is listed in Redis."""
        with redis.Redis.from_url(self._redis_url) as client:
            self.wait_for(
                lambda: find_identity(client, self.pid), timeout_s, "Sidekiq in the set `processes`"
            )

    def close(self) -> None:
        super().close()
        self._folder.cleanup()
