"""The two that run side by side on the same queue: our worker and Ruby's Sidekiq."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from benchmarks.outcome import OURS, RUBY
from benchmarks.stage import WORKER_CORE, Stage, on_core
from support.processes import ChildProcess
from support.ruby import RubySidekiq


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The same work for both sides.

    Attributes:
        python: source of the job's module, at all events a job named NoOpJob or the like.
        ruby: source that does the same; empty when Ruby has no such thing.
        flags: more flags of `kiqbridge worker`.
        env: more settings of ours.
        url: another way to the server than the straight one.
    """

    python: str
    ruby: str = ""
    threads: int = 10
    queues: tuple[str, ...] = ("default",)
    level: str = "warn"
    flags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""


NOOP = Work(
    python="""
from kiqbridge import job

@job(name="NoOpJob")
def no_op(number):
    pass
""",
    ruby="""
class NoOpJob
  include Sidekiq::Worker
  def perform(number); end
end
""",
)
# Debian's redis-rb is newer than its Sidekiq and writes a warning at each BRPOP and each push, which
# would slow Ruby down and count for us. Sidekiq 7 does without redis-rb.
QUIET_RUBY = "Redis.silence_deprecations = true if defined?(Redis)\n"
RUBY_LEVEL = "Sidekiq.configure_server { |config| config.logger.level = Logger::%s }\n"

Start = Callable[[Stage, Work], ChildProcess]


def ours(stage: Stage, work: Work) -> ChildProcess:
    """The command as a user types it; tests have their workers forked, by a process that has loaded all."""
    path = stage.folder / "benched_jobs.py"
    path.write_text(work.python)
    queues = [part for queue in work.queues for part in ("-q", queue)]
    return ChildProcess(
        [stage.command, "worker", "-r", str(path), "-c", str(work.threads), *queues, *work.flags],
        env={
            "REDIS_URL": work.url or stage.server.url,
            "KIQBRIDGE_LOG_LEVEL": work.level,
            "KIQBRIDGE_RUN_DIR": str(stage.folder),
            **work.env,
        },
        is_forked=False,
    )


def rubys(stage: Stage, work: Work, *, name: str = RUBY) -> RubySidekiq:
    return RubySidekiq(
        QUIET_RUBY + RUBY_LEVEL % work.level.upper() + work.ruby,
        work.url or stage.server.url,
        concurrency=work.threads,
        queues=work.queues,
        ruby=stage.rubies[name],
    )


def sides(stage: Stage) -> dict[str, Start]:
    """Us, and this system's Sidekiq if it is there."""
    return {name: start for name, start in all_sides(stage).items() if name in (OURS, RUBY)}


def all_sides(stage: Stage) -> dict[str, Start]:
    """Us, and each Sidekiq that is there."""
    return {OURS: ours, **{name: partial(rubys, name=name) for name in stage.rubies}}


def by_side(
    stage: Stage,
    measure: Callable[[str, Start], float],
    rounds: int | None = None,
    *,
    of: Callable[[Stage], dict[str, Start]] = sides,
) -> dict[str, list[float]]:
    """What `measure` of each side's name and start gives, in turn."""
    return stage.rounds(
        {name: partial(measure, name, start) for name, start in of(stage).items()}, rounds
    )


@contextmanager
def running(
    start: Start, stage: Stage, work: Work, core: int | None = WORKER_CORE
) -> Iterator[ChildProcess]:
    """The worker on its core, ready; killed at the end, for nothing of it is needed any more."""
    with on_core(core):
        worker = start(stage, work)
    with worker:
        stage.wait_listed(worker)
        yield worker


def without_ruby(stage: Stage) -> str:
    """What a note says when there is nothing to compare with."""
    return "" if stage.with_ruby else "Ruby Sidekiq is not installed: apt install ruby-sidekiq"


def joined(*parts: str) -> str:
    """Of a note."""
    return "; ".join(filter(None, parts))
