"""What a user gives on the command line or in a file, and that cannot be used: exit code 2, not 1."""

import contextlib
from collections.abc import Iterator

from kiqbridge.errors import ConfigError, PayloadError


@contextlib.contextmanager
def user_input() -> Iterator[None]:
    """Within it a ConfigError is about the user's input, not about the settings.

    Raises:
        PayloadError: in its place, with its text.
    """
    try:
        yield
    except ConfigError as error:
        raise PayloadError(str(error)) from error
