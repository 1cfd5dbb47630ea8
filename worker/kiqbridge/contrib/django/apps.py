"""The application's start: settings are applied and middleware is added, in each process of the project.

The settings are the dictionary `KIQBRIDGE`: of clients and workers, in upper case. Each stands for the environment
variable of that setting (docs/reference/settings.md), which goes before it. So workers, pushes and child processes of a
worker all see the same values.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from kiqbridge.client.default_client import choose_client_by
from kiqbridge.client.server import server
from kiqbridge.config.config import SETTINGS
from kiqbridge.config.setting import Setting
from kiqbridge.contrib.django.database import around_job, deferring_in_transactions
from kiqbridge.errors import ConfigError, did_you_mean

ENQUEUE_AFTER_COMMIT: Final = "ENQUEUE_AFTER_COMMIT"
"""True: `perform_async` and its like wait for the commit when they are called within `atomic`."""


def read_settings(given: object) -> tuple[dict[str, str], bool]:
    """Environment variables and their values; and whether declared jobs wait for the commit.

    Raises:
        ImproperlyConfigured: an unknown key, with a suggestion, or a wrong value.
    """
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"KIQBRIDGE: {given!r} is not a dict of settings")
    known = {setting.name.upper(): setting for setting in SETTINGS if setting.env}
    environment = {}
    after_commit = given.get(ENQUEUE_AFTER_COMMIT, False)
    if not isinstance(after_commit, bool):
        raise ImproperlyConfigured(
            f"KIQBRIDGE[{ENQUEUE_AFTER_COMMIT!r}]: {after_commit!r} is not True or False"
        )
    for key, value in given.items():
        if key == ENQUEUE_AFTER_COMMIT or value is None:
            continue
        if key not in known:
            raise ImproperlyConfigured(f"KIQBRIDGE[{key!r}]: {_unknown(str(key), list(known))}")
        environment[known[key].env[0]] = _text(known[key], value)
    return environment, after_commit


def _text(setting: Setting, value: Any) -> str:
    """The value as its variable holds it.

    Raises:
        ImproperlyConfigured: the setting does not take it.
    """
    name, variable = setting.name.upper(), setting.env[0]
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, list | tuple):
        separator = " " if setting.name == "queues" else ","
        text = separator.join(map(_part, value))
    else:
        text = str(value)
    try:
        setting.parsed(text, variable)
    except ConfigError as error:
        raise ImproperlyConfigured(f"KIQBRIDGE[{name!r}]: {error}") from error
    return text


def _part(value: object) -> str:
    """An entry of a list; of queues also a pair of name and weight."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _unknown(key: str, known: list[str]) -> str:
    if key in {setting.name.upper() for setting in SETTINGS}:
        return "has no environment variable; write it into config/kiqbridge.yml"
    hint = did_you_mean(key.upper(), [*known, ENQUEUE_AFTER_COMMIT])
    return f"is no setting{hint} (docs/reference/settings.md lists them, here in upper case)"


class KiqbridgeConfig(AppConfig):
    """Found by Django through `INSTALLED_APPS`."""

    name = "kiqbridge.contrib.django"
    label = "kiqbridge"
    verbose_name = "Kiqbridge"

    def ready(self) -> None:
        """Apply `settings.KIQBRIDGE`.

        Raises:
            ImproperlyConfigured: it is wrong; names the key.
        """
        environment, is_deferring = read_settings(getattr(settings, "KIQBRIDGE", {}))
        for variable, value in environment.items():
            if not os.environ.get(variable):  # an empty one counts as not set
                os.environ[variable] = value
        choose_client_by(deferring_in_transactions if is_deferring else None)
        server.middleware.prepend(around_job)
