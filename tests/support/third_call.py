"""A pool whose third call fails."""

from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import ReplyLost


class ThirdCallFails(RedisPool):
    """The server's memory is full from the third call on, or the reply to that call is lost."""

    def __init__(self, url, redis, fault):
        super().__init__(url)
        self.redis, self.fault, self.calls = redis, fault, 0

    def _fail(self, act):
        self.calls += 1
        if self.calls == 3 and self.fault == "full":
            self.redis.config_set("maxmemory", 1)
        answer = act()
        if self.calls == 3:
            raise ReplyLost("by the test's will")
        return answer

    def run(self, *args, **options):
        return self._fail(lambda: super(ThirdCallFails, self).run(*args, **options))

    def script(self, *args, **options):
        return self._fail(lambda: super(ThirdCallFails, self).script(*args, **options))
