"""Setting `enqueued_at` in a job's bytes: what is pushed is what a push would have written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.client.client import Client
from kiqbridge.client.prepare import prepare_moved
from kiqbridge.engine.poller import stamp_moved
from kiqbridge.wire import json_text
from kiqbridge.wire.stamping import stamp

NOW = 1_700_000_000.5
CLIENT = Client("redis://127.0.0.1:1", namespace="", profile="7")
COMPLETE = {
    "retry": True,
    "queue": "default",
    "class": "Nop",
    "args": [1],
    "jid": "a" * 24,
    "created_at": 1.5,
}


def text_of(**changes):
    return json_text.dumps({**COMPLETE, **changes})


def stamped(member):
    return stamp([member], b"1700000000.5")[0]


def pairs(text):
    return json.loads(text, object_pairs_hook=list)


def by_name(text):
    return sorted((name, repr(value)) for name, value in pairs(text))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("enqueued_at"), inner),
    max_leaves=8,
)
PAYLOADS = st.fixed_dictionaries(
    {
        "retry": VALUES,
        "queue": st.text(min_size=1) | VALUES,
        "class": st.text(min_size=1) | VALUES,
        "args": st.lists(VALUES),
        "jid": st.text(min_size=1),
        "created_at": VALUES,
    },
    optional={
        "enqueued_at": st.floats(allow_nan=False, allow_infinity=False) | VALUES,
        "at": VALUES,
        "tags": VALUES,
        "retry_for": VALUES,
        "x": VALUES | st.just('"enqueued_at":1'),
    },
)
WRITERS = st.sampled_from(
    [
        json.dumps,
        lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
        lambda value: json.dumps(value, indent=1),
    ]
)


@given(PAYLOADS, WRITERS)
def test_it_says_what_a_push_would_have_written_or_nothing(payload, write):
    member = write(payload).encode("utf-8", "surrogatepass")

    answer = stamped(member)

    if answer is None:
        return
    queue, text = answer
    expected_queue, expected = prepare_moved(
        json_text.loads(member), NOW, CLIENT.middleware, CLIENT.wire_profile, member
    )
    assert queue == expected_queue
    # A push puts `retry` and `queue` first; these bytes keep their order.
    assert by_name(text) == by_name(expected)
    names = [name for name, _ in pairs(member)]
    assert [name for name, _ in pairs(text)] == list(dict.fromkeys([*names, "enqueued_at"]))


@pytest.mark.parametrize(
    "member",
    [
        text_of(),
        text_of(tags=[], x={"enqueued_at": [1]}, args=[]),
        text_of(enqueued_at=1.25),
        text_of(enqueued_at=1_699_999_999_123, error_message="[x] \\ \n"),
        text_of(args=['"enqueued_at":7']),
        text_of()[:-1] + b',"n":18446744073709551616}',
    ],
)
def test_it_knows_what_is_complete(member):
    queue, text = stamped(member)

    assert queue == "default"
    assert pairs(text) == pairs(
        prepare_moved(json_text.loads(member), NOW, CLIENT.middleware, CLIENT.wire_profile, member)[
            1
        ]
    )


@pytest.mark.parametrize(
    "member",
    [
        b"",
        b"{no json",
        b"[1]",
        b'"class args queue jid retry created_at"',
        b"5",
        b"NaN",
        text_of() + b"\n",
        text_of(at=5),
        text_of(retry_for=60.5),
        text_of(tags="one"),
        text_of(tags=None),
        text_of(queue=""),
        text_of(queue="\0"),
        text_of(queue="low\0"),
        text_of(queue=5),
        text_of(**{"class": ""}),
        text_of(jid=""),
        text_of(jid=None),
        text_of(args={}),
        text_of(enqueued_at="1.5"),
        text_of(enqueued_at=None),
        text_of(enqueued_at=1.5, args=[{"enqueued_at": 2}]),
        text_of(enqueued_at=1.5, args=["enqueued_at"]),
        text_of(enqueued_at=1.5).replace(b'":1.5', b'" : 1.5'),
        text_of(args=[{"enqueued_at": 2}])[:-1] + b',"enqueued\\u005fat":1.5}',
        text_of(enqueued_at=1.5)[:-1] + b',"enqueued_at":2.5}',
        text_of(args=[1])[:-1] + b',"n":1e400}',
        text_of(args=json.loads("[" * 101 + "]" * 101)),
        *(
            json_text.dumps({name: value for name, value in COMPLETE.items() if name != missing})
            for missing in COMPLETE
        ),
    ],
)
def test_it_leaves_everything_else_to_the_push(member):
    assert stamped(member) is None


@pytest.mark.parametrize(("profile", "at"), [("7", NOW), ("8", 1_700_000_000_500)])
def test_the_profile_decides_about_the_form_and_with_middleware_each_is_pushed(profile, at):
    client = Client("redis://127.0.0.1:1", namespace="", profile=profile)
    assert stamp_moved(client, [text_of()], NOW) == [("default", text_of(enqueued_at=at))]
    client.middleware.add(lambda _class, _payload, _queue, call_next: call_next())
    assert stamp_moved(client, [text_of()] * 2, NOW) == [None, None]
