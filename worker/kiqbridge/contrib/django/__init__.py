"""Django: settings, `manage.py kiqbridge`, database connections around jobs, enqueuing after a commit.

    INSTALLED_APPS += ["kiqbridge.contrib.django"]
    KIQBRIDGE = {"REDIS_URL": "redis://127.0.0.1:6379/0", "QUEUES": ["default", "mailers"]}

Loading this needs no configured Django; `after_commit` is loaded when it is asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kiqbridge.contrib.django.database import after_commit, on_push_failed

__all__ = ["after_commit", "on_push_failed"]


def __getattr__(name: str) -> Any:
    """What needs Django's database layer, loaded when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kiqbridge.contrib.django import database  # noqa: PLC0415 - see above

    return getattr(database, name)
