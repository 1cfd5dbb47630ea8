"""Trace headers of messages become attributes of jobs, if they are well formed."""

import json

import pytest
from support.enqueue_function import ENVIRONMENT, messages, read_event

from kiqbridge import PayloadError
from kiqbridge.aws.enqueue import Enqueuer
from kiqbridge.aws.plain import check_plain, trace_attributes
from kiqbridge.aws.push import Pusher
from kiqbridge.config.config import SETTINGS
from kiqbridge.engine.perform.job_logger import JSONFormatter, LineFormatter

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
XRAY = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


@pytest.mark.parametrize("xray", ["", "Root=1 x", "<b>", "Root=1\n", "x" * 257, ["Root=1"]])
def test_the_headers_have_the_names_of_opentelemetry_and_a_malformed_one_of_x_ray_is_left_out(xray):
    well = {"traceparent": PARENT, "tracestate": "a=1,b=2"}
    found = trace_attributes(parent=PARENT, state="a=1,b=2", xray=XRAY)
    assert found == {**well, "X-Amzn-Trace-Id": XRAY}
    assert trace_attributes(parent=PARENT, state="a=1,b=2", xray=xray) == well


@pytest.mark.parametrize(
    "parent",
    [
        *(None, 7, "", PARENT.upper(), PARENT[:-1], f"{PARENT}-", f"{PARENT}\n", f"ff{PARENT[2:]}"),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
    ],
)
def test_a_malformed_parent_is_left_out_with_its_state(parent):
    assert trace_attributes(parent=parent, state="a=1") == {}


@pytest.mark.parametrize("name", ["traceparent", "tracestate", "X-Amzn-Trace-Id"])
def test_a_job_that_names_a_trace_of_its_own_must_do_so_in_its_form(name):
    good = {"traceparent": PARENT, "tracestate": "a=1", "X-Amzn-Trace-Id": XRAY}[name]

    check_plain({name: good})

    for bad in ("\n", 7, None, {"a": 1}):
        with pytest.raises(PayloadError, match=f"^{name}: "):
            check_plain({name: bad})


class Pushed:
    """A client that keeps what it is to push."""

    def __init__(self):
        self.items = []

    def push_once(self, items, _keys, **_options):
        self.items += items
        return []


def pushed(event, **options):
    client = Pushed()
    enqueuer = Enqueuer.from_environment(ENVIRONMENT, None, Pusher(client))
    handled = enqueuer.handle(event, now=1e9, **options)
    assert [each.error for each in handled.results] == [None] * len(handled.results)
    return client.items


def test_a_message_of_a_queue_and_a_notification_in_it_carry_their_trace():
    event = read_event("sqs_records")
    [message] = event["Records"]
    message["attributes"]["AWSTraceHeader"] = XRAY
    message["messageAttributes"] = {"traceparent": {"stringValue": PARENT, "dataType": "String"}}
    message["body"] = json.dumps({"class": "HealthPulse", "args": []})
    [item] = pushed(event)
    assert (item["traceparent"], item["X-Amzn-Trace-Id"]) == (PARENT, XRAY)
    notification = {
        "Type": "Notification",
        "MessageId": "n1",
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:orders",
        "Message": message["body"],
        "MessageAttributes": {"traceparent": {"Type": "String", "Value": PARENT}},
    }
    event = read_event("sqs_records")
    event["Records"][0]["body"] = json.dumps(notification)
    [item] = pushed(event)
    assert item["traceparent"] == PARENT


def test_the_trace_of_the_invocation_is_for_what_has_none():
    job = {"class": "HealthPulse", "args": []}
    own = XRAY.replace("5759", "62ec")
    event = messages(job)
    event["Records"][0]["attributes"]["AWSTraceHeader"] = own
    [without], [direct], [message] = pushed(job), pushed(job, xray=XRAY), pushed(event, xray=XRAY)
    assert without.keys() == {"class", "args"}
    assert direct["X-Amzn-Trace-Id"] == XRAY
    assert message["X-Amzn-Trace-Id"] == own


@pytest.mark.parametrize("formatter", [JSONFormatter(), LineFormatter(colour=False)])
def test_the_lines_of_a_job_show_its_trace_unless_a_setting_says_otherwise(formatter):
    payload = {"class": "A", "jid": "1", "traceparent": PARENT, "X-Amzn-Trace-Id": XRAY}
    context = formatter.job_context(payload, "default")
    assert PARENT in context and XRAY in context
    [setting] = [each for each in SETTINGS if each.name == "logged_job_attributes"]
    assert formatter._attributes == tuple(setting.default)
