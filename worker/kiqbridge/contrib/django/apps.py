"""The application's start: settings are applied and middleware is added, in each process of the project."""

import os

from django.apps import AppConfig
from django.conf import settings

from kiqbridge.client.default_client import choose_client_by
from kiqbridge.client.server import server
from kiqbridge.contrib.django.connections import around_job
from kiqbridge.contrib.django.settings import read_settings
from kiqbridge.contrib.django.transactions import deferring_in_transactions


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
        chosen = read_settings(getattr(settings, "KIQBRIDGE", {}))
        for variable, value in chosen.environment.items():
            if not os.environ.get(variable):  # an empty one counts as not set
                os.environ[variable] = value
        choose_client_by(deferring_in_transactions if chosen.enqueue_after_commit else None)
        server.middleware.prepend(around_job)
