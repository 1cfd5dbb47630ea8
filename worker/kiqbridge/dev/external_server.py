"""The server that the environment names, in place of the embedded one of `kiqbridge dev`."""

from collections.abc import Mapping

from kiqbridge.config.client_settings import ForClients
from kiqbridge.config.setting import read
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool


def external_url(environ: Mapping[str, str]) -> str | None:
    """Its address; None = the environment names none.

    Raises:
        RedisUnavailable: it is not there.
    """
    if not (environ.get("REDIS_URL") or environ.get("REDIS_PROVIDER")):
        return None
    url: str = read(ForClients.redis_url, environ)
    try:
        RedisPool(url).call("PING")
    except (RedisRefused, RedisUnavailable) as error:
        raise RedisUnavailable(f"{error}. {why_external(environ)}") from error
    return url


def why_external(environ: Mapping[str, str]) -> str:
    """Why the embedded server is not used."""
    variable = "REDIS_PROVIDER" if environ.get("REDIS_PROVIDER") else "REDIS_URL"
    return f"{variable} is set here, so that server is used, not the embedded one; for that one: unset {variable}"
