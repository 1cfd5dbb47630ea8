"""All other services: each event of one is mapped by its source, and enqueued once if the service says so."""

import json
from pathlib import Path

import pytest
from support.enqueue_function import read_event
from support.sources import outcome, recorded, records_of

from kiqbridge import EventError
from kiqbridge.features.service_events.services import FORMS, at

MAPPED = json.loads(Path(__file__).with_name("mapped.json").read_text(encoding="utf-8"))
REFUSED = {
    "sam/cloudfront_ab_test": "a request at the edge (CloudFront) cannot become a job: it waits for an",
    "sam/kinesis_kinesis_firehose": "Firehose waits for the transformed records; attach the function to",
    "sam/kinesis_syslog": "a transformation of Data Firehose cannot become a job",
    "sam/kinesis_analytics": "a preprocessing of Kinesis Data Analytics cannot become a job",
    "sam/apigateway_authorizer": "it asks for a policy; let a route of the API enqueue instead",
    "sam/apigateway_request_authorizer": "it asks for a policy",
    "authorizer_v2": "the question of an authorizer (HTTP API) cannot become a job",
    "s3_object_lambda": "it waits for the object; use a notification of the bucket",
    "transfer_identity": "it waits for the user's rights",
    "vpc_lattice": "a request of VPC Lattice cannot become a job: this function cannot know who sent it",
    "vpc_lattice_v1": "a request of VPC Lattice (event structure V1) cannot become a job",
    "websocket_message": "a message of a WebSocket API (API Gateway) cannot become a job: only its $connect",
    "appsync_batch": "a batch of fields (AppSync) cannot become a job: AppSync waits for a list",
    "appsync_channel": "an event of a channel (AppSync Events) cannot become a job",
    "appsync_authorizer": "the question of an authorizer (AppSync) cannot become a job",
    "iot_authorizer": "let a rule of AWS IoT enqueue instead",
    "cloudwatch_widget": "the question of a custom widget (CloudWatch) cannot become a job",
    "cloudformation_macro": "a macro (CloudFormation) cannot become a job",
    "cloudformation_hook": "a Lambda hook (CloudFormation) cannot become a job",
}


@pytest.mark.parametrize("name", MAPPED)
def test_an_event_is_mapped_by_its_source_and_enqueued_once_if_it_has_an_identity(
    mapped, redis, name
):
    source, facets = MAPPED[name]
    invoke = mapped(f"mappings: [{{match: {{source: {source}}}, class: HealthPulse, args: []}}]")
    [record] = records_of(recorded(name))

    answers = [invoke(recorded(name)) for _ in range(2)]

    assert (record.source, record.facets) == (source, facets)
    assert redis.llen("queue:default") == (1 if record.identity else 2)
    if not FORMS[source].returns_event:
        assert [len(answer["enqueued"]) for answer in answers] == [1, 0 if record.identity else 1]


@pytest.mark.parametrize("name", REFUSED)
def test_what_waits_for_an_answer_that_no_job_gives_is_refused_whatever_a_mapping_says(
    mapped, redis, name
):
    with pytest.raises(EventError) as raised:
        mapped("mappings: [{match: {source: '*'}, class: HealthPulse, args: []}]")(recorded(name))

    assert REFUSED[name] in str(raised.value)
    assert redis.dbsize() == 0


def test_every_form_is_tried_with_an_event():
    tried = {source for source, _ in MAPPED.values()}
    refused = {name for name, form in FORMS.items() if form.refused}

    assert tried | refused == set(FORMS)
    assert tried & refused == set()


@pytest.mark.parametrize("name", ["cognito_post_confirmation", "sam/cognito_sync_trigger"])
def test_a_trigger_of_cognito_gets_its_event_back(mapped, name):
    """A user pool goes on only with its own event as the answer."""
    invoke = mapped("mappings: [{match: {source: 'cognito*'}, class: HealthPulse, args: []}]")

    assert invoke(recorded(name)) == recorded(name)


def test_a_trigger_of_cognito_that_is_refused_ends_the_invocation(invoke):
    with pytest.raises(EventError, match="event: an event of cognito holds no job by itself"):
        invoke(read_event("cognito_post_confirmation"))


def test_a_test_event_of_codecommit_is_answered(mapped, redis):
    invoke = mapped("mappings: [{match: {source: codecommit}, class: HealthPulse, args: []}]")

    assert invoke(recorded("sam/codecommit_repository")) is None
    assert redis.dbsize() == 0


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("cloudwatch_alarm", ("alarmData", "state", "timestamp"), "2026-11-20T03:00:00.000+0000"),
        ("secrets_manager_rotation", ("Step",), "setSecret"),
        ("iot_registry", ("eventId",), "other"),
        ("codedeploy_hook", ("LifecycleEventHookExecutionId",), "other"),
        ("sam/cloudformation_create_request", ("RequestId",), "other"),
        ("sam/codepipeline_job", ("CodePipeline.job", "id"), "other"),
        ("sam/config_periodic_rule", ("resultToken",), "other"),
    ],
)
def test_another_event_of_a_service_is_another_job(mapped, redis, name, path, value):
    invoke = mapped("mappings: [{match: {source: '*'}, class: HealthPulse, args: []}]")
    event = recorded(name)
    place = event
    for step in path[:-1]:
        place = place[step]
    invoke(event)

    place[path[-1]] = value
    invoke(event)

    assert redis.llen("queue:default") == 2


def test_an_event_that_lacks_a_part_of_its_identity_has_none():
    """It cannot be said that it is a repetition; taking it for one would lose a job."""
    event = read_event("cloudwatch_alarm")
    del event["alarmData"]["state"]["timestamp"]

    [record] = records_of(event)

    assert record.identity is None


def test_a_refusal_shows_none_of_the_secrets_of_an_event(invoke):
    """An action of CodePipeline carries credentials."""
    with pytest.raises(EventError) as raised:
        invoke(recorded("sam/codepipeline_job"))

    assert "source: 'codepipeline'" in str(raised.value)
    assert "EXAMPLEKEY" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", None),
        ("a", {"b": [1, {"c.d": 2}]}),
        ("a.b.0", 1),
        ("a.b.1.c/d", 2),
        ("a.b.2", None),
        ("a.b.x", None),
        ("a.x.y", None),
        ("a.b.0.x", None),
    ],
)
def test_a_path_leads_to_a_value_or_to_nothing(path, found):
    assert at({"a": {"b": [1, {"c.d": 2}]}}, path) == found


def test_an_identity_that_redis_cannot_take_is_refused():
    assert outcome(read_event("iot_registry", eventId="\ud800")).startswith("refused: event[0]")


def test_a_long_identity_is_a_digest_so_that_no_content_is_logged(mapped, redis, capsys):
    """The identity of an evaluation of AWS Config is the changed item itself."""
    invoke = mapped("mappings: [{match: {source: config}, class: HealthPulse, args: []}]")
    event = recorded("sam/config_item_change_notification")
    other = event | {"invokingEvent": event["invokingEvent"].replace("i-00000000", "i-00000001")}

    for each in (event, event, other):
        invoke(each)

    assert redis.llen("queue:default") == 2
    assert "configurationItem" not in capsys.readouterr().out
