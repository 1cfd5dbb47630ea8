"""One line on standard error that tells how far the run is; silent where nobody looks at it."""

import sys
import time

WIDTH = 24


class Progress:
    """A bar over all measures; each step within one names what runs now."""

    def __init__(self, measures: int) -> None:
        self._measures = measures
        self._done = 0
        self._measure = ""
        self._began = time.monotonic()
        self._shown = sys.stderr.isatty()

    def begin(self, measure: str) -> None:
        self._measure = measure
        self.step("")

    def step(self, what: str) -> None:
        """Such as `round 2/5, Sidekiq`."""
        if not self._shown:
            return
        filled = WIDTH * self._done // self._measures
        elapsed = int(time.monotonic() - self._began)
        line = (
            f"[{'#' * filled}{'.' * (WIDTH - filled)}] {self._done}/{self._measures} "
            f"{elapsed // 60}:{elapsed % 60:02} {self._measure} {what}"
        )
        sys.stderr.write(f"\r\x1b[K{line[:110]}")
        sys.stderr.flush()

    def end(self) -> None:
        """The measure is over: clears the line, so that what follows stands on its own."""
        self._done += 1
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
