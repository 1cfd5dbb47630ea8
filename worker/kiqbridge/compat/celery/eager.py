"""`task_always_eager`, for what is more than a call of one task: chains, groups, batches, and jobs of `@job`.

While it is set, the default client has no server: what is pushed through it is performed in memory before the push
returns (kiqbridge.testing, loaded when it is needed).
"""

from collections.abc import Callable

from kiqbridge.client.client import Client
from kiqbridge.client.default_client import replace_default_client

_made: Client | None = None
"""What stands in for the default client."""
_former: Client | None = None
"""What it stands in for; None: nothing was configured."""


def switch_on(propagates: Callable[[], bool]) -> None:
    """From now on nothing that the default client pushes goes to a server.

    Args:
        propagates: whether an error is raised in the place of the push.
    """
    global _made, _former  # noqa: PLW0603 - one default client for the process
    from kiqbridge.testing.eager import eager_client  # noqa: PLC0415 - for tests only

    made = eager_client(propagates)
    former = replace_default_client(made)
    if former is None or former is not _made:
        _former = former
    _made = made


def switch_off() -> None:
    """Undo `switch_on`; a client that was configured since then stays."""
    global _made, _former  # noqa: PLW0603 - as above
    former = replace_default_client(_former)
    if former is not _made:
        replace_default_client(former)
    _made = _former = None
