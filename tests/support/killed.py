"""The end of a command at any moment, within the process of the test."""

import contextlib
import os

from kiqbridge.store.redis_pool import RedisPool


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@contextlib.contextmanager
def killed_at(monkeypatch, moment):
    """Ends the process at its effect of this number: even ones before, odd ones after it. Half of a write is done.

    Gives a list with how many moments there were.
    """
    seen = [0]

    def dying(original, half=None):
        def effect(*args, **keywords):
            mine = seen[0]
            seen[0] += 2
            if mine == moment:
                if half:
                    half(*args)
                raise Killed
            result = original(*args, **keywords)
            if mine + 1 == moment:
                raise Killed
            return result

        return effect

    write = os.write
    with monkeypatch.context() as inner, contextlib.suppress(Killed):
        inner.setattr(RedisPool, "script", dying(RedisPool.script))
        half = dying(write, lambda file, text: write(file, text[: len(text) // 2]))
        inner.setattr(os, "write", half)
        inner.setattr(os, "fsync", dying(os.fsync))
        yield seen
