"""The merge of all sources into a worker's configuration.

Precedence: defaults < file < environment < command line. Each value remembers where it came from, so
that an error can name it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kiqbridge import seams
from kiqbridge.config.client_settings import aws_variables
from kiqbridge.config.config import SETTINGS, Config
from kiqbridge.config.setting import pick
from kiqbridge.errors import ConfigError, did_you_mean

Warn = Callable[[str], None]

_SCHEDULER_KEYS = frozenset({"scheduler", "schedule"})
_FOREIGN_FILE_KEYS = _SCHEDULER_KEYS | {"verbose", "strict", "logfile", "pidfile"}


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
    environment = setting.parsed(*pick(setting, environ, content, file_name, flags))
    known_file = file_layer(content, environment, file_name, warn)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for setting in SETTINGS:
        raw, source = pick(setting, environ, known_file, file_name, flags)
        values[setting.name] = setting.parsed(raw, source)
        is_given = source != "default" and values[setting.name]
        if setting.feature and is_given and seams.named(setting.feature) is None:
            raise ConfigError(
                f"{setting.name} (from {source}): it needs the feature {setting.feature}, which is not here; remove the setting"
            )
        sources[setting.name] = source
    aws = aws_variables(environ)
    if values["fleets"] or values["fleet"]:
        values |= seams.call("in_fleet")(values, aws, environ)
        sources["redis_url"] = "fleets"
    return Config(**values, sources=MappingProxyType(sources), aws=aws)


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
    for key in _SCHEDULER_KEYS & plain.keys():
        warn(
            f"{file_name}: {key!r} is of sidekiq-scheduler, and nothing of it is enqueued by this worker; import it: "
            f"kiqbridge schedule import --kind sidekiq-scheduler {file_name}"
        )
    for key, value in plain.items():
        if key not in names and key not in _FOREIGN_FILE_KEYS and not isinstance(value, Mapping):
            hint = did_you_mean(key, names)
            warn(f"{file_name}: {key!r} is not a setting of the worker{hint}")
    return {names[key]: value for key, value in plain.items() if key in names}
