"""From the end of a job to what one script shall do about it: an effect for each member of its `flow`.

A maker looks at the end and answers an effect, or None. Its name is that of a part `effect_NAME.lua`, to which
apply_end.lua gives keys and arguments. Makers may raise: the end stays, and is tried again later.
"""

from collections.abc import Callable

from kiqbridge.client.client import Client
from kiqbridge.records import dataclass
from kiqbridge.store.effects import Effect
from kiqbridge.wire.flow_mark import FlowEnd
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.locks import lock_of
from kiqbridge.wire.payload import FLOW
from kiqbridge.wire.result import MAX_JID, result_text, ttl_in


@dataclass(frozen=True, slots=True)
class Scene:
    """What makers may use.

    Attributes:
        keys: the namespace.
        client: to prepare jobs with, by its middleware; it must not push them, since the script does.
    """

    keys: Keys
    client: Client


EffectMaker = Callable[[FlowEnd, Scene], Effect | list[Effect] | None]


def pass_report(end: FlowEnd, scene: Scene) -> Effect | None:
    """A task of Step Functions waits for the job as well."""
    if not end.report:
        return None
    return Effect("add", [scene.keys.task_reports], [0, end.report])


def unlock(end: FlowEnd, scene: Scene) -> Effect | None:
    """The lock of a unique job is free, if this job still owns it."""
    mark = lock_of({FLOW: end.flow})
    if mark is None:
        return None
    keys = scene.keys
    return Effect("unlock", [keys.locks, keys.locks_look, keys.replaced], [mark.name, end.jid])


def keep_result(end: FlowEnd, scene: Scene) -> Effect | None:
    """What the job returned, or how it failed, is kept if it asked for that."""
    ttl_s = ttl_in(end.flow)
    if ttl_s is None or not 0 < len(end.jid) <= MAX_JID:
        return None
    text = result_text(
        end.outcome,
        end.at,
        output=end.output,
        encrypted=end.encrypted,
        error=end.error,
        message=end.message,
    )
    return Effect("result", [scene.keys.result(end.jid)], [ttl_s, text])
