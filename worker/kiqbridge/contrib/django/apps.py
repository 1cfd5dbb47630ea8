"""The application's start: settings are applied and middleware is added, in each process of the project."""

import os

from django.apps import AppConfig
from django.conf import settings

from kiqbridge.client.default_client import choose_client_by
from kiqbridge.client.server import server
from kiqbridge.contrib.django.database import around_job, deferring_in_transactions
from kiqbridge.contrib.django.settings import read_settings


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
