"""Which job classes a process declares, as the field `kb_classes` of its heartbeat.

The doctor finds by it jobs that no process can perform.
"""

import json
from typing import Final

from kiqbridge.client.registry import Registry

MOST_BYTES: Final = 20_000
"""Each beat carries them; what is longer is not published, and then nothing is known."""


class DeclaredClasses:
    """The names of a registry as text, made anew when there are more."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._count = -1
        self._text = ""

    def text(self) -> str:
        """A JSON list of names; empty if they are too many."""
        count = len(self._registry)  # code may be loaded while it runs
        if count != self._count:
            text = json.dumps(
                sorted(each.name for each in list(self._registry)), separators=(",", ":")
            )
            self._count, self._text = count, text if len(text) <= MOST_BYTES else ""
        return self._text

    def fields(self) -> dict[str, str]:
        """For the process' hash."""
        return {"kb_classes": self.text()}
