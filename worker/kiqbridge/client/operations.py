"""What a client may ask of Redis beside its pushes."""

from typing import TYPE_CHECKING

from kiqbridge import seams
from kiqbridge.client.registry import wire_name_of
from kiqbridge.runtime.clock import client_now
from kiqbridge.store.process_set import FleetProfile
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import Profile, ProfileSetting

if TYPE_CHECKING:
    from typing import Unpack

    from kiqbridge.client.deploy_mark import DeployMark
    from kiqbridge.store.pauses import Pause, PauseOptions


class Operations:
    """What `Client` has beside its pushes.

    Attributes:
        keys: of the namespace.
        profile: as it was set.
        fleet_profile: the one in effect, and what is known of it.
    """

    def __init__(self, pool: RedisPool, keys: Keys, profile: ProfileSetting) -> None:
        self.pool = pool
        self.keys = keys
        self.profile = profile
        self.fleet_profile = FleetProfile(profile, pool, keys)

    def wire_profile(self) -> Profile:
        """The profile in effect; with `auto` it follows live heartbeats and never raises."""
        return self.fleet_profile.current()

    def cancel(self, jid: str) -> int:
        """Ask an iterable job to end: HSETNX it-JID cancelled (§13.5); it may be waiting or running.

        It ends as if it were complete, within about 5 seconds if it runs now. Cancelling again
        changes nothing.

        Returns:
            The time of the first request, epoch seconds.

        Raises:
            PayloadError: that is no jid.
            RedisUnavailable: nothing was written.
        """
        cancel = seams.call("cancel")
        asked: int = cancel(self.pool, self.keys, jid, self.wire_profile, client_now())
        return asked

    def deploy_mark(self, label: str) -> "DeployMark":
        """Draw a deployment into the charts of the Web UI, at this minute (§12.5).

        A label is marked once within 60 seconds, however many processes ask; of several labels in one minute the
        first is kept.

        Args:
            label: what people shall read there, such as a version or a commit's subject.

        Raises:
            PayloadError: that is no label.
            RedisUnavailable: nothing was written.
        """
        mark: DeployMark = seams.call("deploy_mark")(self.pool, self.keys, label, client_now())
        return mark

    def pause_queue(self, name: str, **options: "Unpack[PauseOptions]") -> "Pause":
        """Stop all workers from taking jobs of this queue, Ruby's with Sidekiq Pro included; running ones go on.

        In effect at once, also for a queue that is empty or unknown. Pausing again replaces reason and
        end.

        Args:
            name: without prefix.
            reason: why; shown to operators.
            by: who.
            for_s: seconds after which it ends by itself; default: never.
            until: epoch seconds or an aware datetime at which it ends by itself.

        Raises:
            PayloadError: a wrong value; nothing was written.
            RedisUnavailable: pause again, which does no harm.
        """
        from kiqbridge.store import pauses  # noqa: PLC0415 - few clients pause

        return pauses.pause(self.pool, self.keys, "queue", name, **options)

    def resume_queue(self, name: str) -> bool:
        """End the pause of a queue, also one that another user made; whether it was paused. Raises as `pause_queue`."""
        from kiqbridge.store import pauses  # noqa: PLC0415 - as pause_queue

        return pauses.unpause(self.pool, self.keys, "queue", name)

    def pause_class(self, job_class: object, **options: "Unpack[PauseOptions]") -> "Pause":
        """Stop Kiqbridge's workers from running jobs of this class: those they meet are put off, a minute each time.

        In effect within a second; Ruby's workers ignore it. After the end of the pause jobs
        come back within 70 s.

        Args:
            job_class: a declared job, or a name as on the wire; a Rails job's own class.
            reason: as for `pause_queue`, like all that follow.
            by: who.
            for_s: seconds after which it ends by itself.
            until: when it ends by itself.

        Raises:
            KiqbridgeError: as `pause_queue`.
        """
        from kiqbridge.store import pauses  # noqa: PLC0415 - few clients pause

        return pauses.pause(self.pool, self.keys, "class", wire_name_of(job_class), **options)

    def resume_class(self, job_class: object) -> bool:
        """End the pause of a class; whether it was paused. Raises as `pause_queue`."""
        from kiqbridge.store import pauses  # noqa: PLC0415 - as pause_queue

        return pauses.unpause(self.pool, self.keys, "class", wire_name_of(job_class))

    def pauses(self) -> "list[Pause]":
        """What is paused now: queues, those that Ruby paused included, then classes.

        Raises:
            RedisUnavailable: nothing was read.
        """
        from kiqbridge.store import pauses  # noqa: PLC0415

        return pauses.list_pauses(self.pool, self.keys)
