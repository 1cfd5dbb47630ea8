"""HTTP requests end to end: who may ask, what is answered in which form, and each request once."""

import base64
import json
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.enqueue_function import EVENTS, Context, queued, read_event
from support.proving import sized
from support.sqs import Queue, simulated_sqs
from support.strategies import mutated

from kiqbridge.aws import sources
from kiqbridge.aws.allow_list import AllowList
from kiqbridge.aws.enqueue import Enqueuer
from kiqbridge.aws.push import Pusher
from kiqbridge.aws.record import Result
from kiqbridge.errors import (
    EventError,
    PayloadError,
    PushNotReplicated,
    PushOutcomeUnknown,
    QueueTooDeep,
    RedisRefused,
    RedisUnavailable,
)

JOB = {"class": "HealthPulse", "args": []}
AUTHENTICATED = [
    "rest_iam",
    "rest_cognito",
    "rest_authorizer",
    "api_jwt",
    "api_iam",
    "api_authorizer",
    "url_iam",
]
OPEN = ["rest_open", "api_open", "url_open"]
NAMES = sorted(path.stem for path in (EVENTS / "http").glob("*.json"))


def post(body=JOB, *, name="url_iam", key=None, headers=None, **changes):
    """A request with this body, as a text or as JSON."""
    text = body if isinstance(body, str) else json.dumps(body)
    event = read_event(f"http/{name}", body=text, isBase64Encoded=False, **changes)
    event["headers"] |= headers or {}
    if key is not None:
        event["headers"]["Idempotency-Key"] = key
    return event


def answer_of(answer):
    return answer["statusCode"], json.loads(answer["body"])


def test_a_request_carries_its_trace_headers_into_each_job(invoke, redis):
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    own = JOB | {"traceparent": parent.replace("4b", "5c")}

    invoke(post({"jobs": [JOB, own]}, headers={"Traceparent": parent, "tracestate": "a=1"}))

    first, second = queued(redis)
    assert (first["traceparent"], first["tracestate"]) == (parent, "a=1")
    assert first["X-Amzn-Trace-Id"] == "Root=1-62ecd163-5f302e550dcde3b12402207d"
    assert second["traceparent"] == own["traceparent"]


# Who may ask


@pytest.mark.parametrize("name", AUTHENTICATED)
def test_a_request_of_a_verified_caller_enqueues(invoke, redis, name):
    status, body = answer_of(invoke(read_event(f"http/{name}")))

    [job] = queued(redis)
    assert status == 202
    assert body == {
        "enqueued": [{"jid": job["jid"], "class": "HealthPulse", "queue": "default"}],
        "duplicates": [],
        "stale": [],
    }


@pytest.mark.parametrize("name", OPEN)
def test_nobody_enqueues_by_default(invoke, redis, name):
    answer = invoke(read_event(f"http/{name}"))

    assert answer["statusCode"] == 401
    assert answer["headers"]["WWW-Authenticate"] == "Bearer"
    assert redis.dbsize() == 0


@pytest.mark.parametrize("name", ["alb", "alb_multi_value"])
def test_a_load_balancer_proves_nothing_by_default(invoke, redis, name):
    assert invoke(read_event(f"http/{name}"))["statusCode"] == 403
    assert redis.dbsize() == 0


@pytest.mark.parametrize(
    ("setting", "name"), [("none", "url_open"), ("alb", "alb"), ("iam, alb", "alb_multi_value")]
)
def test_what_the_operator_opens_enqueues(environment, load, redis, setting, name):
    environment.setenv("KIQBRIDGE_HTTP_AUTH", setting)

    answer = load().lambda_handler(read_event(f"http/{name}"), Context())

    assert answer["statusCode"] == 202
    assert redis.llen("queue:default") == 1


@pytest.mark.parametrize("name", AUTHENTICATED)
def test_a_verified_caller_may_enqueue_only_what_is_allowed(invoke, redis, name):
    event = read_event(f"http/{name}", body='{"class": "Kernel", "args": []}')

    status, body = answer_of(invoke(event | {"isBase64Encoded": False}))

    assert status == 403
    assert body["detail"].startswith("class: 'Kernel' is not among the classes")
    assert redis.dbsize() == 0


# The form of the answer


@pytest.mark.parametrize("name", ["rest_iam", "api_jwt", "url_iam"])
def test_api_gateway_and_a_function_url_get_headers_and_no_description(invoke, name):
    answer = invoke(read_event(f"http/{name}"))

    assert answer.keys() == {"statusCode", "headers", "body", "isBase64Encoded"}
    assert answer["headers"] == {"Content-Type": "application/json", "Cache-Control": "no-store"}
    assert answer["isBase64Encoded"] is False


def test_a_load_balancer_gets_a_description_and_headers_in_the_form_it_uses(environment, load):
    environment.setenv("KIQBRIDGE_HTTP_AUTH", "alb")
    app = load()

    single = app.lambda_handler(read_event("http/alb"), Context())
    several = app.lambda_handler(read_event("http/alb_multi_value"), Context())

    assert single["statusDescription"] == several["statusDescription"] == "202 Accepted"
    assert single["headers"]["Content-Type"] == "application/json"
    assert several["multiValueHeaders"]["Content-Type"] == ["application/json"]
    assert "multiValueHeaders" not in single and "headers" not in several


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("name", ["url_open", "alb_health_check", "rest_open"])
def test_a_health_check_is_answered_without_asking_who_it_is(invoke, redis, capsys, name, method):
    event = read_event(f"http/{name}", httpMethod=method)
    event["requestContext"].get("http", {})["method"] = method

    answer = invoke(event)

    assert answer["statusCode"] == 200
    assert answer["body"] == ("" if method == "HEAD" else '{"status":"ok"}')
    assert redis.dbsize() == 0
    [line] = [
        json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" not in line
    ]
    assert (line["message"], line["reason"]) == ("ignored", "a health check")


def test_a_refusal_is_a_problem_in_json(invoke):
    answer = invoke(post("{"))

    assert answer["headers"]["Content-Type"] == "application/problem+json"
    assert json.loads(answer["body"]) == {
        "title": "Bad Request",
        "status": 400,
        "detail": "body: is not JSON that Sidekiq would read: "
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    }


# What is refused

DEEP = '{"class": "HealthPulse", "args": ' + "[" * 200 + "]" * 200 + "}"

REFUSED = {
    "no body": (post(body=""), 400, "body: is missing"),
    "null body": (post() | {"body": None}, 400, "body: is missing"),
    "no base64": (post("{}") | {"isBase64Encoded": True, "body": "*"}, 400, "not the text that it"),
    "bad json": (post("{"), 400, "is not JSON"),
    "nan": (post('{"class": "HealthPulse", "args": [NaN]}'), 400, "NaN is no JSON number"),
    "deep": (post(DEEP), 400, "nested deeper than 100 levels"),
    "very deep": (post("[" * 100_000), 400, "is not JSON"),
    "surrogate": (post('"\\ud800"'), 400, "is not JSON"),
    "no utf-8": (
        post() | {"isBase64Encoded": True, "body": base64.b64encode(b"\xff\xfe{}").decode()},
        400,
        "is not JSON",
    ),
    "half a character": (post("\ud800"), 400, "body: is not the text that it"),
    "form": (
        post(headers={"content-type": "application/x-www-form-urlencoded"}),
        415,
        "content-type: 'application/x-www-form-urlencoded' is not JSON",
    ),
    "no type": (post(headers={"content-type": ""}), 415, "content-type: '' is not JSON"),
    "charset": (
        post(headers={"content-type": "application/json; charset=latin-1"}),
        415,
        "charset 'latin-1' is not UTF-8",
    ),
    "gzip": (post(headers={"content-encoding": "gzip"}), 415, "content-encoding: the body is com"),
    "too large": (post(JOB | {"args": ["x" * 1_048_576]}), 413, "bytes are more than the 1048576"),
    "too large in base64": (
        post() | {"isBase64Encoded": True, "body": base64.b64encode(b"x" * 1_048_577).decode()},
        413,
        "body: 1048577 bytes are more",
    ),
    "put": (post(requestContext={**post()["requestContext"], "http": {"method": "PUT"}}), 405, "PUT"),
    "no job": (post({"order": 7}), 422, "holds no job"),
    "a list": (post([JOB]), 422, "holds no job"),
    "half a job": (post({"class": "HealthPulse"}), 422, "class"),
    "bad queue": (post(JOB | {"queue": ""}), 422, "queue: '' is not a queue name"),
    "not allowed queue": (post(JOB | {"queue": "vip"}), 403, "queue: 'vip' is not among"),
    "long key": (post(key="k" * 256), 400, "Idempotency-Key: is not a printable"),
    "odd key": (post(key="\x07"), 400, "Idempotency-Key: is not a printable"),
}  # fmt: skip


@pytest.mark.parametrize(("event", "status", "detail"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_answered_and_writes_nothing(invoke, redis, event, status, detail):
    found, body = answer_of(invoke(event))

    assert (found, body["status"]) == (status, status)
    assert detail in body["detail"]
    assert len(body["detail"]) < 500
    assert redis.dbsize() == 0


def test_a_body_of_the_largest_size_is_accepted_and_one_byte_more_is_not(environment, load, redis):
    body = json.dumps(JOB)
    environment.setenv("KIQBRIDGE_MAX_EVENT_BYTES", str(len(body)))
    app = load()

    statuses = [
        app.lambda_handler(event, Context())["statusCode"]
        for text in (body, body + " ")
        for event in (
            post(text),
            post() | {"body": base64.b64encode(text.encode()).decode(), "isBase64Encoded": True},
        )
    ]

    assert statuses == [202, 202, 413, 413]


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=UTF-8", "application/cloudevents+json"]
)
def test_json_by_any_of_its_names_is_read(invoke, kind):
    assert invoke(post(headers={"content-type": kind}))["statusCode"] == 202


# Each request once


def test_a_request_with_a_key_is_enqueued_once_and_answered_with_the_first_jid(invoke, redis):
    answers = [answer_of(invoke(post(key="order-7"))) for _ in range(3)]

    [job] = queued(redis)
    assert [status for status, _ in answers] == [202, 200, 200]
    assert [body["duplicates"] for _, body in answers[1:]] == [answers[0][1]["enqueued"]] * 2
    assert answers[0][1]["enqueued"][0]["jid"] == job["jid"]
    assert len(job["jid"]) == 24 and int(job["jid"], 16)


def test_a_request_without_a_key_is_a_new_one_each_time(invoke, redis):
    assert [invoke(post())["statusCode"] for _ in range(2)] == [202, 202]

    assert redis.llen("queue:default") == 2


@pytest.mark.parametrize(
    "other",
    [
        JOB | {"args": [1]},
        JOB | {"class": "NightlyReport"},
        JOB | {"queue": "low"},
        {"jobs": [JOB]},
        {"jobs": [JOB, JOB | {"queue": "low"}]},
    ],
)
def test_the_same_key_with_another_body_is_refused(invoke, redis, other):
    _, first = answer_of(invoke(post(key="order-7")))

    status, body = answer_of(invoke(post(other, key="order-7")))

    assert status == 422
    assert body["detail"].startswith(
        "Idempotency-Key: an earlier request with this key had another"
    )
    assert [job["jid"] for job in body["duplicates"]] == [first["enqueued"][0]["jid"]]
    assert len(queued(redis)) == 1 and redis.llen("queue:low") == 0


def test_a_key_is_one_callers_at_one_address(invoke, redis):
    mine = post(key="order-7")
    elsewhere = post(key="order-7", rawPath="/other")
    other = post(key="order-7")
    other["requestContext"]["authorizer"]["iam"]["userId"] = "AROAANOTHER:orders"
    session = post(key="order-7")
    session["requestContext"]["authorizer"]["iam"]["userId"] += "-of-another-session"

    statuses = [invoke(event)["statusCode"] for event in (mine, elsewhere, other, session)]

    assert statuses == [202, 202, 202, 200]


def test_a_key_may_be_quoted_as_the_draft_has_it(invoke):
    assert [invoke(post(key=key))["statusCode"] for key in ('"order-7"', "order-7")] == [202, 200]


def test_a_request_of_several_jobs_is_enqueued_once(invoke, redis):
    event = post({"jobs": [JOB, JOB | {"queue": "low"}]}, key="k")

    (_, first), (status, again) = answer_of(invoke(event)), answer_of(invoke(event))

    assert status == 200
    assert again["duplicates"] == first["enqueued"]
    assert redis.llen("queue:default") == redis.llen("queue:low") == 1


def test_a_job_whose_own_key_is_used_up_is_a_conflict(invoke):
    events = [post(JOB | {"dedupe_key": "order-7", "args": [number]}) for number in range(2)]

    (_, first), (status, body) = (answer_of(invoke(event)) for event in events)

    assert status == 409
    assert [job["jid"] for job in body["duplicates"]] == [first["enqueued"][0]["jid"]]


def test_a_used_key_of_the_job_is_no_conflict_for_a_request_with_a_key(invoke, redis):
    body = JOB | {"dedupe_key": "order-7"}

    answers = [
        answer_of(invoke(event))
        for event in (post(body), post(body, key="a"), post(body | {"args": [1]}, key="b"))
    ]

    assert [status for status, _ in answers] == [202, 200, 200]
    assert redis.llen("queue:default") == 1


def test_one_new_job_among_known_ones_is_accepted(invoke):
    known = JOB | {"dedupe_key": "a"}
    invoke(post(known))

    status, body = answer_of(invoke(post({"jobs": [known, JOB | {"dedupe_key": "b"}]})))

    assert (status, len(body["enqueued"]), len(body["duplicates"])) == (202, 1, 1)


def test_requests_with_one_key_at_the_same_moment_enqueue_once(app, redis):
    answers = []
    barrier = threading.Barrier(8)

    def send():
        barrier.wait()
        answers.append(app.lambda_handler(post(key="k"), Context()))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answer["statusCode"] for answer in answers) == [200] * 7 + [202]
    assert len({jid_of(answer) for answer in answers}) == 1
    assert redis.llen("queue:default") == 1


def jid_of(answer):
    body = json.loads(answer["body"])
    [job] = body["enqueued"] + body["duplicates"]
    return job["jid"]


def test_a_jid_of_the_callers_own_is_kept(invoke, redis):
    events = [post(JOB | {"jid": "order-7"}, key="k"), post(JOB | {"jid": "order-8"}, key="k")]

    statuses = [invoke(event)["statusCode"] for event in (*events, events[0])]

    assert statuses == [202, 422, 200]
    assert [job["jid"] for job in queued(redis)] == ["order-7"]


# What goes wrong on our side


class Failing:
    """A client whose pushes fail."""

    def __init__(self, error):
        self.error = error

    def push_once(self, *_args, **_options):
        raise self.error


FAULTS = {
    "redis": (RedisUnavailable("redis://secret-host:6379 cannot be reached"), 503, "5"),
    "deep": (QueueTooDeep({"default": 7}, {0: 7}), 429, "30"),
    "lost reply": (PushOutcomeUnknown("lost at secret-host", "j1"), 504, None),
    "replicas": (PushNotReplicated("none of secret-host", ["j1"]), 504, None),
    "refused": (RedisRefused("NOPERM secret-host"), 500, None),
    "a fault of ours": (ZeroDivisionError("secret-host"), 500, None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_fails_here_is_answered_without_details_and_logged_with_them(
    app, capsys, monkeypatch, fault
):
    error, status, after = FAULTS[fault]

    everything = AllowList(classes=("*",), queues=("*",))
    monkeypatch.setattr(
        app.handler, "enqueuer", lambda: Enqueuer(Pusher(Failing(error)), everything)
    )

    answer = app.lambda_handler(post(), Context())

    found, body = answer_of(answer)
    assert (found, answer["headers"].get("Retry-After")) == (status, after)
    assert answer["headers"]["Content-Type"] == "application/problem+json"
    assert "secret-host" not in answer["body"]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [line] = [line for line in lines if "_aws" not in line]
    assert (line["message"], line["error_class"]) == ("failed", type(error).__name__)
    assert str(error) in line["reason"]
    assert ("exception" in line) == isinstance(error, ZeroDivisionError)
    assert body["status"] == status


def test_without_redis_a_request_is_answered_and_told_when_to_come_again(load, environment):
    environment.setenv("REDIS_URL", "redis://127.0.0.1:1")

    answer = load().lambda_handler(post(), Context())

    assert (answer["statusCode"], answer["headers"]["Retry-After"]) == (503, "5")
    assert "127.0.0.1" not in answer["body"]


def test_with_a_spill_queue_a_request_is_accepted_while_redis_is_away(
    load, environment, monkeypatch, redis_url, redis
):
    with simulated_sqs(monkeypatch):
        spill = Queue("spill")
        environment.setenv("KIQBRIDGE_SPILL_QUEUE_URL", spill.url)
        environment.setenv("REDIS_URL", "redis://127.0.0.1:1")
        status, body = answer_of(load().lambda_handler(post(key="k"), Context()))
        environment.setenv("REDIS_URL", redis_url)
        app = load()
        spill.deliver(lambda event: app.lambda_handler(event, Context()))
        statuses = [
            app.lambda_handler(event, Context())["statusCode"]
            for event in (post(key="k"), post(JOB | {"args": [1]}, key="k"))
        ]

    [spilled] = body["spilled"]
    assert status == 202
    assert [job["jid"] for job in queued(redis)] == [spilled["jid"]]
    assert statuses == [200, 422]


def test_a_wrong_setting_is_answered_too(load, environment, capsys):
    environment.setenv("KIQBRIDGE_HTTP_AUTH", "everybody")

    answer = load().lambda_handler(post(), Context())

    assert answer["statusCode"] == 500
    assert "everybody" not in answer["body"]
    assert "http_auth: 'everybody' is no way of authentication" in capsys.readouterr().out


# Whatever comes


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=sized(full=1500, sample=50),
)
@given(
    st.sampled_from(NAMES).flatmap(lambda name: mutated(read_event(f"http/{name}"), changes=5)),
    st.sampled_from(["iam,jwt,authorizer", "none"]),
)
def test_whatever_an_http_event_holds_it_is_answered(event, auth):
    try:
        sources.read(event, auth.split(","))
    except (EventError, PayloadError):
        assert not sources.is_http(event)
        return
    if not sources.is_http(event):
        return
    everything = AllowList(classes=("*",), queues=("*",))
    enqueuer = Enqueuer(NoPusher(), everything, auth=auth.split(","))
    handled = enqueuer.handle(event, now=1e9)
    assert handled.error is None
    answer = handled.answer
    assert 200 <= answer["statusCode"] < 500
    assert json.loads(json.dumps(answer)) == answer
    assert answer["body"] == "" or json.loads(answer["body"])


class NoPusher:
    def read_spilled(self, _event):
        return None

    def push(self, records, _answering, _by):
        return [Result(record=record) for record in records]


@pytest.mark.parametrize(
    "event",
    [
        {**read_event("http/rest_iam"), "type": "REQUEST", "methodArn": "arn:aws:execute-api:e"},
        {**read_event("http/api_iam"), "type": "REQUEST", "routeArn": "arn:aws:execute-api:e"},
        {"requestContext": {"routeKey": "$connect", "eventType": "CONNECT"}, "body": "{}"},
    ],
)
def test_what_is_no_request_to_answer_is_an_error(invoke, event):
    with pytest.raises(EventError):
        invoke(event)
