"""Whether a server can hold our jobs at all: old versions and cluster mode, looked at once at the start.

And what it does when its memory is full: refuse to write, or forget what it holds.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from kiqbridge.errors import ConfigError, KiqbridgeError, RedisRefused
from kiqbridge.store.process_set import is_ours, read_infos
from kiqbridge.wire.keys import Keys, hash_tag

logger = logging.getLogger(__name__)

OLDEST: Final = {"redis": (7, 0), "valkey": (7, 2)}

TOO_OLD: Final = "scripts need flags that allow them to go on while memory is full"
UPGRADE: Final = "upgrade to Redis 7.0, Valkey 7.2, or newer"

CLUSTERED: Final = "it spreads keys over slots, and a script may only use keys of one slot"
UNCLUSTER: Final = (
    "set KIQBRIDGE_NAMESPACE to a name in braces, such as {jobs}, for clients and workers alike, or use a "
    "server without cluster mode, which Ruby needs in any case"
)

RUBY: Final = "Ruby's Sidekiq does not follow keys from one node of a cluster to another"
WITHOUT_RUBY: Final = (
    "give Ruby and the workers beside it a server without cluster mode, or stop those processes; one that has ended "
    "is forgotten after a minute"
)
ALONE: Final = (
    "once the slot of our keys lies on another one, as after a failover, no call succeeds any more"
)
FOLLOW: Final = "write redis+cluster://HOST:PORT in place of redis://HOST:PORT (rediss+cluster:// for rediss://)"
_SAMPLE: Final = 100
"""Processes that are looked at; a thousand workers that start must not read each other."""
_NAMED: Final = 5
"""Processes named in the message; more are only counted."""


def server_version(info: Mapping[str, str]) -> tuple[str, str]:
    """Kind of server, `redis` or `valkey`, and its version."""
    if "valkey_version" in info:
        return "valkey", info["valkey_version"]
    return "redis", info.get("redis_version", "0")


def is_too_old(info: Mapping[str, str]) -> bool:
    """Whether we need a newer version, by the fields of INFO server."""
    name, version = server_version(info)
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST[name]


def is_clustered(info: Mapping[str, str]) -> bool:
    """Whether the server is in cluster mode, by the fields of INFO cluster."""
    return info.get("cluster_enabled") == "1"


def check_server(
    run: Callable[..., list[Any]], prefix: str, address: str, *, follows_slots: bool = True
) -> None:
    """Refuse a server that cannot hold our jobs; one that does not report its version is accepted.

    Args:
        run: sends commands and returns their replies.
        prefix: of all keys.
        address: as it may be shown.
        follows_slots: whether connections find the node that owns the slot of our keys; if not, and the server is in
            cluster mode, a warning is logged.

    Raises:
        ConfigError: it is too old, or in cluster mode without a hash tag in the namespace or with Ruby processes in
            it.
        RedisUnavailable: it is away.
    """
    try:
        info = {**parse_info(run(("INFO", "server"))[0]), **parse_info(run(("INFO", "cluster"))[0])}
    except RedisRefused as error:
        logger.debug("Redis does not report its version: %s", error)
        return
    if ("redis_version" in info or "valkey_version" in info) and is_too_old(info):
        raise ConfigError(
            f"the server at {address} is {' '.join(server_version(info))}, which is too old: {TOO_OLD}; {UPGRADE}"
        )
    if is_clustered(info) and not hash_tag(prefix):
        raise ConfigError(f"the server at {address} is in cluster mode: {CLUSTERED}; {UNCLUSTER}")
    if is_clustered(info) and (ruby := _ruby_processes(run, prefix)):
        more = f" and {len(ruby) - _NAMED} more" if len(ruby) > _NAMED else ""
        raise ConfigError(
            f"the server at {address} is in cluster mode, and Ruby processes use it under {prefix!r}: "
            f"{', '.join(ruby[:_NAMED])}{more}. {RUBY}: {WITHOUT_RUBY}"
        )
    if is_clustered(info) and not follows_slots:
        logger.warning(
            "the server at %s is a node of a cluster, and REDIS_URL names it alone: %s; %s",
            address,
            ALONE,
            FOLLOW,
        )


def _ruby_processes(run: Callable[..., list[Any]], prefix: str) -> list[str]:
    """Identities of those that show themselves as living."""
    try:
        infos = read_infos(run, Keys(prefix), most=_SAMPLE)
    except RedisRefused as error:
        logger.debug("Redis does not say which processes there are: %s", error)
        return []
    return sorted(name for name, info in infos.items() if info is not None and not is_ours(info))


NOEVICTION: Final = "noeviction"
SETTING: Final = "maxmemory-policy"

WHAT_TO_DO: Final = (
    f"set {SETTING} to {NOEVICTION}: CONFIG SET {SETTING} {NOEVICTION} and the server's file, or on "
    "ElastiCache a parameter group of your own, since the default one cannot be changed"
)


def fetch_policy(run: Callable[..., list[Any]]) -> str | None:
    """The eviction policy, None where the server does not answer that.

    Managed services refuse CONFIG, and some INFO.

    Args:
        run: sends commands and returns their replies.

    Raises:
        RedisUnavailable: Redis is away.
    """
    for ask, read in ((("INFO", "memory"), _of_info), (("CONFIG", "GET", SETTING), _of_config)):
        try:
            policy = read(run(ask)[0])
        except RedisRefused as error:
            logger.debug("Redis does not report its eviction policy: %s", error)
            continue
        if policy:
            return policy
    return None


def what_can_be_lost(policy: str) -> str:
    """In words, for a policy other than `noeviction`."""
    if policy.startswith("allkeys"):
        return "any key, whole queues with all their jobs included"
    return (
        "keys with a time to live: the progress of iterable jobs, how often a job was found orphaned, "
        "statistics that are being written, and what the Web UI shows of processes"
    )


def warn_of_eviction(run: Callable[..., list[Any]]) -> None:
    """Log at the start that this Redis may forget what it holds.

    Args:
        run: sends commands and returns their replies.
    """
    try:
        policy = fetch_policy(run)
    except KiqbridgeError as error:
        logger.debug("could not ask for the eviction policy: %s", error)
        return
    if policy is not None and policy != NOEVICTION:
        logger.warning(
            "this Redis has the eviction policy %s: when its memory is full it loses %s; %s",
            policy,
            what_can_be_lost(policy),
            WHAT_TO_DO,
        )


def parse_info(reply: bytes) -> Mapping[str, str]:
    """Fields of a section that INFO answers."""
    lines = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines())
    return {name: value for name, separator, value in lines if separator}


def _of_info(reply: bytes) -> str | None:
    return parse_info(reply).get("maxmemory_policy")


def _of_config(reply: list[bytes]) -> str | None:
    return reply[1].decode("utf-8", "replace") if len(reply) > 1 else None
