"""The search for jobs that are gone although their end was not noted: Ruby performed them, or somebody deleted them.

For schedules, locks and batches, which wait for the ends of jobs. The leader of the workers searches; where no job is
open, that costs one command a minute. It must never end a job that is still somewhere.
"""

from kiqbridge.feature import Chore, Feature

FEATURE = Feature(package=__name__, chores=[Chore("jobs that are gone", 1.0, "search:look_for")])
