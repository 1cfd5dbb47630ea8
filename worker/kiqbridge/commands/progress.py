"""A bar for long work: on standard error, only on a terminal, and only if rich is installed."""

import contextlib
import sys
from collections.abc import Callable, Iterator

Advance = Callable[[int], None]
"""What is called with how much is done in all."""


@contextlib.contextmanager
def progress(what: str, total: int | None) -> Iterator[Advance]:
    """A bar while the block runs; `total` None: how much there is, is not known."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    try:
        from rich.console import Console  # noqa: PLC0415 - slow to import, and may be missing
        from rich.progress import Progress  # noqa: PLC0415
    except ImportError:
        yield lambda _done: None
        return
    with Progress(console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
