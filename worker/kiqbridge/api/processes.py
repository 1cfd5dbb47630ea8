"""Processes of Python and Ruby, and the jobs that run in them (protocol §10)."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, Literal

from kiqbridge.api.audit import record_audit
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.store.process_set import BEAT_TTL_S, remove_gone, send_signal
from kiqbridge.store.replies import number_in, pairs_of
from kiqbridge.wire.active_job import performed_class
from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.keys import LAYOUT, Keys, layout_of
from kiqbridge.wire.names import shown, text_of

LABEL: Final = "kiqbridge"
CLASSES: Final = "kb_classes"
"""Field of a process' hash: the classes that its code declares, as a JSON list; empty if they are too many."""
TROUBLES: Final = "kb_troubles"
"""Field of a process' hash: what it cannot do until somebody changes something, as a JSON list; empty: nothing."""
Signal = Literal["TSTP", "TERM", "TTIN"]
SILENT_AFTER_S: Final = 20.0
"""Seconds: two heartbeats of Ruby's and of ours."""
RETRY: Final = "retry"
NOT_FOUND: Final = "uninitialized constant"
"""How the message of the error begins with which workers of both languages refuse a job of an unknown class."""
SIGNALS: Final[Mapping[str, Signal]] = {"quiet": "TSTP", "stop": "TERM", "dump_threads": "TTIN"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capsule:
    """A part of a process with threads and queues of its own.

    Attributes:
        name: `default` for the one that every process has.
        concurrency: its threads; None = of a version that does not say so.
        queues: name → weight; 0 = without.
    """

    name: str
    concurrency: int | None
    queues: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process as its last heartbeat showed it.

    Attributes:
        identity: its name in Redis, `HOST:PID:NONCE`.
        info: what does not change while it lives (§10.2).
        fields: its hash, the fields other than `info`.
        operator: whose.
        expires_in_s: seconds after which its hash is forgotten, by the server's clock; None: it has no such term.
    """

    identity: str
    info: Mapping[str, Any]
    fields: Mapping[str, str]
    operator: Operator
    expires_in_s: float | None = None

    @property
    def hostname(self) -> str:
        """Of its machine."""
        return str(self.info.get("hostname", ""))

    @property
    def pid(self) -> int:
        """On its machine."""
        return _int(self.info.get("pid"))

    @property
    def tag(self) -> str:
        """What it is called, often the application."""
        return str(self.info.get("tag") or "")

    @property
    def labels(self) -> Sequence[str]:
        """Its labels."""
        labels = self.info.get("labels")
        return [str(label) for label in labels] if isinstance(labels, list) else []

    @property
    def version(self) -> str:
        """Of Sidekiq, or `kiqbridge-VERSION`."""
        return str(self.info.get("version", ""))

    @property
    def is_ours(self) -> bool:
        """Whether it is a worker of Kiqbridge."""
        return LABEL in self.labels or self.version.startswith(LABEL)

    @property
    def concurrency(self) -> int:
        """How many jobs can run in it at once; from 8.1.2 on a field of its own (§10.2)."""
        return _int(self.fields.get("concurrency") or self.info.get("concurrency"))

    @property
    def queues(self) -> Sequence[str]:
        """The queues it serves."""
        queues = self.info.get("queues")
        if isinstance(queues, list):
            return [str(name) for name in queues]
        capsules = self.info.get("capsules")  # as 8.1 writes it (§10.2)
        weights = (
            [each.get("weights", {}) for each in capsules.values()]
            if isinstance(capsules, dict)
            else []
        )
        return list(dict.fromkeys(name for each in weights for name in each))

    @property
    def capsules(self) -> Sequence[Capsule]:
        """As its version writes them: `capsules` from 8.0.9 on, `weights` before, else only queues (§10.2)."""
        capsules = self.info.get("capsules")
        if isinstance(capsules, dict) and capsules:
            return [
                Capsule(
                    name=str(name),
                    concurrency=_whole(each.get("concurrency")),
                    queues=_weights(each.get("weights")),
                )
                for name, each in capsules.items()
                if isinstance(each, dict)
            ]
        weights = self.info.get("weights")
        if isinstance(weights, dict):  # 7.0.2 only
            weights = [weights]
        if isinstance(weights, list) and weights:
            return [
                Capsule(
                    name="default" if not place else "", concurrency=None, queues=_weights(each)
                )
                for place, each in enumerate(weights)
            ]
        return [Capsule(name="default", concurrency=None, queues=dict.fromkeys(self.queues, 0))]

    @property
    def busy(self) -> int:
        """How many jobs run in it."""
        return _int(self.fields.get("busy"))

    @property
    def beat_at(self) -> float:
        """Of its last heartbeat, epoch seconds by the clock of its machine."""
        return number_in(self.fields.get("beat"))

    def silent_s(self, now: float) -> float:
        """Seconds since its last heartbeat; `now` (epoch seconds) counts only if its hash has no term.

        Each heartbeat sets that term anew (§10.2), so the clock of its machine may be wrong.
        """
        if self.expires_in_s is None:
            return now - self.beat_at
        return max(0.0, BEAT_TTL_S - self.expires_in_s)

    def clock_ahead_s(self, now: float) -> float:
        """Seconds by which the clock of its machine is ahead of the server's, whose `now` (epoch seconds) this is."""
        return self.beat_at - now + self.silent_s(now)

    @property
    def started_at(self) -> float:
        """Epoch seconds."""
        return number_in(self.info.get("started_at"))

    def is_silent(self, now: float) -> bool:
        """Whether its heartbeat is late at `now` (epoch seconds): its jobs are not known any more."""
        return self.silent_s(now) > SILENT_AFTER_S

    @property
    def is_quiet(self) -> bool:
        """Whether it takes no new jobs."""
        return self.fields.get("quiet") == "true"

    @property
    def rss_kb(self) -> int:
        """Its memory in kilobytes."""
        return _int(self.fields.get("rss"))

    @property
    def rtt_us(self) -> int:
        """A round trip from it to Redis, in microseconds."""
        return _int(self.fields.get("rtt_us"))

    @property
    def troubles(self) -> Sequence[str]:
        """Its troubles that do not end by themselves; Ruby's processes do not say."""
        return _texts(self.fields.get(TROUBLES, "")) or []

    @property
    def declared(self) -> AbstractSet[str] | None:
        """The classes that its code declares; None = not known: Ruby's do not say, nor those with too many."""
        names = _texts(self.fields.get(CLASSES, ""))
        return None if names is None else set(names)

    def quiet(self) -> None:
        """Ask it to take no new jobs (§10.5); it does within seconds, and there is no way back."""
        self._signal("quiet")

    def stop(self) -> None:
        """Ask it to end: it finishes or gives back its jobs, and whatever runs it may start it again."""
        self._signal("stop")

    def dump_threads(self) -> None:
        """Ask it to log where each of its threads is."""
        self._signal("dump_threads")

    def _signal(self, action: str) -> None:
        key = self.operator.keys.signals(self.identity)
        send_signal(self.operator.pool, key, SIGNALS[action])
        record_audit(self.operator, action, self.identity)


class ProcessSet:
    """The processes that live; iterating gives them by identity.

    Args:
        operator: default `default_operator()`.
    """

    def __init__(self, operator: Operator | None = None) -> None:
        self.operator = operator or default_operator()

    def __iter__(self) -> Iterator[Process]:
        """Two round trips, however many they are; without those whose hash is gone."""
        pool, keys = self.operator.pool, self.operator.keys
        names = sorted(text_of(name) for name in pool.call("SMEMBERS", keys.processes))
        asked = [command for name in names for command in process_commands(keys, name)]
        replies = pool.run(*asked) if names else []
        for name, reply, left_ms in zip(names, replies[::2], replies[1::2], strict=True):
            process = parse_process(name, reply, self.operator, left_ms)
            if process is not None:
                yield process

    @property
    def size(self) -> int:
        """How many are registered, those included whose end was not noticed yet."""
        return int(self.operator.pool.call("SCARD", self.operator.keys.processes))

    def __len__(self) -> int:
        return self.size

    def lost(self, living: Iterable[Process]) -> list[Process]:
        """Workers of ours that hold a lease and are none of the `living`, by identity; nothing else of them is known.

        They were killed, are cut off, or are stuck: no heartbeat has come for a minute.
        """
        names = map(text_of, self.operator.pool.call("SMEMBERS", self.operator.keys.inflight))
        lost = owners_of(names) - {each.identity for each in living}
        return [self._named(identity) for identity in sorted(lost)]

    def _named(self, identity: str) -> Process:
        hostname, _, rest = identity.partition(":")
        info = {"hostname": hostname, "pid": rest.partition(":")[0], "labels": [LABEL]}
        return Process(identity=identity, info=info, fields={}, operator=self.operator)

    def cleanup(self) -> None:
        """Take processes off that are gone, at most once a minute in the fleet, as Ruby's `ProcessSet.new` (§9.3)."""
        remove_gone(self.operator.pool, self.operator.keys)

    def find(self, identity: str) -> Process | None:
        """The process of this name, None if it does not live."""
        commands = process_commands(self.operator.keys, identity)
        reply, left_ms = self.operator.pool.run(*commands)
        return parse_process(identity, reply, self.operator, left_ms)


def identity_of(incarnation: str) -> str:
    """HOST:PID:NONCE of LAYOUT:HOST:PID:NONCE:N."""
    return incarnation.partition(":")[2].rpartition(":")[0]


def owners_of(incarnations: Iterable[str]) -> set[str]:
    """The identities of those whose layout we know."""
    return {identity_of(name) for name in incarnations if layout_of(name) == LAYOUT} - {""}


def process_commands(keys: Keys, identity: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """What is asked of a process: its hash, and for how many milliseconds that is kept."""
    return ("HGETALL", keys.process(identity)), ("PTTL", keys.process(identity))


def parse_process(
    identity: str, reply: Sequence[bytes], operator: Operator, left_ms: int | None
) -> Process | None:
    """A process out of the answers to `process_commands`; None: the hash is gone, or is none of a process."""
    fields = {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for name, value in pairs_of(reply).items()
    }
    try:
        info = json.loads(fields.pop("info", ""))
    except ValueError:
        return None
    if not isinstance(info, dict):
        return None
    left_s = None if left_ms is None or left_ms < 0 else left_ms / 1000
    return Process(
        identity=identity, info=info, fields=fields, operator=operator, expires_in_s=left_s
    )


def unknown_classes(
    jobs: Iterable[tuple[str, JobRecord]], processes: Sequence[Process]
) -> Mapping[str, int]:
    """`CLASS in PLACE` → how many of these jobs are of a class that is not declared where they would be performed.

    Args:
        jobs: where each lies (`queue NAME`, `retry`, `schedule`), and what it says.
        processes: those that live. One that does not say what it declares, as Ruby's, may know any class.
    """
    # Processes of one application declare the same in the same words, which are read once.
    declared = {each.fields.get(CLASSES, ""): each for each in processes}
    classes = {words: each.declared for words, each in declared.items()}
    serving: dict[str, set[str]] = {}
    for each in processes:
        for queue in each.queues:
            serving.setdefault(queue, set()).add(each.fields.get(CLASSES, ""))
    found: Counter[str] = Counter()
    for place, job in jobs:
        if not job.job_class:
            continue
        name = performed_class(job.item)
        failed = place == RETRY and job.error_message.startswith(NOT_FOUND)
        takers = [classes[words] for words in serving.get(job.queue, ())]
        is_untaken = bool(takers) and all(
            known is not None and name not in known for known in takers
        )
        if failed or is_untaken:
            found[f"{shown(name)} in {shown(place)}"] += 1
    return found


def _texts(field: str) -> list[str] | None:
    """A JSON list of texts; None: it is none."""
    try:
        texts = json.loads(field)
    except ValueError:
        return None
    return [str(text) for text in texts] if isinstance(texts, list) else None


def _int(value: object) -> int:
    return int(number_in(value))


def _weights(value: Any) -> dict[str, int]:
    given = value if isinstance(value, dict) else {}
    return {str(name): _whole(weight) or 0 for name, weight in given.items()}


def _whole(value: object) -> int | None:
    return value if type(value) is int else None
