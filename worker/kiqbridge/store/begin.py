"""Whether a claimed job begins, as far as only Redis knows: all of that is asked in one call, begin.lua."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from kiqbridge import seams
from kiqbridge.errors import RedisRefused
from kiqbridge.store import scripts
from kiqbridge.store.effects import Effect, packed
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.replies import translate
from kiqbridge.wire.names import text_of


@cache
def _script() -> scripts.Script:
    """With the parts of the features."""
    parts = [f"{each.name}.begin_{name}" for each in seams.shipped() for name in each.begins]
    return scripts.load("begin", parts=parts)


class Answer(NamedTuple):
    """What a part of begin.lua has answered.

    Attributes:
        outcome: `run`, or how the job ends instead: `expired` or `skipped`.
        more: jids, as the part has them.
    """

    outcome: str
    more: Sequence[str]


class Ask(NamedTuple):
    """What is asked before a job begins.

    Attributes:
        part: `begin_NAME` of the script, with its keys and arguments.
        work: what cannot be done if Redis refuses that; the job begins all the same.
        why: the reason why the job does not begin, from the answer.
        begun: called with the answer if the job begins.
    """

    part: Effect
    work: str
    why: Callable[[Answer], str]
    begun: Callable[[Answer], object] = lambda _answer: None


def begin(connection: RedisConnection, parts: Sequence[Effect]) -> list[Answer | RedisRefused]:
    """Ask these parts one after another, until one answers that the job does not begin.

    Raises:
        RedisUnavailable: repeat it.
        RedisRefused: all of it.
    """
    keys, args = packed(parts)
    return [
        translate(reply, connection.address)  # type: ignore[misc] # a wrong type is a refusal
        if isinstance(reply, Exception)
        else Answer(text_of(reply[0]), [text_of(each) for each in reply[1:]])
        for reply in connection.script(_script(), keys, args)
    ]
