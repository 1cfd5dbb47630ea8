"""What a worker of a Django project loads: importing it sets Django up and imports the jobs.

`manage.py kiqbridge worker` does so by itself; otherwise
`DJANGO_SETTINGS_MODULE=shop.settings kiqbridge worker -r kiqbridge.contrib.django.all_jobs`.
In each installed application `jobs.py` and `tasks.py` are imported, where they exist.
"""

from importlib import import_module

import django
from django.apps import apps
from django.utils.module_loading import module_has_submodule

if not apps.ready:
    django.setup()
for application in apps.get_app_configs():
    if application.label != "kiqbridge":  # whose tasks.py is the backend
        for name in ("jobs", "tasks"):
            if module_has_submodule(application.module, name):
                import_module(f"{application.name}.{name}")
