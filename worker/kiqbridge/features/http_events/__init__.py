"""Requests of API Gateway, Function URLs and load balancers: the body is a job, or is mapped.

For those whose callers speak HTTP. No event but such a request loads it. It must never let an unverified caller
enqueue, or leave a request without an answer.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, events={"http": "http"})
