"""`kiqbridge spill`: show what waits in the spill queues of the enqueue function, enqueue it, replay dead letters.

Each message is read as the function would, and deleted when its jobs are in Redis. Exit 0 if nothing that was looked
at is left, 1 if something is.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kiqbridge.api.operator import user_name
from kiqbridge.aws.enqueue import Enqueuer, Handled
from kiqbridge.aws.push import HeldBack, Pusher, StaleTick
from kiqbridge.aws.record import Result
from kiqbridge.client.client import Client
from kiqbridge.commands import enqueue_command
from kiqbridge.commands.acting import REFUSED, confirm
from kiqbridge.commands.arguments import add, add_json, add_verb, add_verbs, within
from kiqbridge.commands.output import answer, write_json, write_line
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.errors import ConfigError, EventError, KiqbridgeError, RedisUnavailable
from kiqbridge.features.spill.form import spill_key_of
from kiqbridge.features.spill.queues import dead_letters_of, name_of, numbers_of, urls_in
from kiqbridge.features.spill.replay import ReplayPusher, dead_letter_of

HELD_S: Final = 300
"""For so long a message is not given to others: longer than a person's look at some thousand of them."""
MAX_MESSAGES: Final = 10
"""Of one call."""
_DONE: Final = ("enqueued", "duplicate", "no job")
"""What becomes of a message that is deleted then."""


class Messages:
    """One queue.

    Args:
        url: its address.

    Raises:
        ConfigError: boto3's lower half is missing.
        EventError: SQS refuses: no such queue, no permission.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            from kiqbridge.features.spill.queues import sqs_client  # noqa: PLC0415

            self._client = sqs_client(url)
        except ImportError as error:
            raise ConfigError(
                "botocore is not installed, and SQS is asked by it: pip install boto3"
            ) from error
        self._held: dict[str, str] = {}
        self._attributes = self._read_attributes(url)
        self.arn = str(self._attributes["QueueArn"])

    def counts(self) -> dict[str, Any]:
        """`waiting` and `in_flight`, as far as SQS knows; `dead_letters`: the same of its dead-letter queue."""
        found = self._read_attributes(self.url)
        dead_letters = None
        if (url := self.dead_letters) is not None:
            dead_letters = {"queue_url": url, **numbers_of(self._read_attributes(url))}
        return {**numbers_of(found), "dead_letters": dead_letters}

    @property
    def dead_letters(self) -> str | None:
        """The address of its dead-letter queue."""
        return dead_letters_of(self.url, self._attributes)

    def take(self, most: int | None) -> Iterator[Mapping[str, Any]]:
        """Up to `most` messages, None = all; each is held until it is deleted or put back."""
        left = most
        while left is None or left > 0:
            found = self._call(
                "receive_message",
                MaxNumberOfMessages=MAX_MESSAGES if left is None else min(MAX_MESSAGES, left),
                VisibilityTimeout=HELD_S,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            ).get("Messages", [])
            if not found:
                return
            for message in found:
                self._held[message["MessageId"]] = message["ReceiptHandle"]
            left = None if left is None else left - len(found)
            yield from found

    def delete(self, message: Mapping[str, Any]) -> None:
        """It is done with."""
        self._call("delete_message", ReceiptHandle=message["ReceiptHandle"])
        self._held.pop(message["MessageId"], None)

    def put_back(self) -> None:
        """Let others have what was taken and not deleted."""
        for handle in self._held.values():
            self._call("change_message_visibility", ReceiptHandle=handle, VisibilityTimeout=0)
        self._held.clear()

    def _read_attributes(self, url: str) -> dict[str, str]:
        answer = self._call("get_queue_attributes", QueueUrl=url, AttributeNames=["All"])
        return dict(answer["Attributes"])

    def _call(self, operation: str, **options: Any) -> Any:
        import botocore.exceptions as of_botocore  # noqa: PLC0415

        try:
            return getattr(self._client, operation)(**{"QueueUrl": self.url, **options})
        except (of_botocore.ClientError, of_botocore.BotoCoreError) as error:
            raise EventError(
                f"SQS refuses {operation} of {self.url}: {error}; check the address, the region and your credentials"
            ) from error


_URL: Final = "https://sqs.eu-west-1.amazonaws.com/123456789012/shop-spill"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs show, drain and replay."""
    verbs = add_verbs(parser)
    line = f"kiqbridge spill %s --queue-url {_URL}"
    text = "count the messages that wait, and show some of them"
    show = add_verb(verbs, "show", _show, text, f"{line % 'show'} --limit 5")
    text = "enqueue the messages that wait; the function also does it on its own"
    drain = add_verb(
        verbs, "drain", _take_all, text, f"{line % 'drain'} --dry-run", stale=False, is_drain=True
    )
    text = "enqueue the messages of a dead-letter queue"
    replay = add_verb(
        verbs, "replay", _take_all, text, f"{line % 'replay'}-dead --dry-run", is_drain=False
    )
    text = "a spill queue (default: KIQBRIDGE_SPILL_QUEUE_URL and _SPILL_FIFO_QUEUE_URL)"
    for verb in (show, drain):
        add(verb, "--queue-url URL...", text)
    add(replay, "--queue-url URL", "the dead-letter queue", required=True, action="append")
    add(replay, "--stale", "also messages so old that they may have been enqueued already")
    text = "show N messages; each counts as received once more (default: 0)"
    add(show, "--limit N", text, type=within(0), default=0)
    text = "only print what would become of each message, which counts as received once more"
    for verb in (drain, replay):
        add(verb, "--limit N", "at most N messages of a queue", type=within(0))
        enqueue_command.add_function(verb)
        add(verb, "--dry-run", text)
        add(verb, "-y --yes", "do not ask")
    for verb in (show, drain, replay):
        add_json(verb)


def _show(options: argparse.Namespace) -> int:
    queues, lines = [], []
    for url in _urls(options):
        queue = Messages(url)
        looked = [
            {"message_id": each["MessageId"], **_spilled(each["Body"])}
            for each in queue.take(options.limit)
        ]
        queue.put_back()
        found = {"queue_url": url, **queue.counts(), "messages": looked}
        queues.append(found)
        dead = found["dead_letters"]
        letters = f"{dead['waiting']} in {dead['queue_url']}" if dead else "none"
        waiting = f"{found['waiting']} wait, {found['in_flight']} are in flight"
        lines += [url, f"  {waiting}; dead-letter queue: {letters}"]
        lines += [f"  {each['message_id']} {each['source']}: {_jobs(each)}" for each in looked]
    return answer(options, {"queues": queues}, lines)


def _take_all(options: argparse.Namespace) -> int:
    queues = [Messages(url) for url in _urls(options)]
    if not (options.dry_run or options.yes):
        count = sum(queue.counts()["waiting"] for queue in queues)
        if not confirm(f"Enqueue and delete about {count} messages?", options):
            return REFUSED
    environ = enqueue_command.function_environ(options)
    client = Client()
    key = spill_key_of(environ)
    spilling = queues if options.is_drain else [Messages(url) for url in urls_in(os.environ)]
    urls = [url for each in spilling for url in (each.url, each.dead_letters) if url]
    pusher = ReplayPusher(
        Pusher(client, tick_ahead_s=read(ForFunctions.tick_ahead_s, environ)),
        client,
        only_looks=options.dry_run,
        takes_stale=options.stale,
        key=key,
        spill_queues=None if key is not None else {name_of(url) for url in urls},
    )
    folder = enqueue_command.function_folder(options)
    enqueuer = Enqueuer.from_environment(environ, folder, pusher)
    outcomes: list[dict[str, Any]] = []
    try:
        for queue in queues:
            for outcome in _handled(queue, enqueuer, pusher, options):
                outcomes.append(outcome)
                if not options.json:
                    _print_outcome(outcome, dry_run=options.dry_run)
    finally:
        for queue in queues:
            queue.put_back()
    counts = {
        name: sum(each["outcome"] == name for each in outcomes)
        for name in (*_DONE, "stale", "refused", "failed")
    }
    if options.json:
        write_json({"dry_run": options.dry_run, "messages": outcomes, "counts": counts})
    else:
        text = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        write_line(f"{len(outcomes)} messages{': ' if text else ''}{text}")
    return int(any(each["outcome"] not in _DONE for each in outcomes))


def _handled(
    queue: Messages, enqueuer: Enqueuer, pusher: ReplayPusher, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    by = f"kiqbridge spill by {user_name()}"
    for message in queue.take(options.limit):
        outcome: dict[str, Any] = {"message_id": message["MessageId"]}
        try:
            letter = dead_letter_of(message, queue.arn, pusher.spill_queues)
            outcome |= {"envelope": letter.envelope, "reason": letter.reason or None}
            pusher.is_spilled = letter.envelope == "spill"
            pusher.sent_at = float(message["Attributes"]["SentTimestamp"]) / 1000
            outcome |= _outcome(
                enqueuer.handle(letter.event, now=time.time(), by=by, alias=letter.alias)
            )
        except EventError as error:
            outcome |= {"outcome": "refused", "jobs": [], "error": str(error)}
        if outcome["outcome"] in _DONE and not options.dry_run:
            queue.delete(message)
        yield outcome


def _outcome(handled: Handled) -> dict[str, Any]:
    """What became of a message.

    Raises:
        RedisUnavailable: Redis is away, so that there is no use in going on.
    """
    errors = [result.error for result in handled.results if result.error is not None]
    errors = [each for each in errors if not isinstance(each, HeldBack)] or errors
    error = errors[0] if errors else handled.error
    if isinstance(error, RedisUnavailable):
        raise error
    jobs = [
        {**enqueue_command.enqueued_fields(job), "jid": job.jid or None}
        for result in handled.results
        for job in result.jobs
    ]
    return {
        "source": handled.source,
        "jobs": jobs,
        "error": None if error is None else str(error),
        "outcome": _name(error, handled.results, jobs),
    }


def _name(
    error: Exception | None, results: Sequence[Result], jobs: Sequence[Mapping[str, Any]]
) -> str:
    if isinstance(error, StaleTick) or any(result.left_out == "stale" for result in results):
        return "stale"
    if error is not None:
        refused = isinstance(error, EventError | ValueError)
        return "refused" if refused and isinstance(error, KiqbridgeError) else "failed"
    if not jobs:  # paused and skipped ones too: no other delivery would enqueue them
        return "no job"
    return "duplicate" if all(job["duplicate"] for job in jobs) else "enqueued"


def _print_outcome(outcome: Mapping[str, Any], *, dry_run: bool) -> None:
    name = outcome["outcome"]
    verb = "would be enqueued" if dry_run and name == "enqueued" else name
    parts = [part for part in (_jobs(outcome), outcome["error"]) if part]
    write_line(f"{outcome['message_id']} {verb}{': ' if parts else ''}{'; '.join(parts)}")


def _jobs(message: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{job['class']} into {job['queue']}" + (f" as {job['jid']}" if job["jid"] else "")
        for job in message["jobs"]
    )


def _spilled(body: str) -> dict[str, Any]:
    """What a message of a spill queue says of itself; it is not checked here."""
    try:
        content = json.loads(body)
        envelope = content["kiqbridge_spill"]
        jobs = [
            {
                "jid": job.get("jid"),
                "class": job.get("class", job.get("active_job")),
                "queue": job.get("queue", "default"),
            }
            for job in content["jobs"]
        ]
        return {"source": envelope["source"], "accepted_at": envelope["at"], "jobs": jobs}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {"source": "not written by the function", "accepted_at": None, "jobs": []}


def _urls(options: argparse.Namespace) -> list[str]:
    urls = options.queue_url or urls_in(os.environ)
    if not urls:
        raise EventError(
            "spill: there is no spill queue; give --queue-url, or set KIQBRIDGE_SPILL_QUEUE_URL"
        )
    return list(urls)
