"""Rules about what a server is: version, cluster mode, eviction, scripts, tracking, TLS."""

import ipaddress
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from kiqbridge.api import rulebook
from kiqbridge.api.rulebook import REDIS_CLI
from kiqbridge.api.server_rules import eviction_facts
from kiqbridge.api.verdict import Finding, Rule
from kiqbridge.errors import RedisRefused
from kiqbridge.features.doctor.system import Checks, System
from kiqbridge.store import server_check
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.replies import error_text
from kiqbridge.store.scripts import from_text

if TYPE_CHECKING:
    from redis.connection import AbstractConnection

_PROBE: Final = from_text("#!lua flags=no-writes,allow-oom\nreturn 1\n")
_CLOUDS: Final = (
    *(".amazonaws.com", ".windows.net", ".redislabs.com", ".redis-cloud.com", ".upstash.io"),
    *(".ondigitalocean.com", ".aivencloud.com", ".render.com", ".googleapis.com"),
)
"""Ends of the host names of managed servers."""

_rule: Final = partial(Rule, area="redis")

REACHABLE: Final = _rule(
    id="reachable",
    reports="a server that does not answer, or refuses the login; no other rule is applied then",
    why="nothing can be pushed or performed",
    do="check REDIS_URL, that the server runs, and its security group or password",
    command=REDIS_CLI + "PING",
)
VERSION: Final = _rule(
    id="version",
    reports="a server older than Redis 7.0 or Valkey 7.2",
    why=server_check.TOO_OLD,
    do=server_check.UPGRADE,
    command=REDIS_CLI + "INFO server",
)
CLUSTER: Final = rulebook.CLUSTER
EVICTION: Final = rulebook.EVICTION
SCRIPTS: Final = _rule(
    id="scripts",
    reports="a server, a proxy or an ACL that refuses scripts",
    why="each move of a job is a script",
    do="allow +eval and +evalsha in the ACL of this user, and use no proxy that refuses them",
    command=REDIS_CLI + "ACL SETUSER USER +eval +evalsha",
)
TRACKING: Final = _rule(
    id="tracking",
    reports="a server, a proxy or an ACL that refuses CLIENT TRACKING or CLIENT CACHING",
    why="an idle worker then looks for jobs ten times a second, and begins them up to 100 ms late",
    do="allow +client|tracking, +client|caching and +hello in the ACL of this user; a proxy must pass RESP3",
    command=REDIS_CLI + "ACL SETUSER USER '+client|tracking' '+client|caching' +hello",
)
TLS: Final = _rule(
    id="tls",
    reports="a connection without TLS over public networks or to a managed server; one that checks no certificate",
    why="who is on the way can read arguments and the password, and enqueue jobs",
    do="turn on encryption in transit at the server, and write rediss:// in place of redis://",
    command="export REDIS_URL=rediss://HOST:6379",
)


def check_reachable(system: System) -> Iterator[Finding]:
    """The connection answers; that it does not is found before any rule."""
    system.answers()
    yield REACHABLE.ok("the server answers")


def check_version(system: System) -> Iterator[Finding]:
    """Old servers cannot run the scripts."""
    info = system.info("server")
    shown = " ".join(server_check.server_version(info))
    yield (
        VERSION.problem(f"{shown} is too old")
        if server_check.is_too_old(info)
        else VERSION.ok(shown)
    )


def check_cluster(system: System) -> Iterator[Finding]:
    """A script may only use keys of one slot."""
    clustered = server_check.is_clustered(system.info("cluster"))
    if clustered and not system.found(CLUSTER) and not system.pool.follows_slots:
        yield CLUSTER.warning(
            "the server is a node of a cluster, and the address names it alone",
            why=server_check.ALONE,
            do=server_check.FOLLOW,
        )
        return
    well = "all keys lie in one slot of the cluster" if clustered else "cluster mode is off"
    yield from system.judged(CLUSTER, well)


def check_eviction(system: System) -> Iterator[Finding]:
    """What a full server does."""
    policy = system.policy
    if policy is None:
        yield EVICTION.unknown(
            "neither INFO memory nor CONFIG GET answers the eviction policy",
            do="allow +info in the ACL of this user, or look at the parameter group",
        )
    elif policy == server_check.NOEVICTION:
        yield EVICTION.ok(f"the policy is {policy}")
    else:
        yield from (EVICTION.judged(fact) for fact in eviction_facts(policy))


def check_scripts(system: System) -> Iterator[Finding]:
    """A script that does nothing is run."""
    try:
        system.connection.script(_PROBE, [], [])
    except RedisRefused as error:
        yield SCRIPTS.problem(f"scripts are refused: {error}")
    else:
        yield SCRIPTS.ok("scripts run")


def check_tracking(system: System) -> Iterator[Finding]:
    """Tracking is turned on as a worker does it, on a connection that is closed then."""
    refused = "RESP 3 (HELLO)"
    connection: AbstractConnection | None = None
    try:
        connection = system.pool.raw_connection()
        connection.connect()  # type: ignore[no-untyped-call]
        refused = "CLIENT TRACKING"
        connection.send_command("CLIENT", "TRACKING", "ON", "OPTIN")  # type: ignore[no-untyped-call]
        connection.read_response()
        refused = "CLIENT CACHING"
        connection.send_command("CLIENT", "CACHING", "YES")  # type: ignore[no-untyped-call]
        connection.read_response()
    except (redis.exceptions.RedisError, OSError) as error:
        yield TRACKING.problem(f"{refused} is refused: {error_text(error)}")
    else:
        yield TRACKING.ok("CLIENT TRACKING and CLIENT CACHING are allowed")
    finally:
        if connection is not None:
            connection.disconnect()  # type: ignore[no-untyped-call]


def check_tls(system: System) -> Iterator[Finding]:
    """By the address alone."""
    pool = system.pool
    yield tls_finding(pool.host, uses_tls=pool.uses_tls, checks_certificate=pool.checks_certificate)


def tls_finding(host: str, *, uses_tls: bool, checks_certificate: bool) -> Finding:
    """What a connection to a host (a name, an IP address, a path, or empty) reveals on its way."""
    if uses_tls and not checks_certificate:
        return TLS.warning(
            "TLS is on, and the server's certificate is not checked",
            why="anybody on the way can pose as the server",
            do="remove ssl_cert_reqs=none from the address, and name the authority with ssl_ca_certs",
        )
    if uses_tls:
        return TLS.ok("TLS is on, and the server's certificate is checked")
    if host.endswith(_CLOUDS):
        return TLS.warning(f"{host} is a managed server, and the connection has no TLS")
    if _is_near(host):
        return TLS.ok("without TLS, on this machine or in a private network")
    return TLS.problem(f"the connection to {host} has no TLS and crosses public networks")


def _is_near(host: str) -> bool:
    """Whether an address stays on the machine or in a private network, as far as its text shows."""
    if not host or host.startswith("/"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # A name without a dot is one of a network of containers; others may be anywhere.
        return "." not in host or host.endswith((".local", ".internal", ".localhost", ".svc"))
    return address.is_private or address.is_loopback or address.is_link_local


CHECKS: Final[Checks] = (
    ((REACHABLE,), check_reachable),
    ((VERSION,), check_version),
    ((CLUSTER,), check_cluster),
    ((EVICTION,), check_eviction),
    ((SCRIPTS,), check_scripts),
    ((TRACKING,), check_tracking),
    ((TLS,), check_tls),
)
"""Rules, and the function that applies them."""
