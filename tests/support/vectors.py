"""The recordings of Ruby Sidekiq in tests/vectors: which are asserted, and how texts are compared.

`TABLE` says of every recorded operation either the kind of assertion that is made of it, or why none
is. A test takes its operations from here (`of_kind`), so an operation under a kind is really run.

A text of ours is compared with a recorded one byte by byte; masked are only jids that were drawn and
times of the moment. A float counts by its exact decimal value: Ruby's JSON libraries themselves
differ in its spelling (`1.0e+16`, `1e16`).
"""

import base64
import json
import re
import zlib
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import redis as redis_py

FOLDER = Path(__file__).parents[1] / "vectors"

KINDS = {
    "push": "kernel/redis/test_client_vectors.py::test_a_push_sends_the_recorded_commands",
    "refusal": "kernel/redis/test_client_vectors.py::test_what_sidekiq_refuses_is_refused_before_redis",
    "active_job": "features/active_job/test_vectors.py::test_an_active_job_is_sent_as_recorded",
    "attributes": "features/current_attributes/test_current_attributes.py::test_what_ruby_recorded_is_set_around_the_job",
    "cancel": "features/iterable/test_cancel.py::test_a_cancel_sends_the_recorded_commands",
    "process": "kernel/unit/test_reader_vectors.py::test_a_process_tells_which_times_it_reads",
    "read": "kernel/unit/test_reader_vectors.py::test_a_recorded_job_runs_here_with_its_very_values",
    "timestamp": "kernel/unit/test_reader_vectors.py::test_a_time_is_read_as_the_version_that_wrote_it_reads",
    "busy_page": "kernel/unit/test_reader_vectors.py::test_our_process_has_none_of_the_deviations",
    "config": "kernel/unit/test_reader_vectors.py::test_the_same_settings_give_the_same_capsules",
    "log": "kernel/unit/test_reader_vectors.py::test_the_lines_of_three_jobs_are_the_recorded_ones",
    "failure": "kernel/redis/test_worker_vectors.py::test_a_failure_leaves_the_recorded_bytes",
    "life": "kernel/redis/test_worker_vectors.py::test_a_job_fails_until_it_is_dead",
    "run": "kernel/redis/test_worker_vectors.py::test_a_job_that_succeeds_leaves_nothing",
    "beat": "kernel/redis/test_worker_vectors.py::test_a_beat_sends_the_recorded_commands",
    "quiet": "kernel/redis/test_worker_vectors.py::test_quieted_from_outside_the_hash_says_so",
    "sign_off": "kernel/redis/test_worker_vectors.py::test_a_process_that_ends_signs_off_as_recorded",
    "interruption": "kernel/redis/test_worker_vectors.py::test_an_interrupted_job_goes_back_byte_for_byte",
    "iteration": "features/iterable/test_progress.py::test_an_iterable_job_sends_the_recorded_commands",
    "early_cancel": "features/iterable/test_progress.py::test_a_hash_with_the_request_alone_is_read_as_nothing_done",
    "move": "kernel/redis/test_worker_vectors.py::test_a_due_job_is_moved_with_the_recorded_bytes",
    "sets": "kernel/redis/test_worker_vectors.py::test_due_members_of_any_writer_are_moved_and_the_dead_stay",
    "paused": "kernel/redis/test_worker_vectors.py::test_a_paused_queue_is_left_alone",
    "api": "kernel/redis/test_api_vectors.py::test_a_call_answers_and_leaves_what_ruby_recorded",
    "work": "kernel/redis/test_api_vectors.py::test_work_is_read_as_by_each_version",
    "revived": "kernel/redis/test_worker_vectors.py::test_what_an_operator_leaves_runs_here",
    "signal": "kernel/redis/test_worker_vectors.py::test_a_signal_sent_by_the_api_arrives",
    "metrics": "kernel/redis/test_metrics_vectors.py::test_sidekiqs_readers_read_what_we_write",
    "deploy_mark": "features/deploy_marks/test_marks.py::test_a_deploy_mark_is_the_recorded_one",
    "cron_time": "features/imports/test_sidekiq_cron.py::test_the_last_time_is_the_recorded_one",
    "cron_refusal": "features/imports/test_sidekiq_cron.py::test_what_sidekiq_cron_refused_is_refused",
    "namespace": "kernel/redis/test_namespace.py::test_the_commands_are_those_of_redis_namespace",
    "namespaced_worker": "kernel/redis/test_worker_vectors.py::test_a_namespaced_worker_writes_the_recorded_keys",
}
"""Kind of assertion → the test that makes it."""

LEFT_OUT = (
    "beats: their metrics are in test_metrics_vectors.py",
    "failures: the paths within error_backtrace",
    "iterable_cancelled of 7.3: that on_cancel is not called; here it always is, as in 8",
    "iterable_cancelled_before_start: the failure of their workers, which ours read without one",
    "stop_idle, hard_shutdown: exit codes, which are asserted of the real command (process/)",
    "api: process_cleanup, which 6.4.1 does not set; the order of 6.4.1's retry_all is that of our apply",
    "namespace: the order of keys, in which 6.4.1 differs from 7",
)
"""What is left out of operations that are asserted otherwise."""


@dataclass(frozen=True, slots=True)
class NotAsserted:
    """Why nothing is asserted of an operation."""

    reason: str


def _load(name: str) -> dict[str, dict[str, Any]]:
    recorded = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return {_name(name, each): each for each in recorded["operations"]}


def _name(file: str, operation: Mapping[str, Any]) -> str:
    parts = [operation["operation"]]
    if file in {"config", "activejob", "logs"}:
        parts = [operation["sidekiq"], operation.get("formatter") or operation["operation"]]
    return "/".join(parts)


FILES = {path.stem: _load(path.stem) for path in sorted(FOLDER.glob("*.json"))}
"""File → operation → what was recorded."""

_NOT_A_JOB = NotAsserted(
    "Sidekiq loses it; here it is kept in the dead set (test_failure.py), rather kept than lost"
)
_NO_CRON_DATA = NotAsserted("sidekiq-cron's own data: here the schedule is EventBridge's")
_SPREAD_7 = NotAsserted("7.3.10 does not know spread_interval: here as in 8.1.7, which is asserted")
_NOTHING_TO_READ = NotAsserted("holds no job, and a reader must accept jobs; 7 and 8 are asserted")
_LOGS_OF_7 = NotAsserted("our lines are those of 6 and 7 and the queue (protocol §16), not of 8")

_WORKER = {
    "boot_and_first_beat": "beat",
    "beat_while_working": "beat",
    "beat_after_work": "beat",
    "job_success": "run",
    **dict.fromkeys(("fail_first", "fail_second", "fail_exhausted"), "life"),
    **dict.fromkeys(
        (
            "fail_retry_false",
            "fail_retry_zero",
            "fail_retry_zero_dead_false",
            "fail_retry_queue",
            "fail_retry_for_passed",
            "fail_message_bytes",
            "fail_unknown_class",
            "fail_unknown_class_no_retry_key",
            "fail_no_retry_key",
            "invalid_json",
            "integer_second_times",
            "fail_retry_in",
            "fail_discard",
            "fail_kill",
        ),
        "failure",
    ),
    "json_not_object": _NOT_A_JOB,
    "scheduled_due": "move",
    "quiet_by_api": "quiet",
    "stop_idle": "sign_off",
    "hard_shutdown": "interruption",
    **dict.fromkeys(
        ("iterable_run_and_flush", "iterable_interrupted", "iterable_cancelled"), "iteration"
    ),
    "iterable_cancelled_before_start": "early_cancel",
}
_API = {
    **dict.fromkeys(
        (
            "api_retry_retry",
            "api_retry_all",
            "api_schedule_add_to_queue",
            "api_schedule_reschedule",
            "api_dead_retry",
        ),
        "revived",
    ),
    **dict.fromkeys(("api_quiet", "api_stop", "api_dump_threads"), "signal"),
    **dict.fromkeys(
        (
            "api_retry_kill",
            "api_retry_delete",
            "api_queue_delete_job",
            "api_queue_clear",
            "api_stats",
            "api_workset",
        ),
        "api",
    ),
    "cancel": "cancel",
    "deploy_mark": "deploy_mark",
}
_READERS = {
    "sets": "sets",
    "iteration_paused_leader": "paused",
    "metrics_and_stats": "metrics",
}


def job_texts(operation: Mapping[str, Any]) -> list[str]:
    """The texts of all jobs that an operation pushed, kept or found."""
    texts = [operation["pushed"]] if "pushed" in operation else []
    for command in operation.get("commands", []):
        words = command["cmd"] if isinstance(command, dict) and "cmd" in command else command
        if isinstance(words, list) and words[0].lower() in {"lpush", "rpush", "zadd"}:
            texts += [word for word in words[2:] if isinstance(word, str)]
    for key in (*operation.get("keys", ()), *operation.get("state", ())):
        if key["type"] == "list":
            texts += key["value"]
        elif key["type"] == "zset":
            texts += [entry["member"] for entry in key["value"]]
    return [text for text in dict.fromkeys(texts) if _is_job(text)]


def _is_job(text: object) -> bool:
    if not isinstance(text, str) or not text.startswith("{"):
        return False
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return "class" in value and isinstance(value.get("args"), list)


def _of_6(operation: Mapping[str, Any]) -> str | NotAsserted:
    """What 6.4.1 wrote must be read."""
    return "read" if job_texts(operation) else _NOTHING_TO_READ


def _of_cron(name: str, operation: Mapping[str, Any]) -> str | NotAsserted:
    """A job that was enqueued must be read; a time that was recorded as due must be ours."""
    names = {command[0].lower() for command in operation["commands"]}
    if "lpush" in names:
        return "read"
    if name == "bad_cron":
        return "cron_refusal"
    return "cron_time" if "zadd" in names else _NO_CRON_DATA


def _entry(file: str, name: str, operation: Mapping[str, Any]) -> str | NotAsserted | None:
    kind, _, version = file.rpartition("-")
    if kind == "client":
        if version == "6.4.1":
            return _of_6(operation)
        return _SPREAD_7 if (version, name) == ("7.3.10", "bulk_spread") else "push"
    if kind == "client-errors":
        if "error" in operation["result"]:
            return "refusal"
        return "read" if version == "6.4.1" else _SPREAD_7
    if kind == "worker":
        if version == "6.4.1":
            return "process" if name == "boot_and_first_beat" else _of_6(operation)
        return _WORKER.get(name)
    if kind == "api":
        return _API.get(name)
    if kind == "cron":
        return _of_cron(name, operation)
    if kind == "namespace":
        return "namespaced_worker" if name == "worker" else "namespace"
    if file == "readers":
        if name.startswith("timestamps_"):
            return "timestamp"
        if name.startswith("process_"):
            return "process"
        return "work" if name.startswith("work_") else _READERS.get(name)
    if file == "logs":
        return "log" if name.startswith(("6", "7")) else _LOGS_OF_7
    if file == "activejob":
        return "attributes" if name.endswith("current_attributes") else "active_job"
    return {"busy-page-deviations": "busy_page", "config": "config"}.get(file)


TABLE = {
    (file, name): _entry(file, name, operation)
    for file, operations in FILES.items()
    for name, operation in operations.items()
}
"""(file, operation) → kind of assertion, why there is none, or None: nobody has decided."""


def recorded_info(file: str, name: str) -> bytes:
    """The `info` text of the process in a recording."""
    operation = FILES[file][name]
    [found] = [
        key["value"]["info"]
        for key in (*operation.get("keys", ()), *operation.get("state", ()))
        if key["type"] == "hash" and "info" in key["value"]
    ]
    return str(found).encode()


def of_kind(kind: str) -> list[tuple[str, str]]:
    """The operations that the test of this kind takes, as (file, operation)."""
    return [operation for operation, entry in TABLE.items() if entry == kind]


def profile_of(file: str) -> str:
    """The wire profile in which a version writes."""
    return "8" if file.endswith("8.1.7") else "7"


# An unsigned exponent has no leading zero: else the two texts 1e+16 and 1e016 were one value.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:e(?:[+-]\d+|[1-9]\d*))?|.', re.DOTALL)
_FLOAT = re.compile(rb"-?\d+(?:\.\d+)?(?:e(?:[+-]\d+|[1-9]\d*))?")
_JID = re.compile(rb'"[0-9a-f]{24}"')
_TIME = re.compile(rb"\d{10}\.\d+|\d{13}")
_TIMES = {b'"created_at"', b'"enqueued_at"', b'"failed_at"', b'"retried_at"'}
_NEAR_S = 2 * 3600  # the clock of this machine may be set meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When a text was written (epoch seconds), and which (name, token) in it the caller gave."""

    at: float
    given: Container[tuple[bytes, bytes]] = frozenset()

    def varies(self, name: bytes, token: bytes) -> bytes:
        """What stands for a token whose value could not be known before, else b""."""
        if (name, token) in self.given:
            return b""
        if name == b'"jid"' and _JID.fullmatch(token):
            return b"JID"
        if name in _TIMES and _TIME.fullmatch(token):
            seconds = float(token) if b"." in token else int(token) / 1000
            if abs(seconds - self.at) < _NEAR_S:
                return b"SECONDS" if b"." in token else b"MILLISECONDS"
        return b""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text: where it starts, its bytes, what is compared, whether it is masked."""

    start: int
    raw: bytes
    shown: bytes
    masked: bool


def tokens(text: bytes, moment: Moment) -> Iterator[Token]:
    """The pieces of any text; together they are all of it."""
    for start, name, raw in _named(text):
        stand_in = moment.varies(name, raw)
        if not stand_in and name == b'"error_backtrace"' and raw.startswith(b'"'):
            stand_in = _backtrace(raw)
        yield Token(start, raw, stand_in or number(raw), bool(stand_in))


def _named(text: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Start, name of the member to which it belongs, and bytes of each piece."""
    name = before = b""
    for found in _TOKEN.finditer(text):
        raw = found[0]
        if raw == b":":
            name = before
        elif raw == b",":
            name = b""
        yield found.start(), name, raw
        before = raw


def comparable(text: bytes, moment: Moment) -> list[bytes]:
    """The pieces of a text, as they are compared."""
    return [token.shown for token in tokens(text, moment)]


def number(token: bytes) -> bytes:
    """A float by its exact decimal value, all else as it is."""
    if not _FLOAT.fullmatch(token) or not (b"." in token or b"e" in token):
        return token
    sign, digits, exponent = Decimal(token.decode()).as_tuple()
    kept = len(digits)
    while kept > 1 and digits[kept - 1] == 0:
        kept -= 1
    if digits[:kept] == (0,):
        return b"float %d 0" % sign
    zeros = len(digits) - kept
    return b"float %d %s %d" % (
        sign,
        "".join(map(str, digits[:kept])).encode(),
        int(exponent) + zeros,
    )


def _backtrace(token: bytes) -> bytes:
    """The paths in it are those of another machine: compared is that it decodes, and to how much."""
    try:
        lines = json.loads(zlib.decompress(base64.b64decode(json.loads(token), validate=True)))
    except (ValueError, zlib.error):
        return b""
    return b"BACKTRACE %d" % len(lines)


def given_in(text: bytes, *, without: bytes = b"") -> frozenset[tuple[bytes, bytes]]:
    """What a text holds that was handed in: it is compared, whatever it looks like.

    `without` names a member that is written anew.
    """
    return frozenset(
        (name, raw) for _, name, raw in _named(text) if not without or name != b'"%s"' % without
    )


def state_of(client: redis_py.Redis) -> dict[str, Any]:
    """All keys but our own bookkeeping's, as (type, value) in the recordings' form."""
    found: dict[str, Any] = {}
    for key in client.scan_iter(count=1000):
        name = key.decode()
        if "kb:" not in name:
            found[name] = (kind := client.type(key).decode(), _value(client, key, kind))
    return dict(sorted(found.items()))


def _value(client: redis_py.Redis, key: bytes, kind: str) -> Any:
    if kind == "list":
        return client.lrange(key, 0, -1)
    if kind == "set":
        return sorted(client.smembers(key))
    if kind == "zset":
        return client.zrange(key, 0, -1, withscores=True)
    return client.hgetall(key) if kind == "hash" else client.get(key)


def recorded_state(keys: list[dict[str, Any]]) -> dict[str, Any]:
    """The recorded keys in the same form."""
    return {key["key"]: (key["type"], _recorded_value(key)) for key in keys}


def _recorded_value(key: Mapping[str, Any]) -> Any:
    value = key["value"]
    if key["type"] == "zset":
        return [(entry["member"].encode(), float(entry["score"])) for entry in value]
    if key["type"] == "hash":
        return {name.encode(): text.encode() for name, text in value.items()}
    if isinstance(value, list):
        return [each.encode() for each in value]
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value.encode()


def put_state(client: redis_py.Redis, keys: list[dict[str, Any]]) -> None:
    """Write recorded keys."""
    for name, (kind, value) in recorded_state(keys).items():
        if kind == "list":
            client.rpush(name, *value)
        elif kind == "set":
            client.sadd(name, *value)
        elif kind == "zset":
            client.zadd(name, dict(value))
        elif kind == "hash":
            client.hset(name, mapping=value)
        else:
            client.set(name, value)
