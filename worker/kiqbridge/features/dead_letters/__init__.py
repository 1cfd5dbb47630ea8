"""The dead set within its bounds: what is beyond them is archived, in a folder or in S3, logged and dropped.

For those who must not lose a dead job, and whose Redis must not fill up with them; the leader of the fleet looks every
ten seconds, by one command. It must never remove a job that is not as it was read, or not safely archived.
"""

from kiqbridge.feature import Chore, Feature

FEATURE = Feature(package=__name__, chores=[Chore("dead set", 10.0, "trim:trimming")])
