"""The kinds of files that are read: which one a file is, and what reads it.

Each line becomes a schedule of ours (record.py) or is refused with its reason.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from kiqbridge.features.imports.crontab_file import read_crontab
from kiqbridge.features.imports.gems import read_sidekiq_cron_file, read_sidekiq_scheduler
from kiqbridge.features.imports.record import Imported, ImportKindError, Kind, Reading

READERS: Final[Mapping[Kind, Callable[[str, Reading], Imported]]] = {
    "crontab": lambda text, reading: read_crontab(text, reading, has_user=False),
    "system-crontab": lambda text, reading: read_crontab(text, reading, has_user=True),
    "sidekiq-cron": read_sidekiq_cron_file,
    "sidekiq-scheduler": read_sidekiq_scheduler,
}
"""What reads a file of a kind; raises ImportKindError if it is none."""

_CRON_LINE: Final = re.compile(r"(@[a-z]+|[0-9*][0-9*,/-]*)(\s+\S+)+")
_SYSTEM_USERS: Final = frozenset({"root", "www-data", "nobody", "daemon", "postgres", "deploy"})

_SIGNS: Final[tuple[tuple[Kind, str, str], ...]] = (
    ("sidekiq-scheduler", "it has a schedule under scheduler", r"^:?(scheduler|schedule):\s*$"),
    (
        "sidekiq-scheduler",
        "its schedules say every or at",
        r"(^|[{,])\s*:?(every|at|in|interval):\s+\S",
    ),
    ("sidekiq-cron", "its schedules have a cron", r"(^|[{,]|- )\s*['\"]?:?cron['\"]?:\s+\S"),
)


def guess_kind(name: str, text: str) -> tuple[Kind, str]:
    """The kind of a file by its name and its content, and what says so.

    Raises:
        ImportKindError: neither says it.
    """
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if re.search(r"(^|/)etc/(crontab$|cron\.d/)", name):
        return "system-crontab", f"{name} has a user column"
    if any(_CRON_LINE.match(line) for line in lines):
        users = [_sixth(line) for line in lines if _CRON_LINE.match(line)]
        if users and all(user in _SYSTEM_USERS for user in users):
            return "system-crontab", f"its lines have a user, such as {users[0]}"
        return "crontab", "its lines begin with five fields"
    for kind, reason, pattern in _SIGNS:
        if re.search(pattern, "\n".join(lines), re.MULTILINE):
            return kind, reason
    raise ImportKindError(
        f"{name}: neither its name nor its content says what it is; give --kind, one of {', '.join(READERS)}"
    )


def _sixth(line: str) -> str:
    """What stands right after the fields or the macro."""
    words = line.split(None, 6)
    place = 1 if line.startswith("@") else 5
    return words[place] if len(words) > place + 1 else ""
