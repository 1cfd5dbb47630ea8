"""From an item to a payload and the commands of its push."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import own_declarations
from support.strategies import ARGUMENTS

from kiqbridge.client import prepare as module
from kiqbridge.client.job import job
from kiqbridge.client.middleware import Chain
from kiqbridge.client.prepare import prepare
from kiqbridge.errors import PayloadError
from kiqbridge.store.enqueueing import push_commands, schedule_commands
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys

NOW = 1768208460.25
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.sampled_from(["default", "high", "größte"]),
        "retry": st.one_of(st.booleans(), st.integers(0, 30)),
        "dead": st.booleans(),
        "backtrace": st.integers(1, 9),
        "tags": st.lists(st.text(alphabet="ab", min_size=1), max_size=2),
        "expires_in": st.integers(1, 99),
        "retry_for": st.integers(1, 99),
        "attributes": st.just({"locale": "de", "jid": "of-the-options"}),
    },
)


@pytest.fixture
def long_way(monkeypatch):
    """Prepares as if nothing were plain."""

    def prepared(item, profile="7"):
        with monkeypatch.context() as patch:
            patch.setattr(module, "prepare_plain", lambda *_, **__: None)
            return prepare(item, NOW, Chain(), lambda: profile)

    return prepared


def outcome(call, item, *given):
    """The text of a payload without its drawn id, or the words of the refusal."""
    try:
        made = call(item, *given)
    except PayloadError as refusal:
        return str(refusal)
    payload = dict(made.payload)
    if made.own_jid and payload["jid"] != "of-the-options":
        assert len(payload["jid"]) == 24
        payload["jid"] = ""
    return json_text.dumps(payload), made.at, made.own_jid, made.profile, made.rule, made.name


def short_way(item, profile="7"):
    return prepare(item, NOW, Chain(), lambda: profile)


def test_any_declared_job_has_the_same_payload_on_both_ways(long_way):
    @given(OPTIONS, ARGUMENTS, st.sampled_from(["7", "8"]), st.booleans())
    def each(options, args, profile, class_first):
        with own_declarations():
            declared = job(name="Any", check_arguments=False, **options)(lambda *args: None)
            item = {"class": declared, "args": args}
            if not class_first:
                item = dict(reversed(item.items()))

            assert outcome(short_way, item, profile) == outcome(long_way, item, profile)

    each()


def test_any_name_of_a_class_has_the_same_payload_on_both_ways(long_way):
    @given(st.one_of(st.text(), st.sampled_from(["Any", "Ünïq::Job", 7, None])), ARGUMENTS)
    def each(name, args):
        item = {"class": name, "args": args}

        assert outcome(short_way, item) == outcome(long_way, item)

    each()


@pytest.mark.parametrize(
    "item",
    [
        {"class": "Any", "args": (1, 2)},
        {"class": "Any", "args": [float("nan")]},
        {"class": "Any", "args": ["\ud800"]},
        {"class": "Any", "args": [object]},
        {"class": "", "args": []},
        {"class": "Any", "arguments": []},
        {"args": [], "queue": "default"},
        {},
        [],
        None,
        "ab",
    ],
)
def test_what_is_refused_is_refused_in_the_same_words(long_way, item):
    assert outcome(short_way, item) == outcome(long_way, item)


def test_most_jobs_take_the_short_way(monkeypatch):
    monkeypatch.setattr(module, "validate", lambda *_, **__: pytest.fail("the long way"))
    with own_declarations():
        declared = job(name="Any", queue="high", retry=3)(lambda number, name: None)

        assert short_way({"class": declared, "args": [1, "a"]}).queue == "high"
        assert short_way({"class": "Other", "args": [1.5, None, True]}).queue == "default"


KEYS = Keys("app")


def test_the_queues_are_named_before_anything_is_pushed_to_them():
    assert push_commands(KEYS, {"mail": [b"1", b"2"], "low": [b"3"]}) == [
        ["SADD", "app:queues", "mail", "low"],
        ["LPUSH", "app:queue:mail", b"1", b"2"],
        ["LPUSH", "app:queue:low", b"3"],
    ]
    later = ["1.5", b"1", "2", b"2"]
    assert schedule_commands(KEYS, later) == [["ZADD", "app:schedule", *later]]
    assert push_commands(KEYS, {}) == schedule_commands(KEYS, []) == []
