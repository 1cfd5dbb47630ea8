"""What a caller sees of a fault of ours: an id that is in the log, and nothing of the code."""

import logging
import secrets
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kiqbridge.web.plain_page import Refusal, inner_path

logger: Final = logging.getLogger(__name__)


class Faults:
    """ASGI middleware: logs what the application raises, with an id, and answers 500 with the same id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def watch(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception:  # whatever it is: the log has it, and the server goes on
            fault = secrets.token_hex(6)
            logger.exception(
                "web: fault %s at %s %r", fault, scope["method"], inner_path(scope)[:200]
            )
            if has_begun:
                raise
            detail = f"This is a fault of the page, not of your request. The log of its server has the reason, at fault {fault}."
            await Refusal(500, "An error of this page", detail)(scope, receive, send)
