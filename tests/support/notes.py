"""What jobs of a worker process note by `support.noting`: one JSON object a line, with the name of an event."""

import json
from pathlib import Path
from typing import Any

from support.waiting import wait_until


class Notes:
    """The notes of the jobs that get this folder as `MARKS`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "seen"

    def release(self) -> None:
        """Let the jobs end that hold until then."""
        (self._folder / "release").touch()

    def all(self, event: str | None = None) -> list[dict[str, Any]]:
        """The notes of one event so far, or all; a line that is being written is not among them."""
        if not self._path.exists():
            return []
        text = self._path.read_text()
        notes = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        return [note for note in notes if event in (None, note["event"])]

    def events(self) -> list[str]:
        """The names of all events so far, in order."""
        return [note["event"] for note in self.all()]

    def wait(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """The notes of an event as soon as there are so many."""
        return wait_until(
            lambda: len(found := self.all(event)) >= count and found,
            60,
            lambda: f"{count} times {event}, not {len(self.all(event))} times",
        )
