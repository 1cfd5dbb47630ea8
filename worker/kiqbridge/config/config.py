"""What a worker runs with: the values of its settings, and where each came from. Frozen once made."""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from kiqbridge.config.redis_access import RedisAccess
from kiqbridge.records import dataclass
from kiqbridge.wire.dead_bounds import DeadBounds
from kiqbridge.wire.payload import ProfileSetting

if TYPE_CHECKING:
    from kiqbridge.config.fleets import Fleets

ForeignJobs = Literal["refuse", "run", "requeue"]
"""What to do with a job that uses a feature of Sidekiq Pro or Enterprise which we cannot honour."""

ROUTE = "route:"
"""Begins a value of the setting `unknown_class` that names a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsuleSettings:
    """A capsule beside the default one.

    Attributes:
        async_concurrency: None = as the default one has it.
    """

    name: str
    queues: tuple[tuple[str, int], ...]
    concurrency: int
    async_concurrency: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a worker runs with; times in seconds."""

    queues: tuple[tuple[str, int], ...]
    concurrency: int
    async_concurrency: int
    capsules: tuple[CapsuleSettings, ...]
    processes: int | Literal["auto"]
    max_memory_mb: int
    pool_size: int | Literal["auto"]
    pool_max_jobs: int
    timeout_s: float
    require: tuple[str, ...]
    environment: str
    tag: str
    app: str
    labels: tuple[str, ...]
    log_level: str
    log_format: str
    logged_job_attributes: tuple[str, ...]
    skip_default_job_logging: bool
    redact: tuple[str, ...]
    redis_url: str = field(repr=False)
    redis_secret_arn: str = ""
    redis_ssm_parameter: str = ""
    redis_iam_user: str = ""
    redis_iam_cache: str = ""
    namespace: str
    fleets: "Fleets | None" = None
    fleet: str = ""
    profile: ProfileSetting
    fetch: str
    look_ahead: int
    recover_after_s: float
    orphan_limit: int
    settle_replicas: int
    start_period_s: float
    stuck_after_s: float
    end_stuck_after_s: float
    loop_blocked_s: float
    beat_s: float
    metrics: str
    prometheus_port: int
    prometheus_host: str
    statsd: str
    opentelemetry: bool
    run_dir: str
    shell_commands: tuple[str, ...]
    shell_environment: tuple[str, ...]
    shell_time_limit_s: float
    ecs_protect_after_s: float
    task_heartbeat_s: float
    schedule_horizon_s: float
    missed_tick_webhook: str = field(repr=False)
    missed_tick_sns_topic_arn: str
    foreign_jobs: ForeignJobs
    unknown_class: str
    max_iteration_runtime_s: float | None
    max_retries: int
    dead_max_jobs: int
    dead_timeout_s: int
    dead_overflow: str
    dead_archive: str
    max_payload_bytes: int
    sources: Mapping[str, str] = field(repr=False)
    aws: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of the environment that are AWS's: region, endpoints, keys."""

    @property
    def dead_bounds(self) -> DeadBounds:
        """Those of the dead set."""
        return DeadBounds(self.dead_max_jobs, self.dead_timeout_s, self.dead_overflow == "keep")

    @property
    def reports_numbers(self) -> bool:
        """Whether a system outside of Redis gets the numbers of the process."""
        return bool(self.prometheus_port or self.statsd or self.opentelemetry)

    @property
    def redis(self) -> RedisAccess:
        """Where Redis is, and what a connection logs in with.

        Raises:
            ConfigError: settings exclude each other.
        """
        return RedisAccess(
            url=self.redis_url,
            url_is_default=self.sources.get("redis_url") == "default",
            secret_arn=self.redis_secret_arn,
            ssm_parameter=self.redis_ssm_parameter,
            iam_user=self.redis_iam_user,
            iam_cache=self.redis_iam_cache,
            aws=self.aws,
            namespace=self.namespace,
        )


def routed_queue(unknown_class: str) -> str | None:
    """The queue to which the setting `unknown_class` routes, None when such jobs are retried."""
    return unknown_class.removeprefix(ROUTE) if unknown_class.startswith(ROUTE) else None
