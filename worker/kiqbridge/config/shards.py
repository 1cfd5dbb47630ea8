"""Several servers side by side: the setting `shards`, which says where each of them is and which queues it holds."""

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from kiqbridge.errors import ConfigError
from kiqbridge.records import dataclass

_ADDRESS_KEYS: Final = ("url", "provider", "secret_arn", "ssm_parameter", "iam_user", "iam_cache")
_KEYS: Final = (*_ADDRESS_KEYS, "queues")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_EXAMPLE: Final = '{"main": {"url": "redis://HOST:6379/0", "queues": ["*"]}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSettings:
    """One server, and the queues that lie on it.

    Attributes:
        name: as commands and messages call it.
        queues: globs of queue names.
        url, secret_arn, ssm_parameter, iam_user, iam_cache: as the settings REDIS_URL, REDIS_SECRET_ARN and their
            like.
        provider: the variable that holds the address, in place of `url`.
    """

    name: str
    queues: tuple[str, ...]
    url: str = field(default="", repr=False)
    provider: str = ""
    secret_arn: str = ""
    ssm_parameter: str = ""
    iam_user: str = ""
    iam_cache: str = ""


def shards(value: Any, source: str) -> tuple[ShardSettings, ...]:
    """A mapping of names to address and queues, or its JSON; empty = one server, that of `redis_url`."""
    if isinstance(value, tuple) and all(isinstance(each, ShardSettings) for each in value):
        return value
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except ValueError as error:  # without the text, which may hold passwords
            raise ConfigError(
                f"shards: no JSON (from {source}): {error}; write {_EXAMPLE}"
            ) from None
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"shards: {type(value).__name__} is not a mapping of names to url and queues (from {source}); write "
            f"{_EXAMPLE}"
        )
    return tuple(_shard(str(name), section, source) for name, section in value.items())


def _shard(name: str, section: Any, source: str) -> ShardSettings:
    where = f"shards: {name} in {source}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: a name of a shard consists of letters, digits, _ . and -")
    if not isinstance(section, Mapping):
        raise ConfigError(f"{where}: holds no url and queues; write both below it")
    unknown = [str(key) for key in section if key not in _KEYS]
    if unknown:
        raise ConfigError(
            f"{where}: {', '.join(unknown)} is no setting of a shard; these are {', '.join(_KEYS)}"
        )
    queues = section.get("queues")
    globs = [queues] if isinstance(queues, str) else queues
    if (
        not isinstance(globs, list | tuple)
        or not globs
        or not all(isinstance(glob, str) and glob for glob in globs)
    ):
        raise ConfigError(
            f"{where}: queues is no list of globs such as [critical, 'mail-*']; ['*'] takes every queue that no "
            "shard before it takes"
        )
    given = {key: section[key] for key in _ADDRESS_KEYS if section.get(key)}
    wrong = [key for key, each in given.items() if not isinstance(each, str)]
    if wrong:
        raise ConfigError(f"{where}: {wrong[0]} is no text")
    addresses = [key for key in ("url", "provider", "secret_arn", "ssm_parameter") if key in given]
    if not addresses or {"url", "provider"} <= given.keys():
        raise ConfigError(
            f"{where}: {'url and provider both hold' if addresses else 'nothing holds'} the address; write url, or "
            "provider (the name of a variable that holds it), or secret_arn, or ssm_parameter"
        )
    return ShardSettings(name=name, queues=tuple(globs), **given)
