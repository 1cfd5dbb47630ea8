"""The web function: the operator's page behind a Function URL or API Gateway.

The thinking is in `kiqbridge.web`; here is the warm environment.
"""

import os
from typing import Any

from kiqbridge.runtime.collector import collector_rests

with collector_rests():
    from kiqbridge.web.function import WebFunction

    function = WebFunction(os.environ)


def lambda_handler(event: Any, context: Any) -> dict[str, Any]:
    """Answer one request of HTTP.

    Returns:
        What Function URL and API Gateway expect.
    """
    return function.handle(event, context)
