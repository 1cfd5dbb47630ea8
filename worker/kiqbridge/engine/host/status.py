"""The status of a worker on its own machine: a small file, written every few seconds.

`kiqbridge health` reads it, in the same container or on the same machine. It needs no Redis: a
health check that failed whenever Redis is away would have the whole fleet restarted in an outage.
A thread of its own writes, so what goes stale is the process as a whole, not one of its errands.
"""

import json
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.records import dataclass

logger = logging.getLogger(__name__)

EVERY_S = 3.0
STALE_AFTER_S = 20.0
"""A process that was silent for this long has lost its jobs to others already (lease.py)."""
LEFTOVER_AFTER_S = 600.0
"""What is older was left behind by a process that was killed, and its pid is another one's now."""
UNLED_AFTER_S = 20.0
"""Another process takes the lead of the pollers within half of it."""
MISSED_BEATS = 3
LEAST_SILENCE_S = 15.0
"""A heartbeat that waits for an answer in vain takes some seconds; one such is no news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status of one worker process; points in time are on `lease_now`."""

    identity: str
    pid: int
    state: str
    """starting (Redis is awaited), running, quiet or stopping."""
    written_at: float
    heartbeat_at: float | None
    """When Redis last took a heartbeat; None = never."""
    beat_s: float
    is_leased: bool
    """Whether it may begin jobs: Redis has confirmed its lease lately."""
    ended_threads: Sequence[str]
    """Threads that should run and do not."""
    stuck_threads: Sequence[str] = field(default_factory=list)
    """Threads that have not got on for `stuck_after_s` seconds, outside of the code of jobs."""
    stuck_after_s: float = 30.0
    is_wedged: bool = False
    """The worker ends itself because a thread is stuck, or has ended and cannot be started anew."""
    troubles: Sequence[str] = field(default_factory=list)
    """What it cannot do until somebody changes something (runtime/role.py)."""
    overran: int = 0
    """Jobs that were taken away from this process because they ran longer than their `max_run_s`."""
    lost_threads: int = 0
    """Threads that did not come back from such a job, and were replaced."""
    restarted_threads: int = 0
    """How many threads have ended and were started anew."""
    missed_ticks: int = 0
    """How many ticks of schedules did not come, as this process found while it led the fleet."""
    unled_s: float = 0.0
    """For how many seconds no process of the fleet has moved due jobs, as this one sees it by its own clock."""
    ages: Mapping[str, Any] = field(default_factory=dict)
    """Ages of work, in seconds (`ages.Ages`)."""
    busy: int = 0
    """Jobs that run now."""
    concurrency: int = 0
    """Jobs that can run at once."""
    started_at: float = 0.0
    start_period_s: float = 60.0
    """Seconds from then on in which it need not have reached Redis to be live."""
    has_reached_redis: bool = True
    """Whether Redis has confirmed a lease of this process once, or of its supervisor's processes."""
    supervisor: int | None = None
    """The pid of the process that started this one and starts it again; None = there is none."""


class StatusFile:
    """Writes the status of this process until it is stopped, and removes it then.

    `before` is called before each but the first. `failed` is called with the error when one was not
    written; neither may take a lock, or log.
    """

    def __init__(
        self,
        folder: Path,
        look: Callable[[], Status],
        every_s: float = EVERY_S,
        *,
        before: Callable[[], object] = lambda: None,
        failed: Callable[[Exception], object] = lambda _error: None,
    ) -> None:
        self._before = before
        self._failed = failed
        self._path = folder.absolute() / f"worker-{os.getpid()}-{pid_namespace()}.json"
        self._look = look
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kiqbridge-status", daemon=True)

    def start(self) -> None:
        """Write now and every few seconds; a folder that cannot be written costs a warning only."""
        try:
            make_run_folder(self._path.parent)
            _remove_leftovers(self._path.parent)
            self._write()
        except OSError as error:
            logger.warning(
                "`kiqbridge health` will find no worker until its file can be written, which is tried again every "
                "%g s: %s; name a folder in KIQBRIDGE_RUN_DIR",
                self._every_s,
                error,
            )
        self._thread.start()

    def stop(self) -> None:
        """Write no more, and remove the file."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        with suppress(OSError):
            self._path.unlink()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(BaseException):  # such as one that a job raises in all threads
                self._write_on()

    def _write_on(self) -> None:
        # Nothing is logged here, and no lock is taken: what this reports may be threads that wait for it.
        while not self._stopping.wait(self._every_s):
            try:
                self._before()
                self._write()
            except Exception as error:  # noqa: BLE001 - the next one tries again; readers see a stale one
                self._failed(error)

    def _write(self) -> None:
        # Written aside and renamed: no reader sees half of it. The name is not to be guessed, since
        # the folder may be in one that all users write to.
        text = json.dumps(asdict(self._look()))
        make_run_folder(
            self._path.parent
        )  # somebody may have removed it, such as a cleaner of /tmp
        aside = self._path.parent / f".worker-{os.getpid()}-{os.urandom(8).hex()}"
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(handle, 0o600)  # whatever umask a job has set
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            aside.replace(self._path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise


def run_folder(name: str) -> Path:
    """The folder called `name`, or this user's own among the system's temporary files."""
    if name:
        return Path(name)
    return Path(_temporary_folder()) / f"kiqbridge-{os.getuid()}"


def _temporary_folder() -> str:
    named = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - what is in it is looked at (`refusal`)
    if os.access(named, os.W_OK | os.X_OK):
        return named
    import tempfile  # noqa: PLC0415 - 3 ms, for compressed archives and random numbers

    return tempfile.gettempdir()


def make_run_folder(folder: Path) -> None:
    """Make sure that the folder exists and that no other user owns it.

    Raises:
        OSError: it cannot be made, or `refusal` says what is wrong with it.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
        folder.chmod(0o700)  # whatever umask a job has set
    refused = refusal(folder)
    if refused:
        raise PermissionError(refused)


def refusal(folder: Path) -> str | None:
    """Why nothing is written to this folder and nothing in it is believed; None = it is ours, root's or not there.

    The name of a folder in /tmp is known to all: another user may have made it, and put files there that make
    `kiqbridge health` pass or fail.
    """
    user = os.geteuid()
    with suppress(FileNotFoundError):
        for found in (
            folder.lstat(),
            folder.stat(),
        ):  # a link may be another's, though it leads to ours
            if found.st_uid not in (0, user):
                return f"{folder} belongs to the user {found.st_uid}, not to {user} or root"
        if found.st_uid and found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            return f"{folder} may be written by every user; run `chmod o-w`"
    return None


def pid_namespace() -> str:
    """Where a pid means one process: containers that share a folder have a process 1 each.

    The kernel's number of the namespace, and the boot that it belongs to.
    """
    number, boot = 0, ""
    with suppress(OSError):  # no Linux
        number = Path("/proc/self/ns/pid").stat().st_ino
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()[:8].decode()
    return f"{number}{boot}"


def read_statuses(folder: Path, *, is_trusted: bool = False) -> Iterator[Status]:
    """The statuses of the workers that run in this container or on this machine; those of killed ones are left out.

    Raises:
        PermissionError: `refusal` says what is wrong with the folder, and it is not one that is trusted anyway.
    """
    refused = None if is_trusted else refusal(folder)
    if refused:
        raise PermissionError(refused)
    now = lease_now()
    for path in sorted(folder.glob(f"worker-*-{pid_namespace()}.json")):
        # It may be removed while we look; and a file of another version is none of ours.
        with suppress(OSError, ValueError, TypeError):
            status = Status(**json.loads(path.read_text(encoding="utf-8")))
            if _is_running(status.pid) and -1 <= now - status.written_at <= LEFTOVER_AFTER_S:
                yield status


def faults_of(status: Status, check: str, now: float) -> Iterator[str]:
    """Why it is not `live`, or not `ready`; `now` is on `lease_now`."""
    silence = now - status.written_at
    # A C call may hold the interpreter lock for long. Its supervisor keeps the lease of such a process
    # meanwhile, and kills it in the end; without one its jobs have gone to others already.
    if silence > STALE_AFTER_S and not (check == "live" and status.supervisor is not None):
        yield f"it has said nothing for {silence:.0f} s"
    for name in status.ended_threads:
        yield f"its thread {name} has ended"
    for name in status.stuck_threads:
        yield f"its thread {name} has been stuck for more than {status.stuck_after_s:.0f} s"
    if status.is_wedged:
        yield "it ends itself, since a thread was stuck or could not be started anew"
    yield from _never_reached(status, now) if check == "live" else _no_progress(status, now)


def _never_reached(status: Status, now: float) -> Iterator[str]:
    # A restart may not reach Redis either, but a deployment that replaces old workers must fail.
    age = now - status.started_at
    if not status.has_reached_redis and age > status.start_period_s:
        yield (
            f"it has not reached Redis once in the {age:.0f} s since its start, and start_period_s is "
            f"{status.start_period_s:g}; its log says why"
        )


def _no_progress(status: Status, now: float) -> Iterator[str]:
    if status.state != "running":
        yield f"it is {status.state}"
    yield from status.troubles
    if status.unled_s > UNLED_AFTER_S:
        yield f"no process of the fleet has moved due jobs and schedules for {status.unled_s:.0f} s"
    if not status.is_leased:
        yield "Redis has not confirmed its lease"
    if status.heartbeat_at is None:
        yield "Redis has taken no heartbeat yet"
    elif now - status.heartbeat_at > max(MISSED_BEATS * status.beat_s, LEAST_SILENCE_S):
        yield f"Redis has taken no heartbeat for {now - status.heartbeat_at:.0f} s"


def faults_of_all(statuses: Sequence[Status], check: str, now: float) -> dict[int, list[str]]:
    """Faults by pid; none of a process that its supervisor replaces while another one makes progress."""
    faults = {status.pid: list(faults_of(status, check, now)) for status in statuses}
    progress = {
        status.supervisor for status in statuses if not any(faults_of(status, "ready", now))
    }
    for status in statuses:
        is_replaced = status.supervisor is not None and status.state in ("starting", "stopping")
        if is_replaced and status.supervisor in progress:
            faults[status.pid] = list(faults_of(status, "live", now))
    return faults


def _remove_leftovers(folder: Path) -> None:
    """Remove the files of killed workers; whether one of another container runs only its age can say."""
    for path in folder.glob("worker-*.json"):
        pid, _, namespace = path.stem.removeprefix("worker-").partition("-")
        with suppress(OSError):
            if namespace == pid_namespace():
                is_leftover = pid.isdecimal() and not _is_running(int(pid))
            else:
                is_leftover = time.time() - path.stat().st_mtime > LEFTOVER_AFTER_S
            if is_leftover:
                path.unlink()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
