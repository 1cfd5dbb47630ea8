"""A warning at the start of a worker whose queues Ruby processes serve as well: each fails the other's jobs.

For those who share a Redis with Ruby. It reads the processes of the fleet once, and costs nothing after
that. It must never keep a worker from its start.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, worker="warning:look")
