"""Active Jobs are written as Rails' and Sidekiq's adapters write them, byte for byte.

Masked are jids, job ids and the times of the moment; a float is compared by value in the other
vectors, here none is among the arguments. `current_attributes` of that recording is no Active Job,
and is not asserted: the client has no current attributes yet.
"""

import json
import re
from pathlib import Path

import pytest
from support.proxy import InterceptingRedis

from kiqbridge import Client
from kiqbridge.errors import PayloadError
from kiqbridge.features.active_job.values import Symbol

RECORDED = json.loads(
    (Path(__file__).parents[2] / "vectors" / "activejob.json").read_text(encoding="utf-8")
)["operations"]
JOB = {"active_job": "MyMailJob", "queue": "mailers"}
CALLS = {
    "active_job_now": lambda client: client.push(
        JOB | {"args": [1, "two", {"k": Symbol("sym"), Symbol("sym"): [1.5, None]}]}
    ),
    "active_job_later": lambda client: client.push(JOB | {"args": ["x"], "at": 1_900_000_000.0}),
    "active_job_bulk": lambda client: client.push_bulk(JOB | {"args": [[1], [2]]}),
}
NOT_ASSERTED = {"current_attributes"}
PROFILES = {"6.4.1": "7", "8.1.7": "8"}

CASES = [
    (PROFILES[each["sidekiq"]], each["operation"], each["commands"])
    for each in RECORDED
    if each["operation"] not in NOT_ASSERTED
]
MASKS = [
    (r'"jid":"[0-9a-f]{24}"', '"jid":"J"'),
    (r'"job_id":"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"', '"job_id":"UUID"'),
    (r'"(created|enqueued)_at":1[78]\d{8}\.\d+', r'"\1_at":SECONDS'),
    (r'"(created|enqueued)_at":1[78]\d{11}(?=[,}])', r'"\1_at":MILLISECONDS'),
    (r'"enqueued_at":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"', '"enqueued_at":"ISO"'),
    (r'"enqueued_at":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"', '"enqueued_at":"NANO"'),
]


def masked(command):
    texts = []
    for text in (part.decode() if isinstance(part, bytes) else part for part in command):
        for pattern, instead in MASKS:
            text = re.sub(pattern, instead, text)  # noqa: PLW2901 - one mask after the other
        texts.append(text)
    return [texts[0].lower(), *texts[1:]]


@pytest.mark.parametrize(
    ("profile", "operation", "recorded"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES]
)
def test_an_active_job_is_sent_as_recorded(server, profile, operation, recorded):
    with InterceptingRedis(server.port) as proxy:
        client = Client(proxy.url, profile=profile)

        CALLS[operation](client)

        assert [masked(each) for each in proxy.commands] == [masked(each) for each in recorded]
        client.close()


def test_every_recorded_operation_is_asserted_or_has_a_reason():
    assert {each["operation"] for each in RECORDED} == CALLS.keys() | NOT_ASSERTED


def test_guarded_and_ticked_pushes_take_active_jobs_and_tell_the_inner_class(redis_url, redis):
    client = Client(redis_url)
    item = {**JOB, "args": []}

    [guarded] = client.push_once([item], ["event"])
    tick = client.push_tick("stack/Nightly", 4_000_000_000, [item], by="test")

    payloads = [json.loads(text) for text in redis.lrange("queue:mailers", 0, -1)]
    assert {payload["args"][0]["job_class"] for payload in payloads} == {"MyMailJob"}
    assert guarded.job_class == tick.jobs[0].job_class == "MyMailJob"
    assert guarded.jid in {payload["jid"] for payload in payloads}
    client.close()


def test_middleware_sees_the_wrapper(redis_url):
    client, seen = Client(redis_url), []
    client.middleware.add(
        lambda declared, payload, queue, _next: seen.append((declared, payload["wrapped"], queue))
    )

    assert client.push({**JOB, "args": []}) is None

    assert seen == [
        ("ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "MyMailJob", "mailers")
    ]
    client.close()


@pytest.mark.parametrize(
    "item", [{"active_job": "A"}, {"active_job": "A", "args": [{1}]}, {"active_job": "A", "args": [], "at": "x"}]
)  # fmt: skip
@pytest.mark.parametrize("profile", ["7", "8", "auto"])
def test_a_wrong_one_leaves_redis_empty(redis_url, redis, item, profile):
    client = Client(redis_url, profile=profile)

    with pytest.raises(PayloadError):
        client.push(item)
    with pytest.raises(PayloadError):
        client.push_once([item], ["event"])

    assert redis.dbsize() == 0
    client.close()


def test_one_job_id_for_several_jobs_is_refused(redis_url, redis):
    client = Client(redis_url)

    with pytest.raises(PayloadError, match="job_id: 'given' cannot be that of 2 jobs"):
        client.push_bulk(JOB | {"args": [[1], [2]], "job_id": "given"})

    assert redis.dbsize() == 0
    client.close()
