"""Tokens with which a user of ElastiCache logs in by IAM: an address that is signed beforehand, in place of a password.

A token can be used for 15 minutes after it was made, and here it is made for each connection, offline.
ElastiCache ends a connection 12 hours after its last login; the store opens a new one before that.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Final

from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError as RedisConnectionError

from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.config.credentials.sigv4 import Keychain, Signer
from kiqbridge.errors import ConfigError, RedisUnavailable

TOKEN_LIFE_S: Final = 900
"""The longest that ElastiCache allows."""
MAX_AGE_S: Final = 11 * 3600.0
"""Of a connection; an hour less than ElastiCache allows."""

_FIT: Final = re.compile(r"rediss(\+cluster)?://|redis://(127\.0\.0\.1|localhost|\[::1\])([:/?]|$)")
"""TLS, or this host: a tunnel, or a test."""

_RESOURCE_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "": {},
    "replicationgroup": {},
    "serverlesscache": {"ResourceType": "ServerlessCache"},
}
"""What the request says of a cache, by the kind in its ARN; "" = a replication group."""


class IamTokens(CredentialProvider):
    """User and token for each new connection, as redis-py asks for them.

    Args:
        access: user, cache, region and keys.
        clock: seconds since the epoch.

    Raises:
        ConfigError: the address or the cache is not fit for it, or the region is not known.
    """

    def __init__(self, access: RedisAccess, clock: Callable[[], float] = time.time) -> None:
        check_address(access.url)
        if not access.region:
            raise ConfigError("REDIS_IAM_USER: the region is not known; set AWS_REGION")
        self._user = access.iam_user
        kind, _, name = access.iam_cache.rpartition(":")
        if kind not in _RESOURCE_TYPES or not name:
            raise ConfigError(
                f"REDIS_IAM_CACHE: {access.iam_cache!r} names no cache; write replicationgroup:NAME or "
                "serverlesscache:NAME, as its ARN ends"
            )
        self._cache = name.lower()  # as ElastiCache writes it
        self._params = {"Action": "connect", "User": self._user, **_RESOURCE_TYPES[kind]}
        self._region = access.region
        self._keychain = Keychain(access.aws)
        self._clock = clock

    def __repr__(self) -> str:
        return f"IamTokens({self._user}, {self._cache})"

    def get_credentials(self) -> tuple[str, str]:
        """The user and a new token.

        Raises:
            RedisConnectionError: there are no keys to sign with; its cause has the reason.
        """
        try:
            keys = self._keychain.keys()
        except RedisUnavailable as error:
            raise RedisConnectionError(str(error)) from error
        signer = Signer(keys=keys, region=self._region, service="elasticache", now=self._clock())
        token = signer.presigned(host=self._cache, params=self._params, expires_s=TOKEN_LIFE_S)
        return self._user, token


def check_address(url: str) -> None:
    """Refuse an address to which a token must not be sent, or that logs in by itself.

    Raises:
        ConfigError: it is one.
    """
    if not _FIT.match(url):
        raise ConfigError(
            "REDIS_IAM_USER: a token of IAM is only sent over TLS; set REDIS_URL to rediss://HOST:6379/0, "
            "the primary endpoint of the replication group, or rediss+cluster://HOST:6379, the configuration "
            "endpoint of one in cluster mode, or the endpoint of a serverless cache"
        )
    if "@" in url.partition("://")[2] or "password=" in url:
        raise ConfigError(
            "REDIS_IAM_USER: the token takes the place of the password; leave user and password out of REDIS_URL"
        )
