"""Scale-in protection: ECS does not stop a task while one of its jobs has been running for long.

A thread looks at the running jobs. As soon as one has been running for longer than the threshold it
asks the agent, at `$ECS_AGENT_URI/task-protection/v1/state`, to protect the task for some minutes,
again and again before they are over; when no such job is left it takes the protection back. It is
ECS that forgets the protection of a process which died. Spot interruptions are not held up by it.

Several worker processes of one task share its protection: each holds a shared lock on one file
while it wants it, and only the process that gets that lock exclusively, the last one, takes it back. The
kernel drops the lock of a killed process.
"""

import fcntl
import http.client
import json
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from kiqbridge.engine.host.status import make_run_folder, run_folder
from kiqbridge.engine.parts import EngineParts
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.role import Role, Until

logger = logging.getLogger(__name__)

PATH = "/task-protection/v1/state"
LOCK_FILE = "task-protection.lock"

EXPIRES_MIN = 5
"""Minutes (1 to 2,880) for which one request protects, and the longest that a dead process' does."""
RENEW_S = EXPIRES_MIN * 60 / 2
RETRY_S = 15.0
LOOK_S = 1.0
ANSWER_S = 2.0
"""How long the agent may be silent; it is on the same machine, but asks AWS itself."""
ANSWER_BYTES = 65_536


class TaskProtection(Role):
    """The thread that protects the task.

    Args:
        agent_uri: `$ECS_AGENT_URI`.
        after_s: a job that has been running for longer is to be protected.
        running: one value for each running job, the same at each call.
        folder: where the processes of this task find the lock.
    """

    def __init__(
        self,
        *,
        agent_uri: str,
        after_s: float,
        running: Callable[[], Iterable[Hashable]],
        folder: Path,
        look_s: float = LOOK_S,
        clock: Callable[[], float] = lease_now,
    ) -> None:
        super().__init__("ecs", self._watch, until=Until.QUIET, join_s=0)
        self._url = agent_uri.rstrip("/") + PATH
        self._after_s = after_s
        self._running = running
        # Not when they say they began: that is on a clock which may be set.
        self._seen_since: dict[Hashable, float] = {}
        self._lock_path = folder.absolute() / LOCK_FILE
        self._look_s = look_s
        self._clock = clock
        # Not by way of a proxy: the agent is on this machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._lock: IO[str] | None = None
        self._has_no_lock = False
        self._wants = False
        self._ask_at = 0.0
        self._complained = False

    def __repr__(self) -> str:
        return f"<TaskProtection {'wanted' if self._wants else 'not wanted'}, {self._url}>"

    def look(self) -> None:
        """Compare what is wanted now with what was asked for, and ask if need be."""
        now = self._clock()
        self._seen_since = {job: self._seen_since.get(job, now) for job in self._running()}
        if any(now - since >= self._after_s for since in self._seen_since.values()):
            if not self._wants or now >= self._ask_at:
                if not self._share_lock():
                    return  # the last one is giving the protection back at this moment: at the next look
                first, self._wants = not self._wants, True
                if self._put({"ProtectionEnabled": True, "ExpiresInMinutes": EXPIRES_MIN}):
                    self._ask_at = now + RENEW_S
                    if first:
                        logger.info(
                            "a job has been running for more than %g s: ECS protects this task from scale-in "
                            "and deployments",
                            self._after_s,
                        )
                else:
                    self._ask_at = now + RETRY_S
        elif self._wants:
            self._give_back()

    def _watch(self) -> None:
        while not self._stopping.wait(self._look_s):
            self.look()
        if self._wants:
            self._give_back()

    def _give_back(self) -> None:
        """If no other process wants it; should the agent not hear it, it expires by itself."""
        self._wants = False
        if self._lock is None:
            return  # we cannot know whether we are the last
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            if self._put({"ProtectionEnabled": False}):
                logger.info("no long job runs any more: ECS may stop this task")
        finally:
            self._lock.close()  # unlocks
            self._lock = None

    def _share_lock(self) -> bool:
        """False: another process holds it for itself alone."""
        if self._lock is not None and not _is_at(self._lock_path, self._lock):
            self._lock.close()  # the folder was removed: others lock another file
            self._lock = None
        if self._lock is None:
            try:
                make_run_folder(self._lock_path.parent)
                self._lock = self._lock_path.open("a", encoding="ascii")
            except OSError as error:
                if not self._has_no_lock:
                    self._has_no_lock = True
                    logger.warning(
                        "the task's protection will not be given back, but end %d minutes after the "
                        "last request: %s; name a folder in KIQBRIDGE_RUN_DIR",
                        EXPIRES_MIN,
                        error,
                    )
                return True
        try:
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _put(self, state: dict[str, Any]) -> bool:
        request = urllib.request.Request(  # noqa: S310 - http or https, checked by `task_protection`
            self._url,
            data=json.dumps(state).encode(),
            headers={"Content-Type": "application/json"},
            method="PUT",
        )
        try:
            with self._opener.open(request, timeout=ANSWER_S) as answer:
                answer_fields = _parsed(answer.read(ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                answer_fields = _parsed(error.read(ANSWER_BYTES))
            answer_fields.setdefault("error", {"Code": f"HTTP {error.code}"})
        except (OSError, http.client.HTTPException) as error:
            self._warn_once(str(error) or type(error).__name__)
            return False
        protection = answer_fields.get("protection")
        if (
            isinstance(protection, dict)
            and protection.get("ProtectionEnabled") is state["ProtectionEnabled"]
        ):
            self._complained = False
            return True
        self._warn_once(_reason(answer_fields))
        return False

    def _warn_once(self, why: str) -> None:
        """Log a warning once, until the agent has done what was asked."""
        if self._complained:
            return
        self._complained = True
        logger.warning(
            "the task's scale-in protection was not changed: %s. Jobs continue, but a scale-in or a "
            "deployment may stop this task during a long one. The task must belong to a service, and "
            "its role needs ecs:UpdateTaskProtection and ecs:GetTaskProtection. Tried again silently",
            why,
        )


def roles(parts: EngineParts) -> tuple[Role, ...]:
    """What protects the task of a worker; its last request may take as long as listeners to the exit have."""
    protection = task_protection(
        os.environ,
        after_s=parts.config.ecs_protect_after_s,
        running=lambda: [(tid, job.run_at) for tid, job in parts.running_jobs().items()],
        folder=run_folder(parts.config.run_dir),
    )
    if protection is None:
        return ()
    parts.events.add("exit", lambda: protection.stop(2 * ANSWER_S))
    return (protection,)


def task_protection(
    environ: Mapping[str, str],
    *,
    after_s: float,
    running: Callable[[], Iterable[Hashable]],
    folder: Path,
) -> TaskProtection | None:
    """The protection of the task in which this process runs; None where there is none to ask for.

    Args:
        environ: ECS has put the agent's address into it.
        after_s, running, folder: see `TaskProtection`.
    """
    agent_uri = environ.get("ECS_AGENT_URI", "")
    if not agent_uri.startswith(("http://", "https://")):
        logger.warning(
            "ecs_protect_after_s has no effect: ECS_AGENT_URI is %s. ECS sets it in its tasks; "
            "elsewhere set KIQBRIDGE_ECS_PROTECT_AFTER_S=0",
            f"{agent_uri!r}, not an address" if agent_uri else "not set",
        )
        return None
    return TaskProtection(agent_uri=agent_uri, after_s=after_s, running=running, folder=folder)


def _is_at(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except OSError:
        return False


def _parsed(body: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        answer_fields = json.loads(body)
        if isinstance(answer_fields, dict):
            return answer_fields
    return {}


def _reason(answer_fields: dict[str, Any]) -> str:
    """Why, in the agent's words: it answers `failure` or `error`, both with several fields."""
    for kind in ("error", "failure"):
        fields = answer_fields.get(kind)
        if isinstance(fields, dict):
            words = [fields.get(name) for name in ("Code", "Reason", "Message", "Detail")]
            return ": ".join(str(word) for word in words if word) or f"{kind} without a reason"
    return "the ECS agent's answer is not understood"
