"""The page as a Lambda function, behind a Function URL or API Gateway (REST, HTTP).

The application is made at the first invocation, not at init: its key is in Redis, so that all environments accept
each other's forms. Who calls is what AWS has verified (`identities`).
"""

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from mangum import Mangum
from starlette.types import ASGIApp

from kiqbridge.api import Operator, open_operator
from kiqbridge.config.setting import read
from kiqbridge.config.web_settings import ForWeb
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.store import deadline
from kiqbridge.web.app import create_app
from kiqbridge.web.middleware import Layer, below, parse_base_path, security_headers
from kiqbridge.web.plain_page import Refusal
from kiqbridge.web.security import read_security

logger: Final = logging.getLogger(__name__)

KEY_BYTES: Final = 32
MARGIN_S: Final = 1.0
"""What is left for the answer when the time of an invocation goes by at Redis."""

_UNAVAILABLE: Final = Layer(
    Refusal(
        503,
        "Redis does not answer",
        "Redis does not answer; the log of the function has the reason.",
    ),
    security_headers,
)


class WebFunction:
    """The function of one warm environment.

    Args:
        environ: its variables.

    Raises:
        ConfigError: a setting is wrong.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._security = read_security(environ)
        self._base = parse_base_path(read(ForWeb.web_base_path, environ))
        self._lock = threading.Lock()
        self._made: Mangum | None = None

    def handle(self, event: Any, context: Any) -> dict[str, Any]:
        """Answer one request; 503 if Redis cannot be reached.

        Args:
            event: of a Function URL, an HTTP API or a REST API.
            context: Lambda's.
        """
        with deadline.within(_seconds_left(context)):
            try:
                page = self._page()
            except (RedisUnavailable, RedisRefused) as error:
                logger.error("web: %s", error)  # noqa: TRY400 - the message says it all
                return Mangum(_UNAVAILABLE, lifespan="off")(event, context)
            return page(event, context)

    def _page(self) -> Mangum:
        with self._lock:
            if self._made is None:
                self._made = Mangum(below(self._base, self._application()), lifespan="off")
            return self._made

    def _application(self) -> ASGIApp:
        operator = open_operator(via="web", by="lambda")
        security = self._security
        if security.auth.secret is None:
            auth = replace(security.auth, secret=fetch_shared_key(operator))
            security = replace(security, auth=auth)
        app = create_app(operator=operator, security=security)
        app.state.site.streams.longest_s = 0.0
        return app


def fetch_shared_key(operator: Operator) -> bytes:
    """The key of forms, made if there is none (`SET kb:web:key … NX`). Delete it in Redis to have a new one.

    A client that may read it in Redis could make a form's token, and a session of a user with a password. A page with such
    users has a secret of its own: KIQBRIDGE_WEB_SECRET.

    Raises:
        RedisUnavailable: Redis does not answer.
        RedisRefused: Redis refuses it.
    """
    key = operator.keys.web_key
    pool = operator.pool
    pool.call("SET", key, secrets.token_urlsafe(KEY_BYTES), "NX")
    found = pool.call("GET", key)
    return found if isinstance(found, bytes) else str(found).encode()


def _seconds_left(context: Any) -> float:
    read_left: Callable[[], int] | None = getattr(context, "get_remaining_time_in_millis", None)
    return 20.0 if read_left is None else max(read_left() / 1000 - MARGIN_S, 0.1)
