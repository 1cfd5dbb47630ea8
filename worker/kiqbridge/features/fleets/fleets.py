"""Fleets: which queues lie under which namespace of which server. Loaded only where the setting is."""

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Self
from urllib.parse import urlsplit

from kiqbridge.config.client_settings import OWN, ForClients, RedisAccess, base_access
from kiqbridge.config.setting import pick, read
from kiqbridge.errors import ConfigError, PayloadError, did_you_mean
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.keys import Keys, hash_tag


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Workers and clients of one namespace.

    Attributes:
        name: of the fleet.
        queues: globs.
        access: where it lies, with its namespace.
    """

    name: str
    queues: tuple[str, ...]
    access: RedisAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleets:
    """All fleets of an application.

    Attributes:
        fleets: by name, in the order of the setting.
        own: name of the one that this process belongs to; empty: of none.
    """

    fleets: Mapping[str, Fleet]
    own: str = ""

    @classmethod
    def of(
        cls, given: Mapping[str, Any], own: str, base: RedisAccess, environ: Mapping[str, str]
    ) -> Self:
        """The fleets of the setting.

        Args:
            given: as `parse_fleets` returns it.
            own: name of the chosen fleet; empty: none is.
            base: where a fleet without an address of its own lies.
            environ: holds the variables that `provider` names.

        Raises:
            ConfigError: no such fleet, or two that are one; a namespace that a cluster cannot have.
        """
        if own and own not in given:
            hint = did_you_mean(own, given, f"; known are {', '.join(given)}")
            if not given:
                hint = "; KIQBRIDGE_FLEETS is not set, and only kiqbridge worker reads a file"
            raise ConfigError(
                f"fleet: {own!r} (--fleet, KIQBRIDGE_FLEET) is not in the setting fleets{hint}"
            )
        made: dict[str, Fleet] = {}
        for name, each in given.items():
            access = _access(name, each, base, environ)
            _check_place(name, access, made.values())
            made[name] = Fleet(name=name, queues=tuple(each["queues"]), access=access)
        return cls(fleets=made, own=own)

    def name_of(self, queue: str) -> str:
        """The name of the first fleet with a glob that matches the queue.

        Raises:
            PayloadError: there is none.
        """
        for name, each in self.fleets.items():
            if any(fnmatchcase(queue, glob) for glob in each.queues):
                return name
        raise PayloadError(
            f"queue: {queue!r} is matched by no fleet ({', '.join(self.fleets)}); add it to the queues of one, or "
            'end the last one with "*"'
        )

    def has(self, queue: str) -> bool:
        """Whether the queue belongs to the own fleet."""
        try:
            return self.name_of(queue) == self.own
        except PayloadError:
            return False


def from_message(message: Mapping[str, Any]) -> Fleets:
    """The counterpart of `asdict`, after JSON."""
    fleets = {
        name: Fleet(name=name, queues=tuple(each["queues"]), access=RedisAccess(**each["access"]))
        for name, each in message["fleets"].items()
    }
    return Fleets(fleets=fleets, own=message["own"])


def read_fleets(environ: Mapping[str, str]) -> Fleets:
    """The fleets that the environment names.

    Raises:
        ConfigError: as `parse_fleets` and `Fleets.of`.
    """
    given, own = read(ForClients.fleets, environ), read(ForClients.fleet, environ)
    return Fleets.of(given or {}, own, base_access(environ), environ)


def in_fleet(
    values: Mapping[str, Any], aws: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, Any]:
    """The values of a worker's settings that its fleet replaces.

    Raises:
        ConfigError: as `Fleets.of`, or no fleet is chosen.
    """
    if not values["fleet"]:
        raise ConfigError(
            f"fleets: a worker serves one fleet; choose it with --fleet or KIQBRIDGE_FLEET: {', '.join(values['fleets'])}"
        )
    base = RedisAccess(aws=aws, **{name: values[f"redis_{name}"] for name in OWN})
    fleets = Fleets.of(values["fleets"] or {}, values["fleet"], base, environ)
    access = fleets.fleets[fleets.own].access
    return {
        "fleets": fleets,
        "namespace": access.namespace,
        **{f"redis_{name}": getattr(access, name) for name in OWN},
    }


def _access(
    name: str, given: Mapping[str, Any], base: RedisAccess, environ: Mapping[str, str]
) -> RedisAccess:
    namespace, secret_arn = given["namespace"], given["secret_arn"]
    if not (given["url"] or given["provider"] or secret_arn):
        return replace(base, namespace=namespace)
    fleet_environ = {**environ, "REDIS_URL": given["url"], "REDIS_PROVIDER": given["provider"]}
    try:
        url, source = pick(ForClients.redis_url, fleet_environ)
    except ConfigError as error:
        raise ConfigError(f"fleets.{name}: {error}") from error
    return RedisAccess(
        url=url,
        url_is_default=source == "default",
        secret_arn=secret_arn,
        aws=base.aws,
        namespace=namespace,
    )


def _check_place(name: str, access: RedisAccess, others: Any) -> None:
    prefix = Keys(access.namespace).prefix
    if "+cluster" in urlsplit(access.url).scheme and not hash_tag(prefix):
        raise ConfigError(
            f"fleets.{name}: the namespace {access.namespace!r} does not keep all keys in one slot of a cluster; "
            f"write a name in braces, such as {{{name}}}"
        )
    for other in others:
        if (_server(access), prefix) == (
            _server(other.access),
            Keys(other.access.namespace).prefix,
        ):
            raise ConfigError(
                f"fleets.{name}: namespace and address are those of {other.name}, so that they are one fleet; give "
                "it a namespace of its own, or make them one"
            )


def _server(access: RedisAccess) -> tuple[object, ...]:
    """Differs between servers, as far as the settings show it."""
    url = urlsplit(access.url)
    host = url.netloc.rpartition("@")[2].removesuffix(":6379")
    return access.secret_arn, access.ssm_parameter, host, url.path.strip("/") or "0"
