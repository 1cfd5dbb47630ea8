"""What the outbox does about the end of a job whose result is kept."""

from collections.abc import Sequence

from kiqbridge.client.client import Client
from kiqbridge.features.results.kept import MAX_JID, result_text, ttl_in
from kiqbridge.store.effects import Effect
from kiqbridge.wire.flow_mark import FlowEnd


def keep_result(end: FlowEnd, client: Client) -> Sequence[Effect]:
    """What the job returned, or how it failed, is kept if it asked for that."""
    ttl_s = ttl_in(end.flow)
    if ttl_s is None or not 0 < len(end.jid) <= MAX_JID:
        return ()
    text = result_text(
        end.outcome,
        end.at,
        output=end.output,
        encrypted=end.encrypted,
        error=end.error,
        message=end.message,
    )
    return [Effect("result", [client.keys.result(end.jid)], [ttl_s, text])]
