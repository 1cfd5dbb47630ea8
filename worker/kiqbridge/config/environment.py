"""Where Redis is for this process, as the environment says: fleets are looked into only if it names one."""

from collections.abc import Mapping

from kiqbridge import seams
from kiqbridge.config.client_settings import ForClients
from kiqbridge.config.redis_access import RedisAccess, base_access
from kiqbridge.config.setting import read


def read_access(environ: Mapping[str, str]) -> RedisAccess:
    """What the environment says; of the fleet that it names, if it names one.

    Raises:
        ConfigError: a wrong value, or settings that exclude each other.
    """
    if environ.get("KIQBRIDGE_FLEET"):
        fleets = seams.call("read_fleets")(environ)
        own: RedisAccess = fleets.fleets[fleets.own].access
        return own
    return base_access(environ)


def read_namespace(environ: Mapping[str, str]) -> str:
    """The namespace that the environment says; raises as `read_access`."""
    if environ.get("KIQBRIDGE_FLEET"):
        return read_access(environ).namespace
    return str(read(ForClients.namespace, environ))
