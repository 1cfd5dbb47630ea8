"""What `ps` shows for a worker (protocol §10.7)."""

from collections.abc import Callable

from kiqbridge import __version__
from kiqbridge.status import Status


def worker_title(status: Status, tag: str) -> str:
    """`kiqbridge VERSION TAG [BUSY of CONCURRENCY busy] stopping`, the last word from quiet on."""
    parts = [
        "kiqbridge",
        __version__,
        tag,
        f"[{status.busy} of {status.concurrency} busy]",
        "stopping" if status.state in ("quiet", "stopping") else "",
    ]
    return " ".join(filter(None, parts))


def supervisor_title(text: str, tag: str) -> str:
    """The title of a supervisor, which says `text` of itself."""
    return " ".join(filter(None, ["kiqbridge", __version__, tag, text]))


def title_setter() -> Callable[[str], None]:
    """What sets the title of this process; it does nothing where `setproctitle` is not installed."""
    try:
        from setproctitle import setproctitle  # noqa: PLC0415 - an extra, and the worker's alone
    except ImportError:
        return lambda _title: None
    return setproctitle
