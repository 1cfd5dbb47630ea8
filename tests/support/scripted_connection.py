"""A connection whose server has every job in flight: it answers the scripts that give back and settle."""

from kiqbridge.errors import RedisUnavailable
from kiqbridge.store import scripts

NAMES = {scripts.load(name).sha: name for name in ("give_back", "settle")}


class ScriptedConnection:
    """Answers each script as a server does that finds all jobs in their list.

    Attributes:
        calls: each script that was carried out, as (name, texts of the jobs).
        down: nothing reaches the server.
    """

    batch_bytes = 1_000_000

    def __init__(self):
        self.calls = []
        self.down = False

    def script(self, script, _keys, args, **_options):
        if self.down:
            raise RedisUnavailable("cut off, by the test's will")
        name = NAMES[script.sha]
        jobs = list(args[3:]) if name == "give_back" else list(args[3::4])
        self.calls.append((name, jobs))
        return len(jobs) if name == "give_back" else [1] * len(jobs)

    def close(self):
        pass
