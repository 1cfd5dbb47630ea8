"""Streams of DynamoDB and Kinesis: each record is a job or is mapped, in the order of its shard.

For those with an outbox in a table, or a stream of events. No other event loads it. It must never enqueue a record behind one
that failed: Lambda delivers all of them again.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, events={"streams": "streams"})
