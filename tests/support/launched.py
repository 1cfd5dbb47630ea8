"""A whole worker in this process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kiqbridge.client.server import Server
from kiqbridge.config.merge import merge
from kiqbridge.engine.launcher import Launcher


@contextmanager
def launched(
    redis_url: str,
    server: Server | None = None,
    *,
    file: Mapping[str, Any] | None = None,
    is_quiet: bool = False,
    on_signal: Callable[[str], object] = lambda _signal: None,
    **settings: object,
) -> Iterator[Launcher]:
    """It works until the end of the block, with two threads unless the settings say otherwise.

    `is_quiet`: it was asked to take no jobs before it has started, as while Redis is away.
    """
    flags = {
        "redis_url": redis_url,
        "concurrency": "2",
        "beat_s": "0.05",
        "timeout_s": "5",
        **settings,
    }
    launcher = Launcher(merge(file=file or {}, environ={}, flags=flags), server=server or Server())
    if is_quiet:
        launcher.quiet()
    launcher.start(on_signal)
    try:
        yield launcher
    finally:
        launcher.stop()
