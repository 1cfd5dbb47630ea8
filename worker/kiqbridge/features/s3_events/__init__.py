"""Changes of objects in S3, and tasks of S3 Batch Operations: jobs by a mapping, one for each change.

For those who process what is uploaded. No event but S3's loads it, also one that comes through a bus, a queue or a topic.
It must never take two changes of a key for one.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, events={"s3": "s3", "s3_batch": "s3_batch"})
