"""Where the jobs of rules are performed: by the worker of `kiqbridge dev`, or by somebody else's."""

from dataclasses import dataclass

from kiqbridge.client.registry import Registry
from kiqbridge.errors import KiqbridgeError
from kiqbridge.schedule.template import TemplateSchedule
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlaces:
    """Where jobs are performed: here, or by somebody else's worker.

    Attributes:
        served: queues of the Python worker.
    """

    served: list[str]
    registry: Registry
    pool: RedisPool
    keys: Keys

    def are_here(self, rule: TemplateSchedule) -> bool:
        """Whether all jobs of a rule are Python classes that this worker knows."""
        return all(job.get("class", job.get("active_job")) in self.registry for job in rule.jobs)

    def note(self, job_class: str, queue: str) -> str:
        """What keeps a job from being performed here; empty if nothing does."""
        if queue not in self.served:
            return "waits for a Ruby worker"
        # A wrapper that is named itself and misspelt names alike: the worker will say more.
        return "" if job_class in self.registry else "no Python job has this name"

    def waiting(self, queue: str) -> str:
        """How many jobs wait in a queue that is not served here."""
        try:
            return f"{self.pool.call('LLEN', self.keys.queue(queue))} there"
        except KiqbridgeError:
            return "number unknown"  # only an adornment of a line
