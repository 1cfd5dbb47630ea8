"""What the monitor function reads of its environment besides the way to Redis."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from kiqbridge.clocks.hooks import MissedTickHooks, hooks_of
from kiqbridge.config.config import MISSED_TICK_SNS_TOPIC_ARN, MISSED_TICK_WEBHOOK
from kiqbridge.config.function_settings import MONITOR_QUEUES
from kiqbridge.config.redis_access import aws_variables
from kiqbridge.config.setting import read

PAUSES_S = (1.0,)
"""Between attempts to notify: an invocation waits for them, and ends within a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """The settings of the monitor function.

    Attributes:
        queues: of the fleet that is scaled; empty = all.
        webhook, sns_topic_arn: who is notified of ticks that did not come; "" = nobody.
        aws: the variables of the environment that are AWS's.
    """

    queues: frozenset[str]
    webhook: str = field(repr=False)
    sns_topic_arn: str
    aws: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read them.

        Raises:
            ConfigError: a wrong value; names the variable.
        """
        return cls(
            queues=frozenset(read(MONITOR_QUEUES, environ)),
            webhook=read(MISSED_TICK_WEBHOOK, environ),
            sns_topic_arn=read(MISSED_TICK_SNS_TOPIC_ARN, environ),
            aws=aws_variables(environ),
        )

    def hooks(self, by: str) -> MissedTickHooks:
        """Who is notified; `by` says who does it."""
        return hooks_of(
            webhook=self.webhook,
            sns_topic_arn=self.sns_topic_arn,
            aws=self.aws,
            by=by,
            pauses_s=PAUSES_S,
        )
