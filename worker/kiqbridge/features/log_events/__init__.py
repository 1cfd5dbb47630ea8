"""Subscriptions of CloudWatch Logs: batches of log lines become jobs by a mapping.

For those who act on what is logged. No event but such a batch loads it; the batch may come in a stream of Kinesis.
It must never decompress more than a bound, nor take a control message for a batch.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, events={"logs": "logs"})
