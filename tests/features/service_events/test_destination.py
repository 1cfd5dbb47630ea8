"""Lambda destinations: what an asynchronous function returned may be a job."""

import json

import pytest
from support.enqueue_function import read_event
from support.sources import records_of

from kiqbridge import EventError

FAILED = """
mappings:
  - match: {condition: "Retries*", function: "*:function:charge:*"}
    class: HealthPulse
    args: [requestPayload.orderId, responsePayload.errorMessage]
"""


def test_another_request_or_another_end_of_it_is_another_event(mapped, redis):
    invoke = mapped("mappings: [{match: {source: destination}, class: HealthPulse, args: []}]")
    event, failed = read_event("destination_success"), read_event("destination_failure")
    other = event | {"requestContext": event["requestContext"] | {"requestId": "other"}}

    for each in (event, failed, other, event, failed, other):
        invoke(each)

    assert redis.llen("queue:default") == 3


def test_a_failed_request_is_nobodys_job_even_if_it_was_one(invoke, redis):
    job = {"class": "HealthPulse", "args": []}
    event = read_event("destination_failure", requestPayload=job, responsePayload=job)

    with pytest.raises(EventError, match="responsePayload: an event of destination holds no job"):
        invoke(event)

    assert redis.dbsize() == 0


def test_a_failed_request_is_mapped(mapped, redis):
    assert mapped(FAILED)(read_event("destination_failure"))["enqueued"]

    assert json.loads(redis.lindex("queue:default", 0))["args"] == [17, "no funds"]


def test_on_a_bus_the_envelope_is_what_a_mapping_sees():
    [record] = records_of(read_event("bus_destination"))

    assert (record.source, record.origin) == ("bus", "lambda")
    assert record.event["detail"]["requestPayload"] == {"orderId": 17}
    assert record.where == "detail.responsePayload"


@pytest.mark.parametrize("name", ["functionArn", "requestId", "condition"])
def test_a_result_that_lacks_something_is_refused(invoke, redis, name):
    event = read_event("destination_success")
    del event["requestContext"][name]

    with pytest.raises(EventError, match=rf"^requestContext\.{name}: None is not a text"):
        invoke(event)

    assert redis.dbsize() == 0


def test_on_a_bus_a_result_that_lacks_something_is_refused(invoke):
    event = read_event("bus_destination")
    del event["detail"]["requestContext"]

    with pytest.raises(EventError, match=r"^detail\..*requestContext: None is not an object"):
        invoke(event)
