"""The setting `fleets`, as it is written. Loaded only where the setting is."""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from kiqbridge.config.parsers import text, texts
from kiqbridge.errors import ConfigError

_TEXTS: Final = ("namespace", "url", "provider", "secret_arn")


def parse_fleets(value: Any, source: str, _setting: str = "") -> dict[str, dict[str, Any]]:
    """The setting: name → `namespace`, `url`, `provider`, `secret_arn`, `queues`.

    Raises:
        ConfigError: another form, an unknown key, or a glob behind one that takes all of its queues.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ConfigError(f"fleets: is no JSON (from {source}): {error}") from None
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"fleets: a {type(value).__name__} is no mapping (from {source}); write NAME: with namespace and queues"
        )
    found = {str(name): _parsed(f"fleets.{name}", each, source) for name, each in value.items()}
    earlier: list[tuple[str, str]] = []
    for name, each in found.items():
        for glob in each["queues"]:
            taken = next((one for one in earlier if _takes_all(one[1], glob)), None)
            if taken is not None:
                raise ConfigError(
                    f"fleets.{name}: no queue can come to {glob!r}, since {taken[1]!r} of {taken[0]} before it takes "
                    f"all of them (from {source}); put it before that one, or remove it"
                )
            earlier.append((name, glob))
    return found


def _parsed(name: str, value: Any, source: str) -> dict[str, Any]:
    known = (*_TEXTS, "queues")
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}: is no mapping (from {source}); write {', '.join(known)}")
    if unknown := sorted(map(str, value.keys() - set(known))):
        raise ConfigError(
            f"{name}: {unknown[0]!r} is not known (from {source}); known are {', '.join(known)}"
        )
    found: dict[str, Any] = {
        key: text(value[key], source, f"{name}.{key}") if value.get(key) is not None else ""
        for key in _TEXTS
    }
    if found["url"] and found["provider"]:
        raise ConfigError(f"{name}: url and provider are both an address (from {source}); keep one")
    found["queues"] = texts(value.get("queues") or [], source, f"{name}.queues")
    if not all(found["queues"]) or not found["queues"]:
        raise ConfigError(
            f"{name}.queues: has no queue (from {source}); write names or globs, such as [mail, mail-*]"
        )
    return found


def _takes_all(glob: str, later: str) -> bool:
    """Whether every queue that a later glob matches is matched by this one."""
    # Characters in place of * and ? that nothing but * and ? can match: none of them, or more than there are ?.
    shortest, longest = (
        later.replace("?", "\0").replace("*", "\0" * n) for n in (0, len(glob) + 1)
    )
    return glob == later or (fnmatchcase(shortest, glob) and fnmatchcase(longest, glob))
