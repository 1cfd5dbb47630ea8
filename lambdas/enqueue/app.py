"""The enqueue function: events of AWS services become jobs in Redis.

The thinking is in `kiqbridge.aws`; here is the warm environment.
"""

import os
from pathlib import Path
from typing import Any

from kiqbridge.runtime.collector import collector_rests

with collector_rests():
    from kiqbridge.aws.handler import EnqueueHandler

    handler = EnqueueHandler(os.environ, Path(__file__).parent)


def lambda_handler(event: Any, context: Any) -> Any:
    """Enqueue what the event asks for; an error is raised so that the service delivers again.

    Returns:
        `Answer` of a direct invocation; of others what their service expects.
    """
    return handler.handle(event, context)
