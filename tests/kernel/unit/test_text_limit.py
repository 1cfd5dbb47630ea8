"""A text that is too large is refused before it is parsed, alone in its batch."""

import json

import pytest
from support.enqueue_function import ENVIRONMENT, read_event

from kiqbridge import EventError
from kiqbridge.aws.enqueue import Enqueuer
from kiqbridge.aws.push import Pusher
from kiqbridge.aws.sources import reading
from kiqbridge.aws.sources.reading import check_size, texts_limited

JOB = json.dumps({"class": "HealthPulse", "args": []})


class Accepting:
    def push_once(self, items, _keys, **_options):
        self.pushed = list(items)
        return []


def test_the_limit_is_inclusive_and_ends_with_its_block_and_without_one_all_is_read():
    with texts_limited(3):
        check_size("123")
        with pytest.raises(
            EventError, match=r"^text: 4 bytes are more than the 3 of KIQBRIDGE_MAX"
        ):
            check_size("1234")
    assert reading.parsed(f'"{"x" * 10_000}"') == "x" * 10_000


def test_only_the_message_that_is_too_large_is_refused():
    event = read_event("sqs_records")
    [message] = event["Records"]
    event["Records"] = [
        message | {"messageId": name, "body": body}
        for name, body in (("a", JOB), ("b", JOB + " " * 1_000), ("c", JOB))
    ]
    environ = {**ENVIRONMENT, "KIQBRIDGE_MAX_EVENT_BYTES": "500"}
    client = Accepting()

    handled = Enqueuer.from_environment(environ, None, Pusher(client)).handle(event, now=1e9)

    assert handled.answer == {"batchItemFailures": [{"itemIdentifier": "b"}]}
    assert len(client.pushed) == 2
    [error] = [each.error for each in handled.results if each.error]
    assert "1036 bytes are more than the 500" in str(error)
