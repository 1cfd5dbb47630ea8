"""Reading the schedules that Redis knows: those of published manifests, and dynamic ones."""

import logging

from kiqbridge.errors import ConfigError
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import ScheduleState
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

logger = logging.getLogger(__name__)


def read_definitions(
    connection: RedisConnection | RedisPool, keys: Keys
) -> dict[str, ScheduleDefinition]:
    """All schedules by name; one that cannot be read is logged and left out.

    Raises:
        RedisUnavailable: nothing was read.
    """
    reply = connection.call("HGETALL", keys.schedules)
    found: dict[str, ScheduleDefinition] = {}
    for field, text in pairs_of(reply).items():
        name = text_of(field)
        try:
            found[name] = ScheduleDefinition.from_document(name, json_text.loads(text))
        except (ConfigError, ValueError) as error:
            logger.warning(
                "a schedule in %s cannot be read (%s); it never fires: save it again, or delete it",
                keys.schedules,
                error,
            )
    return found


def read_states(connection: RedisConnection | RedisPool, keys: Keys) -> dict[str, ScheduleState]:
    """The states of schedules that have one, by name.

    Raises:
        RedisUnavailable: nothing was read.
    """
    states = pairs_of(connection.call("HGETALL", keys.schedule_states))
    return {text_of(name): ScheduleState.from_text(text) for name, text in states.items()}
