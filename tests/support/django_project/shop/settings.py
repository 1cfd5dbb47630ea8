"""Settings; SHOP_DATABASE is the SQLite file, SHOP_APPLICATIONS names more applications."""

import os

import django

SECRET_KEY = "only for tests"
DEBUG = True
USE_TZ = True
LOGGING_CONFIG = None
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "kiqbridge.contrib.django",
    "shop",
    *os.environ.get("SHOP_APPLICATIONS", "").split(),
]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["SHOP_DATABASE"]},
    "other": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["SHOP_DATABASE"] + ".other",
    },
}
KIQBRIDGE = {"QUEUES": [["mailers", 2], "default"], "CONCURRENCY": 2}
if django.VERSION >= (6, 0):
    TASKS = {
        "default": {
            "BACKEND": "kiqbridge.contrib.django.tasks.KiqbridgeBackend",
            "QUEUES": [],
            "OPTIONS": {"retry": 3},
        }
    }
