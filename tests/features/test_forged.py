"""What a sender writes about others: ticks of schedules, keys, and the service that it claims to be.

Each sender may enqueue one harmless class. `-rA` or the end of the run shows what was taken of each.
"""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from support.enqueue_function import invoked_by, read_event
from support.mappings import write

from kiqbridge import ConfigError, EventError
from kiqbridge.aws.allow_list import AllowList
from kiqbridge.aws.record import Sender
from kiqbridge.errors import NotAllowed

NAME = "shop/NightlyReport"
TRUE = {"class": "NightlyReport", "queue": "low", "args": []}
HARMLESS = {"class": "HealthPulse", "args": []}


def first_of(name, change):
    record = read_event(name)["Records"][0]
    change(record)
    return {"Records": [record]}


def messages(body, name="sqs_records"):
    return first_of(name, lambda record: record.update(body=json.dumps(body)))


def notified(text):
    return first_of(
        "sns_job", lambda record: record["Sns"].update(Type="Notification", Message=text)
    )


def encoded(job):
    return base64.b64encode(json.dumps(job).encode()).decode()


def image(value):
    """As DynamoDB writes it, so far as jobs with a tick need it."""
    kinds = {str: "S", list: "L"}
    members = {
        key: image(each) if isinstance(each, dict) else {kinds[type(each)]: each}
        for key, each in value.items()
    }
    return {"M": members} if "schedule" in value else members


SHAPES = {
    "sqs": messages,
    "sqs, raw from sns": lambda job: messages(job, name="sqs_sns_raw"),
    "sqs, with sns": lambda job: messages(notified(json.dumps(job))["Records"][0]["Sns"]),
    "sqs, with a bus": lambda job: messages(read_event("bus_event", detail=job)),
    "sqs, with a destination": lambda job: messages(SHAPES["destination"](job)),
    "pipe": lambda job: messages(job)["Records"],
    "sns": lambda job: notified(json.dumps(job)),
    "sns, with a bus": lambda job: notified(json.dumps(read_event("bus_event", detail=job))),
    "bus": lambda job: read_event("bus_event", detail=job),
    "kinesis": lambda job: first_of(
        "kinesis_jobs", lambda record: record["kinesis"].update(data=encoded(job))
    ),
    "dynamodb": lambda job: first_of(
        "dynamodb_outbox", lambda record: record["dynamodb"].update(NewImage=image(job))
    ),
    "destination": lambda job: read_event("destination_success", responsePayload=job),
    "http": lambda job: read_event("http/url_iam", body=json.dumps(job), isBase64Encoded=False),
    "direct": lambda job: job,
    "direct, as a text": json.dumps,
}
"""A job as each source carries it."""


def ticked(job, schedule=NAME):
    at = datetime.now(UTC) - timedelta(hours=2)
    return job | {"tick": {"schedule": schedule, "at": f"{at:%FT%H:%M:00Z}"}}


def queued(redis):
    """Class and schedule of each job, `""` without one."""
    texts = [text for name in redis.keys("queue:*") for text in redis.lrange(name, 0, -1)]
    jobs = [json.loads(text) for text in texts]
    return sorted((job["class"], job.get("tick", {}).get("schedule", "")) for job in jobs)


@pytest.fixture
def invoke(environment, load, tmp_path):
    """Invoke the function with a file of mappings, perhaps by an alias; what it refuses is its answer."""

    def invoke(event, allow="", alias=""):
        environment.setenv("KIQBRIDGE_MAPPINGS", str(write(tmp_path, allow or "mappings: []")))
        try:
            return load().lambda_handler(event, invoked_by(alias))
        except EventError as error:
            return type(error)

    return invoke


def rule(source, job, more=""):
    return f"  - {{source: {source}, classes: [{job['class']}], queues: [default, low]{more}}}"


RULES = "\n".join(
    ["allow:", rule("'*'", HARMLESS), rule("direct", TRUE, ", ticks: ['*/NightlyReport']")]
)
ALLOW = {
    "without allow": "",
    "allow": RULES,
    "allow with ticks": RULES.replace("low]}", "low], ticks: ['shop/*']}", 1),
}


@pytest.mark.parametrize("is_defined", [True, False], ids=["defined", "unknown"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_forged_tick_keeps_no_job_of_its_schedule_from_being_enqueued(
    invoke, redis, tell, name, is_defined
):
    found = {}
    for allowed, allow in ALLOW.items():
        redis.flushdb()
        if is_defined:
            redis.hset("kb:schedules", NAME, json.dumps({"jobs": [TRUE]}))
        invoke(SHAPES[name](ticked(HARMLESS)), allow)
        forged = queued(redis)

        due = ticked(TRUE)
        answer, _ = invoke(due, allow), invoke(due, allow)

        assert [job["class"] for job in answer["enqueued"]] == ["NightlyReport"]
        true = [each for each in queued(redis) if each not in forged]
        assert [job_class for job_class, _ in true] == ["NightlyReport"], "once"
        assert not is_defined or true == [("NightlyReport", NAME)]
        found[allowed] = forged
    apart = [("HealthPulse", f"{NAME} (HealthPulse in default)" if is_defined else NAME)]
    is_direct = name.startswith("direct")
    assert list(found.values()) == [apart if is_direct else [], [], apart]
    taken = [f"{allowed}: {'apart' if jobs else 'refused'}" for allowed, jobs in found.items()]
    if is_defined:
        tell(
            f"forged tick, {name}: {', '.join(taken)}; its schedule's own tick: enqueued each time"
        )


def event_of(job, **changes):
    return read_event("bus_event", detail=job, **changes)


@pytest.mark.parametrize(
    ("forged", "true"),
    [
        (messages(HARMLESS | {"dedupe_key": "order-5"}), HARMLESS | {"dedupe_key": "order-5"}),
        (messages(event_of(HARMLESS)), event_of(HARMLESS)),
    ],
    ids=["a key", "the id of an event"],
)
def test_a_key_is_used_up_within_what_its_sender_may_enqueue(invoke, redis, forged, true):
    """Of the same class: the true job goes into another queue."""
    allow = """
        allow:
          - {source: sqs, classes: [HealthPulse], queues: [low]}
          - {source: [direct, bus], classes: [HealthPulse], queues: [default]}
        """
    assert invoke(low(forged), allow) == {"batchItemFailures": []}

    answers = [invoke(true, allow) for _ in range(2)]

    assert [len(answer["enqueued"]) for answer in answers] == [1, 0]
    assert redis.llen("queue:default") == redis.llen("queue:low") == 1


def low(event):
    """The same event; its job goes into the queue low."""
    body = json.loads(event["Records"][0]["body"])
    body.get("detail", body)["queue"] = "low"
    return messages(body)


IOT = """
    allow:
      - {source: "*", alias: iot, classes: [HealthPulse], queues: [default]}
      - {source: "*", classes: [NightlyReport], queues: [low], ticks: ["*"]}
    """


@pytest.mark.parametrize("name", SHAPES)
def test_what_arrives_by_an_alias_has_its_rights_whatever_it_looks_like(invoke, redis, name):
    """A rule of IoT with SELECT * passes what a device wrote: it may look like any service's event."""
    invoke(SHAPES[name](TRUE), IOT, alias="iot")
    invoke(SHAPES[name](ticked(TRUE)), IOT, alias="iot")
    invoke(SHAPES[name](HARMLESS), IOT)
    assert queued(redis) == []

    invoke(SHAPES[name](HARMLESS), IOT, alias="iot")
    invoke(SHAPES[name](TRUE), IOT)
    assert queued(redis) == [("HealthPulse", ""), ("NightlyReport", "")]


def test_an_alias_that_the_stack_trusts_is_the_function_itself_and_any_other_is_refused(
    invoke, redis, environment
):
    refused = (invoke(TRUE, IOT, alias="live"), invoke(ticked(TRUE), IOT, alias="live"))
    environment.setenv("KIQBRIDGE_TRUSTED_ALIAS", "live")
    invoke(ticked(TRUE), IOT, alias="live")
    invoke(HARMLESS, IOT, alias="iot")

    assert refused == (NotAllowed, NotAllowed)
    assert queued(redis) == [("HealthPulse", ""), ("NightlyReport", NAME)]
    with pytest.raises(
        NotAllowed, match="or, if it stands for the function itself, set KIQBRIDGE_TRUSTED_ALIAS"
    ):
        AllowList(classes=("*",), queues=("*",), rules=()).check(
            TRUE, Sender("direct", alias="blue")
        )


def test_an_alias_that_rules_tell_apart_publishes_nothing(invoke, environment):
    environment.setenv("KIQBRIDGE_STACK", "shop")
    command = {"kiqbridge": "publish", "rollback": True}

    assert invoke(command, IOT, alias="iot") is EventError, "no job"
    for allow, alias in ((IOT, ""), (IOT, "$LATEST"), ("", "live")):
        with pytest.raises(ConfigError, match="has no manifest"):
            invoke(command, allow, alias=alias)
