"""Connections of a process that ends at one of its calls."""

from kiqbridge.store.redis_pool import RedisPool


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


class CutPool(RedisPool):
    """Connections of a process that ends at one of its calls, before it is sent or after it was carried out."""

    def __init__(self, url, calls, at, *, is_sent):
        super().__init__(url)
        self.calls, self.at, self.is_sent = calls, at, is_sent

    def _cut(self, act):
        is_now = next(self.calls) == self.at
        if is_now and not self.is_sent:
            raise Killed
        answer = act()
        if is_now:
            raise Killed
        return answer

    def run(self, *args, **options):
        return self._cut(lambda: super(CutPool, self).run(*args, **options))

    def call(self, *args):
        return self._cut(lambda: super(CutPool, self).call(*args))

    def script(self, *args, **options):
        return self._cut(lambda: super(CutPool, self).script(*args, **options))
