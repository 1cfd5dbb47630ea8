"""`kiqbridge spill`: what waits in the spill queues, taking it from there, and replaying dead letters."""

import argparse
import getpass
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kiqbridge.aws.enqueue import Enqueuer, Handled
from kiqbridge.aws.push import HeldBack, Pusher, StaleTick
from kiqbridge.aws.record import Result
from kiqbridge.aws.replay import ReplayPusher, dead_letter_of
from kiqbridge.client.client import Client
from kiqbridge.client.guarded_push import Enqueued
from kiqbridge.commands.arguments import add_example, add_json, add_option, add_switch
from kiqbridge.commands.enqueue_command import FUNCTION_FOLDER
from kiqbridge.commands.sqs_messages import Messages
from kiqbridge.config.function_settings import (
    MAPPINGS,
    SPILL_FIFO_QUEUE_URL,
    SPILL_QUEUE_URL,
    TICK_AHEAD_S,
)
from kiqbridge.config.setting import read
from kiqbridge.errors import EventError, KiqbridgeError, RedisUnavailable

_DONE: Final = ("enqueued", "duplicate", "no job")
"""What becomes of a message that is deleted then."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs show, drain and replay."""
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    show = verbs.add_parser("show", help="how many messages wait, and which")
    drain = verbs.add_parser("drain", help="enqueue what waits, as the function does by itself")
    replay = verbs.add_parser("replay", help="enqueue what is in a dead-letter queue")
    for verb in (show, drain):
        verb.add_argument(
            "--queue-url",
            action="append",
            metavar="URL",
            help="a spill queue (default: KIQBRIDGE_SPILL_QUEUE_URL and _SPILL_FIFO_QUEUE_URL)",
        )
    url = "https://sqs.eu-west-1.amazonaws.com/123456789012/shop-spill"
    add_example(show, f"kiqbridge spill show --queue-url {url} --limit 5")
    add_example(drain, f"kiqbridge spill drain --queue-url {url} --dry-run")
    add_example(replay, f"kiqbridge spill replay --queue-url {url}-dead --dry-run")
    add_option(replay, "--queue-url", "URL", "the dead-letter queue", required=True)
    add_switch(replay, "--stale", "also what is so old that nobody knows whether it was enqueued")
    add_option(
        show,
        "--limit",
        "N",
        "show N messages; each counts as received once more (default: 0)",
        type=_count,
        default=0,
    )
    for verb in (drain, replay):
        add_option(verb, "--limit", "N", "at most N messages of a queue", type=_count, default=None)
        add_option(
            verb,
            "--mappings",
            "FILE",
            f"the mappings (default: KIQBRIDGE_MAPPINGS, or mappings.yml in {FUNCTION_FOLDER})",
            type=Path,
        )
        add_switch(
            verb,
            "--dry-run",
            "only print what would become of each message, which counts as received once more",
        )
        add_switch(verb, "--yes", "do not ask")
    for verb, function in ((show, _show), (drain, _drain), (replay, _replay)):
        add_json(verb)
        verb.set_defaults(command=function)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of messages; write 0 or more")
    return int(text)


def _show(options: argparse.Namespace) -> int:
    queues = []
    for url in _urls(options):
        queue = Messages(url)
        looked = [
            {"message_id": each["MessageId"], **_spilled(each["Body"])}
            for each in queue.take(options.limit)
        ]
        queue.put_back()
        queues.append({"queue_url": url, **queue.counts(), "messages": looked})
    if options.json:
        return _answer({"queues": queues})
    for found in queues:
        sys.stdout.write(
            f"{found['queue_url']}\n  {found['waiting']} wait, {found['in_flight']} are in flight; "
            f"dead-letter queue: {_dead(found['dead_letters'])}\n"
        )
        for message in found["messages"]:
            jobs = ", ".join(
                f"{job['class']} into {job['queue']} as {job['jid']}" for job in message["jobs"]
            )
            sys.stdout.write(f"  {message['message_id']} {message['source']}: {jobs}\n")
    return 0


def _drain(options: argparse.Namespace) -> int:
    options.stale = False
    return _take_all(options, _urls(options))


def _replay(options: argparse.Namespace) -> int:
    return _take_all(options, [options.queue_url])


def _take_all(options: argparse.Namespace, urls: Sequence[str]) -> int:
    """Handle the messages of all queues; 0 if none is left that was looked at, 1 if one is."""
    queues = [Messages(url) for url in urls]
    if not options.dry_run and not options.yes:
        _ask(queues)
    environ = dict(os.environ)
    if options.mappings is not None:
        environ[MAPPINGS.env[0]] = str(options.mappings.resolve())
    client = Client()
    pusher = ReplayPusher(
        Pusher(client, tick_ahead_s=read(TICK_AHEAD_S, environ)),
        client,
        only_looks=options.dry_run,
        takes_stale=options.stale,
    )
    enqueuer = Enqueuer.with_mappings(pusher, environ, FUNCTION_FOLDER)
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
        _answer({"dry_run": options.dry_run, "messages": outcomes, "counts": counts})
    else:
        text = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        sys.stdout.write(f"{len(outcomes)} messages{': ' if text else ''}{text}\n")
    return int(any(each["outcome"] not in _DONE for each in outcomes))


def _handled(
    queue: Messages, enqueuer: Enqueuer, pusher: ReplayPusher, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    by = f"kiqbridge spill by {_user()}"
    for message in queue.take(options.limit):
        outcome: dict[str, Any] = {"message_id": message["MessageId"]}
        try:
            letter = dead_letter_of(message, queue.arn)
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
    jobs = [_job(job) for result in handled.results for job in result.jobs]
    shown = {"source": handled.source, "jobs": jobs, "error": None if error is None else str(error)}
    return {**shown, "outcome": _name(error, handled.results, jobs)}


def _name(
    error: Exception | None, results: Sequence[Result], jobs: Sequence[Mapping[str, Any]]
) -> str:
    if isinstance(error, StaleTick) or any(result.stale for result in results):
        return "stale"
    if error is not None:
        refused = isinstance(error, EventError | ValueError)
        return "refused" if refused and isinstance(error, KiqbridgeError) else "failed"
    if not jobs:  # paused and skipped ones too: no other delivery would enqueue them
        return "no job"
    return "duplicate" if all(job["duplicate"] for job in jobs) else "enqueued"


def _job(job: Enqueued) -> dict[str, Any]:
    return {
        "jid": job.jid or None,
        "class": job.job_class,
        "queue": job.queue,
        "at": job.at,
        "duplicate": job.duplicate,
    }


def _print_outcome(outcome: Mapping[str, Any], *, dry_run: bool) -> None:
    name = outcome["outcome"]
    verb = "would be enqueued" if dry_run and name == "enqueued" else name
    jobs = ", ".join(
        f"{job['class']} into {job['queue']}" + (f" as {job['jid']}" if job["jid"] else "")
        for job in outcome["jobs"]
    )
    parts = [part for part in (jobs, outcome["error"]) if part]
    sys.stdout.write(f"{outcome['message_id']} {verb}{': ' if parts else ''}{'; '.join(parts)}\n")


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
    urls = options.queue_url or [
        url for row in (SPILL_QUEUE_URL, SPILL_FIFO_QUEUE_URL) if (url := read(row, os.environ))
    ]
    if not urls:
        raise EventError(
            "spill: there is no spill queue; give --queue-url, or set KIQBRIDGE_SPILL_QUEUE_URL"
        )
    return list(urls)


def _ask(queues: Sequence[Messages]) -> None:
    count = sum(queue.counts()["waiting"] for queue in queues)
    if not sys.stdin.isatty():
        raise EventError(
            f"spill: about {count} messages would be enqueued and deleted; add --yes, or --dry-run to look"
        )
    sys.stdout.write(f"enqueue and delete about {count} messages? [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise EventError("spill: nothing was done")


def _dead(dead_letters: Mapping[str, Any] | None) -> str:
    if dead_letters is None:
        return "none"
    return f"{dead_letters['waiting']} in {dead_letters['queue_url']}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user needs no name
        return str(os.getuid())


def _answer(value: object) -> int:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    return 0
