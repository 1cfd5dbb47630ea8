"""The operator's web page: an ASGI application that shows queues, sets, jobs and processes.

`kiqbridge web`, `make up`, a Lambda function or any ASGI application serves it. Pages are rendered by
the server and work without JavaScript. It must never write to Redis besides `kiqbridge.api`, nor show what
others wrote without escaping it, nor change anything but by a POST that `guard` has let through.
"""

from kiqbridge.errors import ConfigError

try:
    from kiqbridge.web.app import create_app
except ModuleNotFoundError as error:
    if error.name not in {"starlette", "jinja2", "python_multipart", "anyio"}:
        raise
    raise ConfigError(
        f"the web page needs {error.name}, which is not installed: pip install 'kiqbridge[web]'"
    ) from error

__all__ = ["create_app"]
