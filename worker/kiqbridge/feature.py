"""The seams between the kernel and the features: what a feature may bring, and where the kernel asks for it.

A feature is a folder `features/NAME/` whose `__init__.py` has a `FEATURE`. The kernel imports none of them: it walks
all of them, and calls what a seam names, `module:function` within the folder. A feature that is taken away is not
missed: its verbs, options and pages are not there. One of yours is declared in the same way, and found by the entry
point group `kiqbridge.features` of its distribution: once a job has an option of it, in that process. It has the seams
of `FOR_OTHERS`. Where it fails, that is logged, and nothing else changes.

| seam | asked | signature |
|---|---|---|
| `verbs` | by the command line, each for its own command | `add_arguments(parser)` and `run(options) -> int` of a module |
| `options` | once for each declared job that has the option | `function(definition: JobDefinition, value) -> JobDefinition` |
| `wired` | at a declaration, or a push, with an option that has another form in the payload | `function(options: Mapping) -> dict`: as they go on the wire; raises `PayloadError` |
| `gates` | before a job begins whose payload has this attribute | `function(payload, now) -> Refusal`, or None: it may run |
| `barrier` | once in each worker; read when the beat of its lease says that something has changed | `function(keys: Keys) -> Barrier`, of engine/settle/ending.py |
| `begins` | before a job begins that has this member of `flow`, by whose name there is a part `scripts/parts/begin_NAME.lua` (store/begin.py) | `function(keys: Keys, payload) -> Ask`, of store/begin.py, or None |
| `puts_off` | when a job ends with this error, `module:Class`, or one derived from it | `function(payload, error) -> PutOff`, or None: it has failed |
| `seals` | for jobs whose definition, or payload, says that arguments are encrypted | a module: `kiqbridge.client.sealing.Sealing` |
| `ends` | at the end of each job that has the attribute | `function(ended: EndedJob) -> Sequence[Effect]` |
| `values` | for each job that has this member of `flow` | `function(flow: Mapping) -> bool`: whether what it returns is kept with its end |
| `consequences` | when the end of a job with `flow` is applied (engine/outbox) | `function(end: FlowEnd, client: Client) -> Sequence[Effect]`, of jobs prepared by it; may raise: it is tried again |
| `effects` | when the end of a job with `flow` is applied, by the names of its consequences | a part `scripts/parts/effect_NAME.lua`, see store/scripts/parts/effects.lua |
| `open_jobs` | each hour, by the search for jobs whose end was not noted | a module: `kiqbridge.features.gone_jobs.search.OpenJobs` |
| `addresses` | for an address of Redis whose scheme ends with `+` and this name | `function(url: str, namespace: str, options: Mapping) -> Factory`, of store/redis_address.py; raises `ValueError` |
| `calls` | by what the kernel calls so, such as a public method | `function(…)`: see there |
| `host` | once in each `kiqbridge worker`, before anything else | `function(environ, pid: int) -> Notifier | None` |
| `prepare` | once in each worker, before it loads the jobs | `function(config: Config) -> None`; raises `ConfigError` |
| `jobs` | once in each worker, when its code is loaded | `function(config: Config) -> None`, which declares jobs |
| `pools` | once in each worker, for the kinds of `pool` where jobs may be declared to run | `function(parts: EngineParts) -> JobPool` |
| `in_child` | in a child process, for an order of the feature | `function(child: JobChild, order, text: bytes) -> tuple[answer, bytes]` |
| `worker` | once in each worker, when its capsules are made and before its first job | `function(parts: EngineParts) -> Iterable[Role]` |
| `chores` | once by the leader of the fleet, by each worker, or by each invocation of a function | `function(host: kiqbridge.client.host.Host) -> Callable[[RedisConnection], object]` of a `Chore` |
| `missed` | once in a worker, with the first tick that did not come | `function(parts: EngineParts) -> Iterable[Hooks]`, of engine/missed_watch.py |
| `now` | each time the page Now is read, a second apart | `function(operator: Operator) -> tuple[str, object]`: a template, and what it shows as `part` |
| `busy` | each time the page Busy is read | `function(operator: Operator, jids: Iterable[str]) -> tuple[str, Mapping[str, object]]`: a template with the macros `shown` and `action`, and by jid what they get |
| `history` | when somebody looks at the life of a job | `function(operator: Operator, known: Known) -> Part`, of api/life.py, or None |
| `pages` | once, when the web page is made | `function() -> Iterable[BaseRoute]`; templates are looked for in the folder |
| `mapper` | once in each enqueue function | `function(environ, folder: Path) -> Mapped`, or None: it has no mappings; raises `ConfigError` |
| `pusher` | once in an enqueue function that has a setting of the feature | `function(pusher: Pusher, environ) -> Pushing` |
| `events` | by the first event of a family, of `FEATURES` in aws/sources | a module: `read(event) -> Delivery`; what other sources call of it, see there |
| `examines` | by the doctor | a module: `RULES`, each a `kiqbridge.api.verdict.Rule`, and `examine(operator: Operator) -> Iterable[Fact]` of them |
| `source` | when the page Sources is read, at most each 30 s | `function(environ) -> tuple[str, object]`: as `now` |
| `schedules` | for a list of schedules | `function(operator: Operator, now: float, upcoming: int) -> Iterable[ScheduleView]`: those that other programs keep in this Redis |

What guards a push is no seam: an option's value is a `kiqbridge.wire.rules.Rule`, which names its part of the script.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final, NamedTuple

from kiqbridge.runtime.records import dataclass

FOR_OTHERS: Final = ("options", "gates", "puts_off", "worker", "chores")
"""The seams that a feature of others may name."""


class Verb(NamedTuple):
    """A command of the command line.

    Attributes:
        name: the word for it.
        help: for the list of all commands.
        module: has `add_arguments(parser)`, which gets the name as well if several commands share the module, and
            `run(options)` unless its verbs have functions of their own; of a feature its name within the folder. The
            first line and paragraph of its docstring, or of such a function's, describe the command.
        group: the heading in that list under which a feature's command stands.
        has_fleet: whether --fleet chooses where it looks, or what it serves.
        parent: the command of which a feature's command is a verb, such as schedule; "": of none.
    """

    name: str
    help: str
    module: str = ""
    group: str = ""
    has_fleet: bool = True
    parent: str = ""


class Tab(NamedTuple):
    """A page in the navigation of the web page.

    Attributes:
        path: its address.
        label: its name there.
        group: `Jobs`, `Flow`, `Fleet` or `Insight`; empty: that of the page behind which it stands.
        after: the path of that page; empty: it stands last in its group.
        key: the letter that opens it after `g`; empty: none.
    """

    path: str
    label: str
    group: str = ""
    after: str = ""
    key: str = ""


class Chore(NamedTuple):
    """What one process of a fleet does again and again, on the connection to Redis that it is given.

    It changes Redis only by scripts that compare or claim: two processes may do it at once. After an error it is called
    again.

    Attributes:
        name: as in the log.
        every_s: seconds from one call to the next; a function is invoked each minute.
        place: what makes it; see the table above.
        where: who does it: the `leader` of the workers, each `worker`, or a function: `tick`, or `monitor`, while no
            worker lives.
    """

    name: str
    every_s: float
    place: str
    where: Sequence[str] = ("leader",)


ATTRIBUTES: Final[Mapping[str, str]] = {
    "kb_encrypted": "encryption",
    "class.ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper": "active_job",
    "class.Sidekiq::ActiveJob::Wrapper": "active_job",
    "task_token": "step_functions",
    "flow.bid": "batches",
    "flow.launch": "batches",
    "flow.lock": "unique",
    "flow.next": "batches",
    "flow.result_ttl_s": "results",
}
"""Attribute of a payload, or member or value of one → the feature of this package without which such a job cannot be what it was
pushed for."""

WIRED: Final[Mapping[str, str]] = {"result_ttl": "results"}
"""Option of a job that goes on the wire in another form → the feature of this package that gives it that form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What one feature brings; see the table above.

    Attributes:
        package: the dotted name of its folder: `__name__` of its `__init__.py`.
        settings: names of settings without which a worker asks for none of its `prepare`, `jobs`, `worker` and
            `chores`; always, if there are none.
        tabs: what of its pages is in the navigation.
        verbs, options, and so on: the seams.
    """

    package: str
    settings: Sequence[str] = ()
    verbs: Sequence[Verb] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    wired: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, str] = field(default_factory=dict)
    barrier: str = ""
    begins: Mapping[str, str] = field(default_factory=dict)
    puts_off: Mapping[str, str] = field(default_factory=dict)
    seals: str = ""
    ends: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    consequences: str = ""
    effects: Sequence[str] = ()
    open_jobs: str = ""
    examines: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    calls: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    prepare: str = ""
    jobs: str = ""
    pools: Mapping[str, str] = field(default_factory=dict)
    in_child: str = ""
    worker: str = ""
    chores: Sequence[Chore] = ()
    missed: str = ""
    now: str = ""
    busy: str = ""
    history: str = ""
    pages: str = ""
    tabs: Sequence[Tab] = ()
    mapper: str = ""
    pusher: str = ""
    events: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    schedules: str = ""

    @property
    def name(self) -> str:
        """Of its folder."""
        return self.package.rpartition(".")[2]

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return Path(sys.modules[self.package].__file__ or "").parent

    def load(self, place: str) -> Any:
        """What a seam names by `module:function`, or a whole module, of the feature's folder; `:function` of its `__init__`."""
        from importlib import import_module  # noqa: PLC0415 - most processes load no feature

        module, _, name = place.partition(":")
        found = import_module(f"{self.package}.{module}" if module else self.package)
        return getattr(found, name) if name else found

    def is_wanted(self, config: object) -> bool:
        """Whether a worker with these settings asks for its `prepare`, `jobs`, `worker` and `chores`."""
        return not self.settings or any(getattr(config, name) for name in self.settings)
