"""A worker with the setting `alerts` notifies while it leads."""

import json

import pytest
from support.http_endpoint import webhook
from support.waiting import wait_until

pytestmark = pytest.mark.slow

JOBS = """
from kiqbridge import job

@job(name="Report")
def report(): ...
"""


def test_a_worker_alerts_when_something_begins_and_when_it_is_over(start, redis):
    with webhook() as (address, received):
        alerts = {"rules": {"retries": {"over": 1, "for": 0}}, "to": [{"webhook": address}]}
        redis.zadd("retry", {"{}": 9e9, "{ }": 9e9})

        worker = start("-q", "default", KIQBRIDGE_ALERTS=json.dumps(alerts))
        wait_until(lambda: [each["event"] for each in received] == ["alert_begun"])
        redis.delete("retry")
        wait_until(lambda: len(received) == 2)

        assert received[1]["event"] == "alert_ended"
        wait_until(lambda: redis.hkeys("kb:alerts") == [b"rules"])
        assert worker.stop() == 0
        assert "alert retries: 2 jobs failed and wait for their retry." in worker.output
        assert "s3cret" not in worker.output
