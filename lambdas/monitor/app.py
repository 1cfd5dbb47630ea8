"""The monitor function: each minute it looks at fleet and queues, from outside of the fleet.

The thinking is in `kiqbridge.features.monitor`; here are the warm environment and its settings.
"""

import functools
import os
from typing import Any

from kiqbridge.aws.minutely import Minutely
from kiqbridge.features.monitor.minute import MonitorSettings, look


@functools.cache
def monitor() -> Minutely:
    """The one of this warm environment."""
    settings = MonitorSettings.from_environment(os.environ)
    return Minutely("monitor", os.environ, lambda turn: look(turn, settings), ["missed_ticks"])


def lambda_handler(event: Any, context: Any) -> Any:
    """Measure what waits and who lives; do what no worker is there to do.

    Returns:
        What was found and done; the same is in the log.
    """
    return monitor().handle(event, context)
