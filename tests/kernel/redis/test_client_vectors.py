"""Our client writes what Sidekiq's writes: the recorded commands and keys, byte for byte.

Only jids, the times of the moment and the scores that derive from them are masked (support/vectors.py,
where also stands what is not asserted, and why); the order of keys, the escapes and the commands
themselves are compared as text.
"""

import datetime as dt
import time

import pytest
from support.jobs import own_declarations
from support.proxy import InterceptingRedis
from support.vectors import (
    FILES,
    Moment,
    comparable,
    number,
    of_kind,
    profile_of,
    recorded_state,
    state_of,
    tokens,
)

from kiqbridge import Job, configure, job
from kiqbridge.errors import PayloadError
from kiqbridge.wire.json_text import loads
from kiqbridge.wire.options import with_attributes
from kiqbridge.wire.payload import DEFAULT_OPTIONS, normalize, read_timestamp, validate

T0 = 1_900_000_000
GIVEN_JID = "0123456789abcdef01234567"
AJ_WRAPPER = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"

# The order of the recording; a declaration gives attributes of its own under that name.
BIG_OPTS = {
    "retry": 7,
    "queue": "opts",
    "backtrace": 20,
    "dead": False,
    "tags": ["a", "b"],
    "attributes": {"custom": {"x": 1}},
    "log_level": "debug",
}


class Functions:
    """The job classes of the recording, declared with the decorator."""

    def __init__(self):
        def perform(*args):
            return args

        self.echo = job(name="EchoJob")(perform)
        self.nested = job(name="Deep::NestedJob")(perform)
        self.big = job(name="BigOpts", **BIG_OPTS)(perform)
        self.no_retry = job(name="NoRetryJob", retry=False)(perform)
        self.zero_retry = job(name="ZeroRetryJob", retry=0)(perform)
        self.retry_for = job(name="RfJob", retry_for=3600)(perform)


class Classes:
    """The same, declared as classes."""

    def __init__(self):
        class EchoJob(Job):
            def perform(self, *args):
                return args

        class NestedJob(EchoJob):
            class_name = "Deep::NestedJob"

        class BigOpts(EchoJob):
            sidekiq_options = with_attributes(BIG_OPTS)

        class NoRetryJob(EchoJob):
            retry = False

        class ZeroRetryJob(EchoJob):
            retry = 0

        class RfJob(EchoJob):
            retry_for = 3600

        self.echo, self.nested, self.big = EchoJob, NestedJob, BigOpts
        self.no_retry, self.zero_retry, self.retry_for = NoRetryJob, ZeroRetryJob, RfJob


FLOATS = [
    1.0, 0.1, -0.0, 100.0, 1e14, 1e15, 1e16, 1e20, 1e21, 1e100, 0.0001, 0.00001, 1.5e-7, 5e-324,
    1.7976931348623157e308, 0.1 + 0.2, 123456789012345680.0, 1234567890.123456,
]  # fmt: skip
STRINGS = [
    "", "plain", "caf\u00e9", "\U0001f600", "\u65e5\u672c\u8a9e", "</script>", "a/b",
    "<b>&amp;'\"", "back\\slash", "tab\tnl\ncr\rff\fbs\b", "\0\x1f\x7f", "\u2028\u2029", "\u0085",
    "\ufeff", "e\u0301",
]  # fmt: skip
CONTAINERS = [
    None, True, False, [], {}, [[]], [{}], {"a": {"b": [1, {"c": None}]}},
    {"": 1, "k e y": 2, "\u00e9": 3}, [[[[[1]]]]],
]  # fmt: skip
ACTIVE_JOB = {
    "job_class": "MyMailJob",
    "job_id": "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
    "provider_job_id": None,
    "queue_name": "mailers",
    "priority": None,
    "arguments": [1, "two", {"_aj_symbol_keys": ["k"], "k": "v"}],
    "executions": 0,
    "exception_executions": {},
    "locale": "en",
    "timezone": "UTC",
    "enqueued_at": "2026-01-01T00:00:00Z",
}


def pushing(**more):
    return lambda c, _j: c.push({"class": "EchoJob", "args": [], **more})


def bulk(args, **more):
    return lambda c, j: c.push_bulk({"class": j.echo, "args": args, **more})


CALLS = {
    "async_no_args": lambda c, j: j.echo.perform_async(),
    "async_integers": lambda c, j: j.echo.perform_async(
        0, -1, 2**31, 2**53, 2**53 + 1, 2**64, -(2**70)
    ),
    "async_floats": lambda c, j: j.echo.perform_async(*FLOATS),
    "async_strings": lambda c, j: j.echo.perform_async(*STRINGS),
    "async_containers": lambda c, j: j.echo.perform_async(*CONTAINERS),
    "async_nested_class": lambda c, j: j.nested.perform_async(1),
    "async_class_options": lambda c, j: j.big.perform_async(1),
    "async_retry_false": lambda c, j: j.no_retry.perform_async(),
    "async_retry_zero": lambda c, j: j.zero_retry.perform_async(),
    "set_queue": lambda c, j: j.echo.set(queue="low").perform_async(1),
    "set_many": lambda c, j: j.echo.set(
        queue="high",
        retry=3,
        tags=["x", "y"],
        backtrace=True,
        dead=False,
        attributes={"foo": "bar"},
    ).perform_async(1),
    "set_retry_false": lambda c, j: j.echo.set(retry=False).perform_async(1),
    "set_on_options": lambda c, j: j.big.set(queue="other", retry=1).perform_async("z"),
    "set_wait": lambda c, j: j.echo.set(wait=60).perform_async(1),
    "retry_for_option": lambda c, j: j.retry_for.perform_async(1),
    "in_60": lambda c, j: j.echo.perform_in(60, "in"),
    "in_float": lambda c, j: j.echo.perform_in(0.5, "in"),
    "in_zero": lambda c, j: j.echo.perform_in(0, "now"),
    "in_negative": lambda c, j: j.echo.perform_in(-5, "now"),
    "in_999999999": lambda c, j: j.echo.perform_in(999_999_999, "interval"),
    "at_1000000000": lambda c, j: j.echo.perform_at(1_000_000_000, "past: now"),
    "at_integer": lambda c, j: j.echo.perform_at(T0, "at"),
    "at_float": lambda c, j: j.echo.perform_at(T0 + 0.123456, "at"),
    "at_time": lambda c, j: j.echo.perform_at(
        dt.datetime.fromtimestamp(T0, dt.UTC) + dt.timedelta(milliseconds=500), "at"
    ),
    "push_string_class": lambda c, j: c.push({"class": "Some::Ruby::Class", "args": ["x"]}),
    "push_reordered": lambda c, j: c.push(
        {"jid": GIVEN_JID, "args": [1], "class": "EchoJob", "queue": "q1", "retry": 5}
    ),
    "push_extra": pushing(zeta=1, alpha={"n": None}, created_at=1234567890.5),
    "push_retry_nil": pushing(retry=None),
    "push_at_integer": pushing(at=T0),
    "push_at_small": pushing(at=60),
    "push_at_past": pushing(at=1_500_000_000.25),
    "push_at_with_enqueued_at": pushing(at=T0 + 0.5, enqueued_at=1.5),
    "push_symbol_queue": pushing(queue="sym"),
    "push_symbol_arg_values": pushing(args=[{"a": "b"}]),
    "bulk": bulk([[1], [2, "b"], [None]]),
    "bulk_empty": bulk([]),
    "bulk_at_one": bulk([[1], [2]], at=T0 + 0.5),
    "bulk_at_array": bulk([[1], [2]], at=[T0 + 1, T0 + 2.5]),
    "bulk_batch_size": bulk([[1], [2], [3]], batch_size=2),
    "bulk_perform_bulk": lambda c, j: j.echo.perform_bulk([[1], [2], [3]]),
    "bulk_spread": bulk([[1], [2], [3]], spread_interval=30),
    "bulk_at_small": bulk([[1]], at=60),
    "active_job_like": lambda c, j: c.push(
        {"class": AJ_WRAPPER, "wrapped": "MyMailJob", "queue": "mailers", "args": [ACTIVE_JOB]}
    ),
}
INTERVALS = {
    "set_wait": (60, 60),
    "in_60": (60, 60),
    "in_float": (0.5, 0.5),
    "in_999999999": (999_999_999, 999_999_999),
    "bulk_spread": (0, 30),
}
"""How long after its creation a job is due, at least and at most: such scores are masked."""


class NotOurs:
    """Stands for a Ruby symbol: nothing that JSON knows."""


WRONG_CALLS = {
    "err_not_hash": lambda c, j: c.push([]),
    "err_no_args": lambda c, j: c.push({"class": "EchoJob"}),
    "err_no_class": lambda c, j: c.push({"args": []}),
    "err_args_not_array": pushing(args="x"),
    "err_args_hash": pushing(args={"a": 1}),
    "err_class_symbol": lambda c, j: c.push({"class": NotOurs(), "args": []}),
    "err_class_plain": lambda c, j: c.push({"class": str, "args": []}),
    "err_at_string": pushing(at="soon"),
    "err_at_nil": pushing(at=None),
    "err_tags": pushing(tags="x"),
    "err_queue_nil": pushing(queue=None),
    "err_queue_empty": pushing(queue=""),
    "err_retry_for_absolute": pushing(retry_for=1_900_000_000),
    "err_symbol_arg": lambda c, j: j.echo.perform_async(NotOurs()),
    "err_symbol_key": lambda c, j: j.echo.perform_async({NotOurs(): 1}),
    "err_date_arg": lambda c, j: j.echo.perform_async(dt.datetime.fromtimestamp(0, dt.UTC)),
    "err_integer_key": lambda c, j: j.echo.perform_async({1: 2}),
    "err_nan": lambda c, j: j.echo.perform_async(float("nan")),
    "err_infinity": lambda c, j: j.echo.perform_async(float("inf")),
    "err_bad_utf8": lambda c, j: j.echo.perform_async(b"\xff".decode(errors="surrogateescape")),
    "err_bulk_flat": bulk([1, 2]),
    "err_bulk_at_size": bulk([[1], [2]], at=[1.0]),
    "err_bulk_at_type": bulk([[1]], at=["x"]),
    "err_bulk_at_empty": bulk([[1]], at=[]),
    "err_bulk_jid": bulk([[1], [2]], jid="abc"),
    "err_bulk_spread_zero": bulk([[1]], spread_interval=0),
    "err_bulk_spread_and_at": bulk([[1]], spread_interval=10, at=T0),
}


@pytest.fixture(params=[Functions, Classes], ids=["functions", "classes"])
def jobs(request):
    with own_declarations():
        yield request.param()


@pytest.fixture(scope="session")
def session_proxy(session_server):
    with InterceptingRedis(session_server.port) as proxy:
        yield proxy


@pytest.fixture
def proxy(session_proxy, server):
    session_proxy.commands.clear()
    return session_proxy


def push(profile, operation, jobs, proxy):
    client = configure(proxy.url, profile=profile)
    try:
        return CALLS[operation](client, jobs)
    finally:
        client.close()


def compared_command(operation, command, moment):
    """A command (bytes) as it is compared: its name and key, then pieces of texts, then scores."""
    name, key, *rest = command
    if name.lower() != b"zadd":
        return [name, key, *(comparable(part, moment) for part in rest)]
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return [name, key, *(compared_entry(operation, *pair, moment) for pair in pairs)]


def compared_entry(operation, score, text, moment):
    if operation not in INTERVALS:
        return [number(score), comparable(text, moment)]
    least, most = INTERVALS[operation]
    delay = float(score) - read_timestamp(loads(text)["created_at"])
    assert least - 0.01 <= delay <= most + 2
    return ["SCORE", comparable(text, moment)]


def compared_state(operation, state, moment):
    """Keys with their types and values; members of a set that is sorted by masked scores, by text."""
    shown = {}
    for key, (kind, value) in state.items():
        if kind == "zset":
            entries = [
                compared_entry(operation, repr(score).encode(), text, moment)
                for text, score in value
            ]
            shown[key] = (kind, sorted(entries, key=repr))
        else:
            shown[key] = (kind, [comparable(each, moment) for each in value])
    return shown


def recorded_commands(recorded):
    return [[part.encode() for part in command] for command in recorded["commands"]]


def once_listed(commands):
    """Without the SADD of a slice for the queue of the slice before: ours is sent once a minute."""
    return [
        command
        for place, command in enumerate(commands)
        if command[0] != b"sadd" or command not in commands[:place]
    ]


PUSHES = of_kind("push")


@pytest.mark.parametrize(("file", "operation"), PUSHES)
def test_a_push_sends_the_recorded_commands(file, operation, jobs, proxy, redis):
    recorded = FILES[file][operation]
    then, now = Moment(at=recorded["wall_clock"]), Moment(at=time.time())

    returned = push(profile_of(file), operation, jobs, proxy)

    commands = [[command[0].lower(), *command[1:]] for command in proxy.commands]
    assert [compared_command(operation, each, now) for each in commands] == [
        compared_command(operation, each, then) for each in once_listed(recorded_commands(recorded))
    ]
    assert compared_state(operation, state_of(redis), now) == compared_state(
        operation, recorded_state(recorded["keys"]), then
    )
    jids = [loads(part)["jid"] for each in commands for part in each[2:] if part.startswith(b"{")]
    assert (returned if isinstance(returned, list) else [returned]) == jids
    theirs = recorded["result"]["return"]
    assert isinstance(returned, type(theirs))
    assert len(jids) == (len(theirs) if isinstance(theirs, list) else 1)


class TestTheComparison:
    """What it is worth: a byte of a recording that is changed is found, wherever it stands."""

    @pytest.mark.parametrize(("file", "operation"), PUSHES)
    def test_any_flipped_byte_of_an_expected_text_is_found(self, file, operation):
        recorded = FILES[file][operation]
        moment = Moment(at=recorded["wall_clock"])

        for command in recorded_commands(recorded):
            for part in command:
                expected = comparable(part, moment)
                for token in tokens(part, moment):
                    if token.masked:
                        continue
                    for position in range(token.start, token.start + len(token.raw)):
                        for flip in (0x01, 0x04, 0x20):
                            changed = bytearray(part)
                            changed[position] ^= flip
                            assert comparable(bytes(changed), moment) != expected, bytes(changed)

    def test_little_is_masked(self):
        masked = [
            token.raw
            for file, operation in PUSHES
            for command in recorded_commands(FILES[file][operation])
            for part in command
            for token in tokens(part, Moment(at=FILES[file][operation]["wall_clock"]))
            if token.masked
        ]

        assert 200 < len(masked) < 400
        assert {len(token) for token in masked if token.startswith(b'"')} == {26}  # jids
        assert all(1.79e9 < float(t) < 1.8e12 for t in masked if not t.startswith(b'"'))


@pytest.mark.parametrize("operation", WRONG_CALLS)
def test_what_sidekiq_refuses_is_refused_before_redis(operation, jobs, proxy):
    client = configure(proxy.url)

    with pytest.raises(PayloadError):
        WRONG_CALLS[operation](client, jobs)

    assert proxy.commands == []


def test_every_recorded_refusal_is_tried_and_wrote_nothing():
    for file, operation in of_kind("refusal"):
        assert operation in WRONG_CALLS
        assert FILES[file][operation]["keys"] == []


def recorded_payloads(version):
    for name, operation in FILES[f"client-{version}"].items():
        for command in recorded_commands(operation):
            for part in command[1:]:
                if part.startswith(b"{"):
                    yield name, operation["wall_clock"], part


class TestWhatIsRead:
    @pytest.mark.parametrize("version", ["6.4.1", "7.3.10", "8.1.7"])
    def test_a_payload_of_any_version_is_a_job_here_and_keeps_its_values(self, version):
        payloads = list(recorded_payloads(version))

        assert len(payloads) > 40
        for name, wall_clock, text in payloads:
            payload = loads(text)

            validate(payload)
            moved = normalize(payload, DEFAULT_OPTIONS, wall_clock, "7")
            assert moved == payload, name
            if name != "push_extra":
                assert read_timestamp(payload["created_at"]) == pytest.approx(wall_clock, abs=1)
