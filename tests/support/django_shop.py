"""The Django project of the tests, set up in this process: once, since Django can be set up once only."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kiqbridge.client.server import server

PROJECT = Path(__file__).parent / "django_project"


def set_up() -> None:
    """Set Django up, with empty tables in a folder of this process; its environment and server stay as they are."""
    import django
    from django.apps import apps
    from django.core.management import call_command
    from django.db import connections

    with restored():
        if not apps.ready:
            folder = tempfile.mkdtemp(prefix="kiqbridge-shop-")
            atexit.register(shutil.rmtree, folder)
            sys.path.append(str(PROJECT))
            os.environ |= {
                "DJANGO_SETTINGS_MODULE": "shop.settings",
                "SHOP_DATABASE": f"{folder}/shop.db",
            }
            django.setup()
        for alias in connections:
            call_command("migrate", run_syncdb=True, verbosity=0, database=alias)
            call_command("flush", interactive=False, verbosity=0, database=alias)


@contextmanager
def restored() -> Iterator[None]:
    """What the application's start changes in this process is as before when this ends."""
    environment, middleware = dict(os.environ), list(server.middleware)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= environment
        server.middleware.clear()
        for entry in middleware:
            server.middleware.add(entry)
