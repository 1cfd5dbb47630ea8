"""The merge of all sources into a worker's configuration.

Precedence: defaults < file < environment < command line. Each value remembers where it came from, so
that an error can name it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from kiqbridge.config.client_settings import SHARDS
from kiqbridge.config.config import Config
from kiqbridge.config.redis_access import aws_variables, provided
from kiqbridge.config.setting import pick
from kiqbridge.config.table import SETTINGS
from kiqbridge.errors import ConfigError

Warn = Callable[[str], None]

_FOREIGN_FILE_KEYS = frozenset({"verbose", "strict", "scheduler", "logfile", "pidfile"})


def merge(
    *,
    file: Mapping[str, Any] | None = None,
    file_name: str = "file",
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    warn: Warn = lambda _message: None,
) -> Config:
    """Make the configuration out of its layers.

    Args:
        file: the parsed file, as `settings_file` gives it.
        file_name: how to name the file in messages.
        environ: environment variables.
        flags: setting name → value, only those that were given.
        warn: gets a sentence for each key that is not known.

    Raises:
        ConfigError: names setting, value and source.
    """
    content = file or {}
    # Which section of the file counts is looked up first, at the file's top level too.
    [setting] = [setting for setting in SETTINGS if setting.name == "environment"]
    environment = setting.parse(*pick(setting, environ, content, file_name, flags))
    known_file = file_layer(content, environment, file_name, warn)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for setting in SETTINGS:
        raw, source = pick(setting, environ, known_file, file_name, flags)
        values[setting.name] = setting.parse(raw, source)
        sources[setting.name] = source
    values["shards"] = provided(values["shards"], environ)
    if not values["shards"] and sources["shards"] == SHARDS.env[0]:
        # {} in the environment: one server, whatever the file says of shards. `kiqbridge dev` sets it.
        if sources["served_shards"] == file_name:
            values["served_shards"] = ()
        values["capsules"] = tuple(replace(each, shard="") for each in values["capsules"])
    _check_shards(values, sources)
    return Config(**values, sources=MappingProxyType(sources), aws=aws_variables(environ))


def _check_shards(values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    known = [each.name for each in values["shards"]]
    named = [(name, sources["served_shards"]) for name in values["served_shards"]]
    named += [(each.shard, f"capsule {each.name}") for each in values["capsules"] if each.shard]
    for name, source in named:
        if name not in known:
            what = f"the shards are {', '.join(known)}" if known else "shards names none"
            raise ConfigError(
                f"shard: {name!r:.100} is not one of the shards (from {source}); {what}"
            )


def file_layer(
    content: Mapping[str, Any], environment: str, file_name: str, warn: Warn
) -> Mapping[str, Any]:
    """The file's settings by their own names, its environment section merged over the top level.

    Raises:
        ConfigError: the environment's section is no mapping.
    """
    plain = dict(content)
    section = plain.pop(environment, None)
    if section is not None and not isinstance(section, Mapping):
        raise ConfigError(
            f"{environment}: {section!r} is not a section of settings for that environment (from "
            f"{file_name}); write key: value lines below it"
        )
    if section:
        plain |= {str(key): value for key, value in section.items() if key != "environment"}
    if plain.get("verbose"):
        plain.setdefault("log_level", "debug")
    names = {setting.file_key or setting.name: setting.name for setting in SETTINGS}
    for key, value in plain.items():
        if key not in names and key not in _FOREIGN_FILE_KEYS and not isinstance(value, Mapping):
            import difflib  # noqa: PLC0415 - only to help with an error

            near = difflib.get_close_matches(key, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            warn(f"{file_name}: {key!r} is not a setting of the worker{hint}")
    return {names[key]: value for key, value in plain.items() if key in names}
