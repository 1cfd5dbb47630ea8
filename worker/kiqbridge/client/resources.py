"""Opening what jobs share, once per process, and closing it when no job needs it any more."""

import asyncio
from collections.abc import Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
)
from typing import Any

from kiqbridge.client.server import Resource
from kiqbridge.errors import ConfigError


class ProcessResources:
    """The resources of plain context managers; open for all threads."""

    def __init__(self, resources: Sequence[Resource[Any]]) -> None:
        self._stack = ExitStack()
        self._resources = resources
        self.asynchronous: list[Resource[Any]] = []

    def open(self) -> None:
        """Open in the order of declaration.

        Raises:
            Exception: whatever a context manager raised; what was open is closed.
            ConfigError: what is declared is no context manager.
        """
        with ExitStack() as opening:
            for resource in self._resources:
                manager = resource.opener()
                if isinstance(manager, AbstractContextManager):
                    resource.opened(opening.enter_context(manager))
                    opening.callback(resource.closed)
                elif isinstance(manager, AbstractAsyncContextManager):
                    self.asynchronous.append(resource)
                else:
                    raise ConfigError(
                        f"lifespan {resource.name}: gives {type(manager).__name__}, no context manager; "
                        "put @contextmanager or @asynccontextmanager on it"
                    )
            self._stack = opening.pop_all()

    def close(self) -> None:
        """Close in reverse order."""
        self._stack.close()

    def for_loop(self) -> "LoopResources":
        """Those to be opened on one event loop."""
        return LoopResources(self.asynchronous)


class LoopResources:
    """The resources of asynchronous context managers on one event loop, itself such a manager."""

    def __init__(self, resources: Sequence[Resource[Any]]) -> None:
        self._resources = resources
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as opening:
            for resource in self._resources:
                manager: Any = resource.opener()
                resource.opened(await opening.enter_async_context(manager), loop)
                opening.callback(resource.closed, loop)
            self._stack = opening.pop_all()

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()
