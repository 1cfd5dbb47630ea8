"""Names of all Redis keys, and nowhere else.

The first half is Sidekiq's (protocol §2); keys with `kb:` are ours. A namespace `myapp` gives
redis-namespace's layout (`myapp:queue:default`, §19); a hash-tagged one such as `{myapp}` keeps
every key in one cluster slot.
"""

LAYOUT = "v2"
"""Version of the in-flight layout; part of every incarnation's name, so that two layouts can meet."""


def layout_of(incarnation: str) -> str:
    """The layout version in an incarnation's name."""
    return incarnation.partition(":")[0]


def hash_tag(prefix: str) -> str:
    """The part of all keys with this prefix that decides in which slot of a cluster they lie; empty if there is none."""
    tag, brace, _ = prefix.partition("{")[2].partition("}")
    return tag if brace else ""


class _Key:
    """A key that has one name in a namespace, which is made when it is first asked for.

    Attributes:
        kind: what Redis calls the type of the value under it.
    """

    def __init__(self, kind: str, name: str = "") -> None:
        self.kind = kind
        self._name = name

    def __set_name__(self, owner: type, attribute: str) -> None:
        self._attribute = attribute
        self._name = self._name or attribute

    def __get__(self, keys: "Keys", owner: type) -> str:
        made = keys.__dict__[self._attribute] = f"{keys.prefix}{self._name}"
        return made


class Keys:
    """All key names under one namespace (`""`, `myapp` or `myapp:`)."""

    queues = _Key("set")
    schedule = _Key("zset")
    retry = _Key("zset")
    dead = _Key("zset")
    processes = _Key("set")
    process_cleanup = _Key("string")
    paused = _Key("set")
    cron_jobs = _Key("set")
    pauses = _Key("hash", "kb:paused")
    alerts = _Key("hash", "kb:alerts")
    queue_minutes = _Key("hash", "kb:queues:minutes")
    queue_taken = _Key("hash", "kb:queues:taken")
    gauges = _Key("string", "kb:gauges")
    inflight = _Key("set", "kb:inflight")
    reaping = _Key("set", "kb:reaping")
    alive = _Key("hash", "kb:alive")
    poller = _Key("string", "kb:poller")
    poller_clock = _Key("string", "kb:poller:clock")
    watch_1 = _Key("string", "kb:watch:1")
    watch_2 = _Key("string", "kb:watch:2")
    careful = _Key("set", "kb:careful")
    alone = _Key("hash", "kb:alone")
    isolation = _Key("string", "kb:isolation")
    guards = _Key("hash", "kb:guards")
    guards_until = _Key("zset", "kb:guards:until")
    ledgers = _Key("zset", "kb:ledgers")
    task_reports = _Key("zset", "kb:reports")
    flow_ends = _Key("zset", "kb:flow:ends")
    flow_spans = _Key("hash", "kb:flow:spans")
    flow_spans_until = _Key("zset", "kb:flow:spans:until")
    limiters = _Key("zset", "kb:limiters")
    limiter_terms = _Key("hash", "kb:limiters:terms")
    locks = _Key("hash", "kb:locks")
    locks_look = _Key("zset", "kb:locks:look")
    replaced = _Key("zset", "kb:replaced")
    batches = _Key("zset", "kb:flow:batches")
    cancelled_batches = _Key("zset", "kb:flow:cancelled")
    schedules = _Key("hash", "kb:schedules")
    schedule_states = _Key("hash", "kb:schedules:state")
    schedule_changes = _Key("string", "kb:schedules:changes")
    schedule_requests = _Key("list", "kb:schedules:requests")
    schedules_next = _Key("hash", "kb:schedules:next")
    declared = _Key("hash", "kb:declared")
    cursors = _Key("hash", "kb:cursors")
    manifests = _Key("hash", "kb:manifests")
    missed = _Key("zset", "kb:missed")
    done = _Key("zset", "kb:done")
    done_classes = _Key("zset", "kb:done:classes")
    done_jobs = _Key("hash", "kb:done:jobs")
    dead_trimmed = _Key("zset", "kb:dead:trimmed")
    watched = _Key("string", "kb:watched")
    runs = _Key("hash", "kb:runs")
    web_key = _Key("string", "kb:web:key")
    audit = _Key("zset", "kb:audit")
    audit_entries = _Key("hash", "kb:audit:entries")
    audit_counts = _Key("hash", "kb:audit:counts")
    exporting = _Key("list", "kb:exporting")

    def __init__(self, namespace: str = "") -> None:
        self.prefix = f"{namespace.rstrip(':')}:" if namespace.rstrip(":") else ""

    def __repr__(self) -> str:
        return f"Keys({self.prefix!r})"

    @property
    def nowhere(self) -> str:
        """A key that never exists."""
        return f"{self.prefix}kb:none"

    def queue(self, name: str) -> str:
        """List of job texts, oldest at the tail."""
        return f"{self.prefix}queue:{name}"

    def cleared(self, action: str) -> str:
        """List or sorted set of the jobs that an operator's action has cleared, until each is ended."""
        return f"{self.prefix}kb:cleared:{action}"

    def batch(self, bid: str) -> str:
        """Hash of one batch."""
        return f"{self.prefix}kb:flow:batch:{bid}"

    def batch_members(self, bid: str) -> str:
        """Hash of its members: jid, or `b:` and the id of a child → p, d or f; m, e at another server (features/transfer/state.py)."""
        return f"{self.prefix}kb:flow:batch:{bid}:jobs"

    def chain(self, chain: str) -> str:
        """String, number of the last step of a chain that was begun."""
        return f"{self.prefix}kb:flow:chain:{chain}"

    def process(self, identity: str) -> str:
        """Hash of one process, as Sidekiq's UI reads it (§10.2)."""
        return f"{self.prefix}{identity}"

    def work(self, identity: str) -> str:
        """Hash of running jobs for readers from 6.5 (§10.4)."""
        return f"{self.prefix}{identity}:work"

    def workers(self, identity: str) -> str:
        """Hash of running jobs for readers up to 6.4 (§10.4)."""
        return f"{self.prefix}{identity}:workers"

    def signals(self, identity: str) -> str:
        """List of signal names sent to one process (§10.5)."""
        return f"{self.prefix}{identity}-signals"

    def iteration(self, jid: str) -> str:
        """Hash of an iterable job's progress (§13.1)."""
        return f"{self.prefix}it-{jid}"

    def stat(self, name: str, day: str | None = None) -> str:
        """Counter `processed` or `failed`, in total or of one UTC day `YYYY-MM-DD` (§11)."""
        return f"{self.prefix}stat:{name}:{day}" if day else f"{self.prefix}stat:{name}"

    def result(self, jid: str) -> str:
        """What a job returned, or how it failed, if that is kept (features/results/kept.py)."""
        return f"{self.prefix}kb:result:{jid}"

    def metrics(self, bucket: str) -> str:
        """Hash of counters of all job classes in a minute, or ten (§12.2)."""
        return f"{self.prefix}j|{bucket}"

    def histogram_7(self, class_name: str, minute: str) -> str:
        """Bitfield of how long a class' jobs took in a minute, for readers of version 7 (§12.3)."""
        return f"{self.prefix}{class_name}-{minute}"

    def histogram_8(self, class_name: str, minute: str) -> str:
        """Bitfield of how long a class' jobs took in a minute, for readers from version 8."""
        return f"{self.prefix}h|{class_name}-{minute}"

    def marks(self, day: str) -> str:
        """Hash time → label of the deployments of a UTC day `YYYYMMDD` (§12.5)."""
        return f"{self.prefix}{day}-marks"

    def deploy_lock(self, label: str) -> str:
        """String with a TTL: this label was marked within the last minute; its value is when."""
        return f"{self.prefix}deploylock-{label}"

    def cron_job(self, name: str) -> str:
        """Hash of one schedule of the gem sidekiq-cron; without the prefix a member of `cron_jobs`."""
        return f"{self.prefix}cron_job:{name}"

    def stats_flush(self, identity: str) -> str:
        """String with a TTL: number of the last counts that a process got written."""
        return f"{self.prefix}kb:stats:{identity}"

    def metrics_flush(self, identity: str) -> str:
        """String with a TTL: number of the last metrics that a process got written."""
        return f"{self.prefix}kb:metrics:{identity}"

    def inflight_list(self, incarnation: str, tid: str, sequence: int) -> str:
        """List that holds claim number `sequence` of one claimer until it is acknowledged."""
        return f"{self.prefix}kb:inflight:{incarnation}:{tid}:{sequence % 2}"

    def claims(self, incarnation: str) -> str:
        """Hash claimer → `SEQUENCE QUEUE` of its last claim."""
        return f"{self.prefix}kb:claims:{incarnation}"

    def recovered(self, orphan: str) -> str:
        """String with a TTL: how often a job (its jid or SHA-1) was found orphaned."""
        return f"{self.prefix}kb:recovered:{orphan}"

    def stacks(self, identity: str) -> str:
        """Hash, id of a thread that runs a job → where it is, as its process has written it last."""
        return f"{self.prefix}kb:stacks:{identity}"

    def suspects(self, queue: str) -> str:
        """List of job texts of a queue that each shall run alone, oldest at the tail."""
        return f"{self.prefix}kb:suspects:{queue}"

    def sought(self, name: str) -> str:
        """String, JSON: jobs for which a rule of the doctor looks, and where it goes on (features/gone_jobs/places.py)."""
        return f"{self.prefix}kb:sought:{name}"

    def ticks(self, schedule: str) -> str:
        """Zset, the ledger of one schedule: score = instant (epoch seconds), member = what ran."""
        return f"{self.prefix}kb:ticks:{schedule}"

    def attempts(self, schedule: str) -> str:
        """Hash of one schedule: instant → how often it was delivered; no field = once."""
        return f"{self.prefix}kb:attempts:{schedule}"

    def ends(self, schedule: str) -> str:
        """Zset of one schedule: score = instant, member = how a job of it ended (tick_mark.py)."""
        return f"{self.prefix}kb:ends:{schedule}"

    def ledger(self, schedule: str) -> tuple[str, str, str]:
        """The keys of one schedule's ledger: `ticks`, `attempts` and `ends`."""
        return self.ticks(schedule), self.attempts(schedule), self.ends(schedule)

    def placed(self, schedule: str) -> str:
        """Zset of a dynamic schedule: score = instant, member = job text that was placed in `schedule`."""
        return f"{self.prefix}kb:placed:{schedule}"

    def limit(self, kind: str, name: str) -> str:
        """State of one limiter: `concurrent` a hash, `window` a list, others a string (features/limiters/store.py)."""
        return f"{self.prefix}kb:limit:{kind}:{name}"

    def limit_waits(self, kind: str, name: str) -> str:
        """Sorted set: who waits for a limiter, until when that is believed (features/limiters/known.py)."""
        return f"{self.prefix}kb:waits:{kind}:{name}"

    def limit_looked(self, key: str) -> str:
        """String with a TTL: when the locks under this key, many of them, were looked at last."""
        return f"{self.prefix}kb:limit:looked:{key.removeprefix(self.limit('concurrent', ''))}"

    def wake(self, queues: str) -> tuple[str, str, str]:
        """The wake list, the listener's sign and the standby's sign of a set of queues (engine/perform/listening.py)."""
        name = f"{self.prefix}kb:wake:{queues}"
        return name, f"{name}:listener", f"{name}:standby"

    def restored(self, export: str) -> str:
        """Hash with a TTL: how far an export was put in, place → `COUNT SHA256`."""
        return f"{self.prefix}kb:restored:{export}"


TYPES = {name: each.kind for name, each in vars(Keys).items() if isinstance(each, _Key)}
"""Attribute of `Keys` → what Redis calls the type of the value under that key."""
