"""Rules about the settings of a worker, by the environment in which the doctor runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from kiqbridge.config.merge import merge
from kiqbridge.doctor.finding import Finding, Rule
from kiqbridge.doctor.system import System
from kiqbridge.errors import ConfigError

TO_GIVE_BACK_S: Final = 5.0
"""What a worker needs after its timeout, to give unfinished jobs back and sign off; ten are better."""

ORCHESTRATORS: Final[Mapping[str, tuple[str, str]]] = {
    "ECS_CONTAINER_METADATA_URI_V4": (
        "ECS",
        "StopTimeout of the container, 30 s by default, 120 s at most",
    ),
    "KUBERNETES_SERVICE_HOST": ("Kubernetes", "terminationGracePeriodSeconds, 30 s by default"),
    "INVOCATION_ID": ("systemd", "TimeoutStopSec, 90 s by default"),
}
"""A variable that each of them sets → its name, and where it has the time."""
_ECS: Final = "ECS_CONTAINER_METADATA_URI_V4"
_ECS_MOST_S: Final = 120.0
_LEAST_DEFAULT_S: Final = 30.0

_rule: Final = partial(Rule, area="worker")

SETTINGS: Final = _rule(
    id="settings",
    reports="variables of the environment that a worker refuses at its start",
    why="a worker does not start with them",
    action="correct the variable; docs/settings.md has them all",
)
STOP_TIMEOUT: Final = _rule(
    id="stop-timeout",
    reports="a KIQBRIDGE_TIMEOUT_S that ends later than the orchestrator kills (--stop-timeout gives its time)",
    why="a worker that is killed before it gives its jobs back lets them wait for half a minute, and begin again",
    action="set KIQBRIDGE_TIMEOUT_S 10 s below it, or raise StopTimeout (ECS), terminationGracePeriodSeconds "
    "(Kubernetes), TimeoutStopSec (systemd)",
)
POOL: Final = _rule(
    id="pool",
    reports="more child processes (KIQBRIDGE_POOL_SIZE) than jobs that run at once (KIQBRIDGE_CONCURRENCY)",
    why="a job in a child takes a thread as well, so the others are never used, and each takes memory",
    action="lower KIQBRIDGE_POOL_SIZE, or raise KIQBRIDGE_CONCURRENCY",
)


def check_settings(system: System) -> Iterator[Finding]:
    """As a worker reads them."""
    try:
        config = merge(environ=system.environ, flags={})
    except ConfigError as error:
        yield SETTINGS.problem(str(error))
        return
    yield SETTINGS.ok("a worker accepts the settings of this environment")
    yield _stop_timeout(config.timeout_s, system)
    slots = config.concurrency + sum(each.concurrency for each in config.capsules)
    if config.pool_size != "auto" and config.pool_size > slots:
        yield POOL.warning(
            f"KIQBRIDGE_POOL_SIZE is {config.pool_size}, and {slots} jobs run at once"
        )
    else:
        yield POOL.ok(f"KIQBRIDGE_POOL_SIZE is {config.pool_size}, and {slots} jobs run at once")


def _stop_timeout(timeout_s: float, system: System) -> Finding:
    found = next((name for name in ORCHESTRATORS if name in system.environ), None)
    killed_s = system.stop_timeout_s
    if killed_s is None and found == _ECS and timeout_s + TO_GIVE_BACK_S > _ECS_MOST_S:
        killed_s = _ECS_MOST_S
    if killed_s is not None:
        what = f"workers end within {timeout_s:.0f} s, and are killed after {killed_s:.0f} s"
        is_late = timeout_s + TO_GIVE_BACK_S > killed_s
        return STOP_TIMEOUT.problem(what) if is_late else STOP_TIMEOUT.ok(what)
    if found is None or timeout_s + TO_GIVE_BACK_S <= _LEAST_DEFAULT_S:
        return STOP_TIMEOUT.ok(f"workers end within {timeout_s:.0f} s")
    name, where = ORCHESTRATORS[found]
    return STOP_TIMEOUT.unknown(
        f"workers end within {timeout_s:.0f} s, and when {name} kills them is not visible from here",
        action=f"give --stop-timeout: {where}",
    )


CHECKS: Final[Sequence[tuple[Sequence[Rule], Callable[[System], Iterable[Finding]]]]] = (
    ((SETTINGS, STOP_TIMEOUT, POOL), check_settings),
)
"""Rules, and the function that applies them."""
