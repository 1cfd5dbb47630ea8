"""From the end of a job to what one script shall do about it.

A maker looks at the end and answers effects. The name of one is that of a part `effect_NAME.lua`, to which
apply_ends.lua gives keys and arguments. Makers may raise: the end stays, and is tried again later. They prepare jobs by the
middleware of the client, and must not push them: the script does. Features have makers of their own (the seam `consequences`).
"""

from collections.abc import Callable, Sequence

from kiqbridge.client.client import Client
from kiqbridge.store.effects import Effect
from kiqbridge.wire.flow_mark import FlowEnd
from kiqbridge.wire.locks import lock_of
from kiqbridge.wire.payload import FLOW

EffectMaker = Callable[[FlowEnd, Client], Sequence[Effect]]


def unlock(end: FlowEnd, client: Client) -> Sequence[Effect]:
    """The lock of a unique job is free, if this job still owns it."""
    mark = lock_of({FLOW: end.flow})
    if mark is None:
        return ()
    keys = client.keys
    return [Effect("unlock", [keys.locks, keys.locks_look, keys.replaced], [mark.name, end.jid])]
