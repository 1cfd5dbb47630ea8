"""What is asked before a unique job begins (the seam `begins`)."""

from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.features.unique.mark import lock_of
from kiqbridge.features.unique.rule import LOOK_S
from kiqbridge.store.begin import Answer, Ask
from kiqbridge.store.effects import Effect
from kiqbridge.wire.keys import Keys

_WORK: Final = "beginning unique jobs under their locks, without which they begin at once,"


def ask_lock(keys: Keys, payload: Mapping[str, Any]) -> Ask | None:
    """Ask for its lock, which is freed if the job holds it until it begins; None: it has none."""
    mark = lock_of(payload)
    if mark is None:
        return None
    take = "" if mark.take_s is None else repr(mark.take_s)
    args: list[str | float] = [mark.name, str(payload.get("jid")), mark.until, take, LOOK_S]

    def why(answer: Answer) -> str:
        if answer.more[0] == "replaced":
            return f"a later job has replaced it (unique, lock {mark.name})"
        return f"job {answer.more[0]} has its lock {mark.name} (unique)"

    return Ask(Effect("lock", [keys.locks, keys.locks_look, keys.replaced], args), _WORK, why)
