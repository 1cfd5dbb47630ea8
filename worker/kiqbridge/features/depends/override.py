"""Other values for `Depends` in tests; public as `kiqbridge.testing.override`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kiqbridge.errors import ConfigError
from kiqbridge.features.depends.filling import OVERRIDES, Depends, is_asynchronous


@contextmanager
def override(provider: Callable[..., Any], replacement: Callable[..., Any]) -> Iterator[None]:
    """Call `replacement` wherever a job has `Depends(provider)`; for all threads of the process.

    Args:
        provider: as it stands in `Depends`.
        replacement: a provider as well, such as `lambda: database`.

    Raises:
        ConfigError: `replacement` cannot take its place.
    """
    Depends(replacement)
    if is_asynchronous(replacement) and not is_asynchronous(provider):
        raise ConfigError(
            "override: the provider is plain and its replacement async, which a plain job cannot wait for"
        )
    before = OVERRIDES.get(provider, provider)
    OVERRIDES[provider] = replacement
    try:
        yield
    finally:
        OVERRIDES[provider] = before
