"""All that the end of a job may mean, in the order in which it comes about."""

from typing import Final

from kiqbridge.outbox.batch_effects import begin_next, count_end
from kiqbridge.outbox.effects import EffectMaker, keep_result, pass_report, unlock

MAKERS: Final[tuple[EffectMaker, ...]] = (pass_report, keep_result, unlock, begin_next, count_end)
