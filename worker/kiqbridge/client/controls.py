"""What a client asks of Redis besides pushing: to end a job, to pause, to mark a deployment."""

from typing import TYPE_CHECKING, cast

from kiqbridge.client.registry import definition_of
from kiqbridge.clock import client_now
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import Profile

if TYPE_CHECKING:
    from datetime import datetime

    from kiqbridge.store.deploy import DeployMark
    from kiqbridge.store.pauses import Pause


class Controls:
    """The part of `Client` that steers what is there, instead of pushing."""

    keys: Keys

    @property
    def pool(self) -> RedisPool:
        """See `Client.pool`."""
        raise NotImplementedError

    def wire_profile(self) -> Profile:
        """See `Client.wire_profile`."""
        raise NotImplementedError

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
        from kiqbridge.client import iteration_state  # noqa: PLC0415 - few clients cancel

        return iteration_state.request_cancel(
            self.pool, self.keys, jid, self.wire_profile, client_now()
        )

    def deploy_mark(self, label: str) -> "DeployMark":
        """Draw a deployment into the charts of the Web UI, at this minute (§12.5).

        A label is marked once within 60 seconds, whoever says it; of several labels in one minute the
        first is kept.

        Args:
            label: what people shall read there, such as a version or a commit's subject.

        Raises:
            PayloadError: that is no label.
            RedisUnavailable: nothing was written.
        """
        from kiqbridge.store.deploy import parse_label, write_mark  # noqa: PLC0415 - few clients mark

        return write_mark(self.pool, self.keys, parse_label(label), client_now())

    def pause_queue(
        self,
        name: str,
        *,
        reason: str = "",
        by: str = "",
        for_s: float | None = None,
        until: "float | datetime | None" = None,
    ) -> "Pause":
        """Let no worker take jobs of this queue, Ruby's with Sidekiq Pro included; running ones go on.

        In effect at once, also for a queue that is empty or unknown. Pausing again replaces reason and
        end.

        Args:
            name: without prefix.
            reason: why, kept for whoever looks.
            by: who.
            for_s: seconds after which it ends by itself; default: never.
            until: epoch seconds or an aware datetime at which it ends by itself.

        Raises:
            PayloadError: a wrong value; nothing was written.
            RedisUnavailable: pause again, which does no harm.
        """
        from kiqbridge.store import pauses  # noqa: PLC0415 - few clients pause

        return pauses.pause(
            self.pool, self.keys, "queue", name, reason=reason, by=by, for_s=for_s, until=until
        )

    def resume_queue(self, name: str) -> bool:
        """End the pause of a queue, whoever made it; whether it was paused. Raises as `pause_queue`."""
        from kiqbridge.store import pauses  # noqa: PLC0415 - as pause_queue

        return pauses.unpause(self.pool, self.keys, "queue", name)

    def pause_class(
        self,
        job_class: object,
        *,
        reason: str = "",
        by: str = "",
        for_s: float | None = None,
        until: "float | datetime | None" = None,
    ) -> "Pause":
        """Let our workers run no job of this class: those they meet are put off, a minute each time.

        In effect within a second; Ruby's workers know nothing of it. After the end of the pause jobs
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
        name = _wire_name(job_class)
        from kiqbridge.store import pauses  # noqa: PLC0415 - few clients pause

        return pauses.pause(
            self.pool, self.keys, "class", name, reason=reason, by=by, for_s=for_s, until=until
        )

    def resume_class(self, job_class: object) -> bool:
        """End the pause of a class; whether it was paused. Raises as `pause_queue`."""
        from kiqbridge.store import pauses  # noqa: PLC0415 - as pause_queue

        name = _wire_name(job_class)
        return pauses.unpause(self.pool, self.keys, "class", name)

    def pauses(self) -> "list[Pause]":
        """What is paused now: queues, those that Ruby paused included, then classes.

        Raises:
            RedisUnavailable: nothing was read.
        """
        from kiqbridge.store import pauses  # noqa: PLC0415

        return pauses.list_pauses(self.pool, self.keys)


def _wire_name(job_class: object) -> str:
    definition = definition_of(job_class)
    return definition.name if definition else cast("str", job_class)  # checked by `pauses`
