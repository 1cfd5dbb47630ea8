"""The spill queues on the page Sources."""

from kiqbridge.features.spill.source import read_spill


def test_where_no_queue_is_set_it_is_said_plainly(browser, redis):
    text = browser.open("/sources").text

    assert (
        "No spill queue is configured in this process: KIQBRIDGE_SPILL_QUEUE_URL is not set."
        in text
    )


def test_the_depth_of_a_spill_queue_is_asked_of_sqs(monkeypatch):
    url = "https://sqs.eu-west-1.amazonaws.com/123456789012/spill"

    class Sqs:
        def get_queue_attributes(self, QueueUrl, AttributeNames):  # noqa: N803 - SQS' names
            assert QueueUrl == url
            return {"Attributes": dict(zip(AttributeNames, ("5", "2"), strict=True))}

    monkeypatch.setattr("kiqbridge.features.spill.source.sqs_client", lambda _url: Sqs())

    [queue] = read_spill({"KIQBRIDGE_SPILL_QUEUE_URL": url})

    assert (queue.url, queue.waiting, queue.in_flight, queue.fault) == (url, 5, 2, "")


def test_a_spill_queue_that_does_not_answer_says_why(browser, redis, monkeypatch):
    monkeypatch.setenv("KIQBRIDGE_SPILL_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/<spill>")

    def refuse(_url):
        raise OSError("no route to SQS")

    monkeypatch.setattr("kiqbridge.features.spill.source.sqs_client", refuse)

    text = browser.open("/sources").text

    assert "not known no route to SQS" in text
    assert "1/<spill>" in text
