"""Every recorded event is read as what it is, and no changed one brings the function down.

`events/README.md` names where each was recorded. `sam/` is what `sam local generate-event` writes.
"""

import copy
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.enqueue_function import EVENTS, ROOT, read_event
from support.parsed_event import parse_event
from support.proving import sized
from support.sources import closed, opened, outcome, places, recorded
from support.strategies import JSON_VALUES

from kiqbridge.aws import sources
from kiqbridge.aws.record import Result
from kiqbridge.aws.requests import read_jobs
from kiqbridge.aws.sources import services
from kiqbridge.errors import EventError, PayloadError

OUTCOMES = {
    "amazon_mq": "amazon-mq: no job",
    "authorizer_v2": "refused: event: the question of an authorizer (HTTP API)",
    "bedrock_agent": "bedrock-agent: no job",
    "bus_alarm": "bus: no job by event",
    "bus_batch": "bus: no job by event",
    "bus_codepipeline": "bus: no job by event",
    "bus_destination": "bus: job in destination by destination",
    "bus_ec2": "bus: no job by event",
    "bus_ecs": "bus: no job by event",
    "bus_event": "bus: job by event",
    "bus_event_jobs": "bus: job by event",
    "bus_event_replayed": "bus: job by replay",
    "bus_s3_deleted": "bus: no job by s3",
    "bus_saas": "bus: no job by event",
    "bus_step_functions": "bus: no job by event",
    "cloudwatch_alarm": "cloudwatch-alarm: no job by service",
    "codecommit_push": "codecommit: no job by service",
    "codedeploy_hook": "codedeploy: no job by service",
    "cognito_post_confirmation": "cognito: no job",
    "destination_failure": "destination: no job by destination",
    "destination_success": "destination: job by destination",
    "direct_beside_others": "direct: job",
    "direct_many": "direct: job",
    "direct_one": "direct: job",
    "dynamodb_change": "dynamodb: no job by dynamodb",
    "dynamodb_expired": "dynamodb: no job by dynamodb",
    "dynamodb_outbox": "dynamodb: job by dynamodb, job by dynamodb",
    "failed_batch": "failed-batch: no job by service",
    "http/alb_health_check": "http: done",
    "http/api_iam": "http: job",
    "http/url_open": "http: error",
    "iot_button": "iot-button: no job",
    "iot_registry": "iot-registry: no job by service",
    "iot_rule": "direct: no job",
    "iot_rule_job": "direct: job",
    "kafka": "kafka: no job",
    "kinesis_aggregated": "kinesis: error",
    "kinesis_jobs": "kinesis: job by kinesis, job by kinesis, job by kinesis",
    "kinesis_logs": "kinesis: no job in logs by service",
    "logs_control": "logs: done",
    "pipe_kinesis": "kinesis: job by kinesis",
    "pipe_sqs": "sqs: job by sqs",
    "rabbit_mq": "rabbit-mq: no job",
    "rule_input_transformer": "direct: no job",
    "rule_tick": "direct: job",
    "rule_without_input": "schedule: no job by schedule",
    "s3_batch_v2": "s3-batch: no job by service",
    "s3_object_created": "bus: no job by s3",
    "s3_object_lambda": "refused: event: a request of S3 Object Lambda",
    "s3_put": "s3: no job by s3",
    "s3_removed": "s3: no job by s3",
    "s3_restored": "s3: no job by s3",
    "sam/alexa_skills_kit_end_session": "alexa-skill: no job by service",
    "sam/alexa_skills_kit_intent_answer": "alexa-skill: no job by service",
    "sam/alexa_skills_kit_intent_getnewfact": "alexa-skill: no job by service",
    "sam/alexa_skills_kit_intent_mycoloris": "alexa-skill: no job by service",
    "sam/alexa_skills_kit_intent_recipe": "alexa-skill: no job by service",
    "sam/alexa_skills_kit_start_session": "alexa-skill: no job by service",
    "sam/alexa_smart_home_smart_home_control_turn_off_request": "alexa-smart-home: no job by service",
    "sam/alexa_smart_home_smart_home_control_turn_on_request": "alexa-smart-home: no job by service",
    "sam/alexa_smart_home_smart_home_discovery_request": "alexa-smart-home: no job by service",
    "sam/apigateway_authorizer": "refused: event: the question of an authorizer (API Gateway)",
    "sam/apigateway_request_authorizer": "refused: event: the question of an authorizer (API Gateway)",
    "sam/appsync_resolver": "appsync: no job",
    "sam/batch_get_job": "batch: no job",
    "sam/batch_submit_job": "direct: no job",
    "sam/cloudformation_create_request": "cloudformation: no job by service",
    "sam/cloudfront_ab_test": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudfront_access_request_in_response": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudfront_http_redirect": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudfront_modify_querystring": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudfront_modify_response_header": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudfront_multiple_remote_calls_aggregate_response": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudfront_normalize_querystring_to_improve_cache_hit": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudfront_redirect_on_viewer_country": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudfront_redirect_unauthenticated_users": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudfront_response_generation": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudfront_serve_object_on_viewer_device": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudfront_simple_remote_call": "refused: event: a request at the edge (CloudFront)",
    "sam/cloudwatch_logs": "logs: no job by service",
    "sam/cloudwatch_scheduled_event": "schedule: no job by schedule",
    "sam/codecommit_repository": "codecommit: done",
    "sam/codepipeline_job": "codepipeline: no job by service",
    "sam/cognito_sync_trigger": "cognito-sync: no job",
    "sam/config_item_change_notification": "config: no job by service",
    "sam/config_oversized_item_change_notification": "config: no job by service",
    "sam/config_periodic_rule": "config: no job by service",
    "sam/connect_contact_flow_event": "connect: no job",
    "sam/dynamodb_update": "dynamodb: no job by dynamodb, no job by dynamodb, no job by dynamodb",
    "sam/kinesis_analytics": "refused: event: a preprocessing of Kinesis Data Analytics",
    "sam/kinesis_analytics_compressed": "refused: event: a preprocessing of Kinesis Data Analytics",
    "sam/kinesis_analytics_dynamodb": "refused: event: a preprocessing of Kinesis Data Analytics",
    "sam/kinesis_analytics_kpl": "refused: event: a preprocessing of Kinesis Data Analytics",
    "sam/kinesis_apachelog": "refused: event: a transformation of Data Firehose",
    "sam/kinesis_cloudwatch_logs_processor": "refused: event: a transformation of Data Firehose",
    "sam/kinesis_get_records": "kinesis: no job by kinesis",
    "sam/kinesis_kinesis_firehose": "refused: event: a transformation of Data Firehose",
    "sam/kinesis_streams_as_source": "refused: event: a transformation of Data Firehose",
    "sam/kinesis_syslog": "refused: event: a transformation of Data Firehose",
    "sam/lex_book_car": "lex: no job",
    "sam/lex_book_hotel": "lex: no job",
    "sam/lex_make_appointment": "lex: no job",
    "sam/lex_order_flowers": "lex: no job",
    "sam/lex_v2_banking_bot": "lex-v2: no job",
    "sam/lex_v2_book_car": "lex-v2: no job",
    "sam/lex_v2_book_hotel": "lex-v2: no job",
    "sam/rekognition_s3_request": "s3: no job by s3",
    "sam/s3_batch_invocation": "s3-batch: no job by service",
    "sam/s3_delete": "s3: no job by s3",
    "sam/s3_put": "s3: no job by s3",
    "sam/sagemaker_ground_truth_annotation_consolidation": "sagemaker: no job",
    "sam/sagemaker_ground_truth_pre_human": "sagemaker: no job",
    "sam/ses_email_receiving": "ses: no job by service",
    "sam/sns_notification": "sns: no job by sns",
    "sam/sqs_receive_message": "sqs: no job by sqs",
    "sam/stepfunctions_error": "step-functions-error: no job",
    "sam/workmail_email": "workmail: no job by service",
    "scheduler_list": "direct: job",
    "scheduler_text": "direct: job",
    "scheduler_tick": "direct: job",
    "scheduler_tick_many": "direct: job",
    "scheduler_without_input": "schedule: no job by schedule",
    "secrets_manager_rotation": "secrets-manager: no job by service",
    "sns_alarm": "sns: no job by sns",
    "sns_bus": "sns: job in bus by event",
    "sns_job": "sns: job by sns",
    "sns_s3": "sns: no job in s3 by s3",
    "sns_s3_test": "sns: ignored",
    "sqs_autoscaling_test": "sqs: ignored",
    "sqs_bus": "sqs: job in bus by event",
    "sqs_bus_s3": "sqs: no job in bus by s3",
    "sqs_dead_letter": "sqs: job by sqs",
    "sqs_destination": "sqs: job in destination by destination",
    "sqs_fifo": "sqs: job by sqs_fifo, job by sqs_fifo",
    "sqs_records": "sqs: job by sqs",
    "sqs_s3": "sqs: 3 parts in s3",
    "sqs_s3_one": "sqs: no job in s3 by s3",
    "sqs_s3_test": "sqs: ignored",
    "sqs_sns": "sqs: job in sns by sns",
    "sqs_sns_raw": "sqs: job by sqs",
    "sqs_sns_s3": "sqs: no job in s3 by s3",
    "transfer_identity": "refused: event: the question for an identity (Transfer Family)",
    "warm_up_key": "warm-up: done",
    "warm_up_plugin": "warm-up: done",
    "warm_up_warmer": "warm-up: done",
}
"""Event → its source, and for each record: whether it is a job, what it carries, what identifies it."""


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_recorded_event_is_read_as_what_it_is(name):
    assert outcome(recorded(name)) == OUTCOMES[name]


def test_no_event_of_the_generator_is_left_out():
    names = {f"sam/{path.stem}" for path in (EVENTS / "sam").glob("*.json")}

    assert names == {name for name in OUTCOMES if name.startswith("sam/")}
    assert len(names) == 65


def test_each_recorded_event_is_named_with_its_source():
    text = (EVENTS / "README.md").read_text(encoding="utf-8")

    assert [path.stem for path in EVENTS.glob("*.json") if f"`{path.stem}`" not in text] == []


TABLES = [(sources, "OF_RECORDS"), (sources, "BY_KEYS"), (services, "FORMS")]


@pytest.mark.parametrize(
    ("module", "table", "row"),
    [
        pytest.param(module, table, row, id=f"{table}-{row}")
        for module, table in TABLES
        for row in getattr(module, table)
    ],
)
def test_a_row_that_is_taken_out_of_a_table_is_missed(monkeypatch, module, table, row):
    rows = {name: value for name, value in getattr(module, table).items() if name != row}
    monkeypatch.setattr(module, table, rows)

    assert any(outcome(recorded(name)) != expected for name, expected in OUTCOMES.items())


# Unknown events


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (
            None,
            "event: None is not an object, nor the text or the list of jobs; send a job such as",
        ),
        ("hello", "event: 'hello' is not an object"),
        ("[1, 2]", "event: '[1, 2]' is not an object"),
        ([], "event: [] is not an object"),
        ([{"class": "A", "args": []}, 5], "is not an object, nor the text"),
        ({"orderId": 5}, "event: {'orderId': 5} holds no job; it needs the keys class and args"),
        ({"Records": []}, "Records: [] is not a list with at least one record; an invocation"),
        ({"Records": "x"}, "Records: 'x' is not a list"),
        ({"Records": [5]}, "Records[0]: 5 is not an object"),
        ({"Records": [{}]}, "Records: records of None are of no service that this function knows"),
        ({"Records": [{"eventSource": "aws:new"}]}, "Records: records of 'aws:new' are of no serv"),
    ],
    ids=str,
)
def test_what_is_unknown_is_refused_with_what_was_seen(event, message):
    with pytest.raises(EventError) as raised:
        parse_event(event, 1e9)

    assert message in str(raised.value)


@pytest.mark.parametrize(
    "event",
    [
        {"source": "serverless-plugin-warmup"},
        {"source": "warmup"},
        {"keep-warm": {"functions": 3}},
        {"warmer": True, "concurrency": 3},
    ],
    ids=str,
)
def test_a_ping_that_keeps_warm_is_answered(invoke, redis, event):
    assert invoke(event) == {"enqueued": [], "duplicates": [], "stale": []}

    assert redis.dbsize() == 0


def test_a_job_is_no_ping_whatever_stands_beside_it(invoke):
    assert invoke(read_event("direct_one") | {"warmup": True})["enqueued"]


def test_a_record_of_another_service_fails_alone(invoke, redis):
    event = recorded("sqs_fifo")
    event["Records"][1]["eventSource"] = "aws:s3"

    answer = invoke(event)

    assert [each["itemIdentifier"] for each in answer["batchItemFailures"]] == [
        event["Records"][1]["messageId"]
    ]
    assert redis.llen("queue:default") == 1


def test_of_a_pipe_the_failed_messages_are_answered_as_of_a_queue(invoke, redis):
    messages = recorded("pipe_sqs")
    bad = messages[0] | {"messageId": "bad", "body": "no json"}

    assert invoke([*messages, bad]) == {"batchItemFailures": [{"itemIdentifier": "bad"}]}

    assert redis.llen("queue:default") == 1


# Changed events

VALUES = st.one_of(
    JSON_VALUES,
    st.sampled_from(
        [
            {"class": "HealthPulse", "args": []},
            [{"class": "HealthPulse", "args": []}],
            "\ud800",
            "AAEC",
            "H4sIAAAAAAAAA6tWSlSyUkpSqgUAcZzqpQoAAAA=",
            "[" * 300,
            json.loads("[" * 500 + "]" * 500),
            json.loads('{"M": {"a": ' * 200 + "{}" + "}}" * 200),
        ]
    ),
)


@st.composite
def changed(draw):
    """A recorded event in which a few things are missing or are something else."""
    event = copy.deepcopy(opened(recorded(draw(st.sampled_from(sorted(OUTCOMES))))))
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(event))
        if not found:
            break
        container, key = found[draw(st.integers(0, len(found) - 1))]
        if draw(st.booleans()):
            container[key] = copy.deepcopy(draw(VALUES))
        else:
            del container[key]
    return closed(event)


@given(event=changed())
@settings(max_examples=sized(full=3000, sample=80))
def test_a_changed_event_is_read_or_refused_and_nothing_else(event):
    """Any other exception would end the invocation with a message for nobody."""
    try:
        delivery = sources.read(event)
    except EventError:
        return
    results = []
    for record in delivery.records:
        try:
            read_jobs(record, 1e9)
            results.append(Result(record=record))
        except (EventError, PayloadError) as error:
            results.append(Result(record=record, error=error))
    if delivery.answer is not None:
        json.dumps(delivery.answer(results))


@given(
    event=st.one_of(
        JSON_VALUES,
        st.dictionaries(
            st.sampled_from(
                [
                    "Records",
                    "detail-type",
                    "awslogs",
                    "tasks",
                    "invocationSchemaVersion",
                    "requestContext",
                    "requestPayload",
                    "source",
                    "methodArn",
                ]
            ),
            VALUES,
            min_size=1,
        ),
    )
)
@settings(max_examples=sized(full=2000, sample=60))
def test_any_value_is_read_or_refused(event):
    try:
        delivery = sources.read(event)
        for record in delivery.records:
            read_jobs(record, 1e9)
    except (EventError, PayloadError):
        pass


# What is loaded

LOADED = """
import json, sys
from kiqbridge.aws import sources
before = set(sys.modules)
sources.read(json.loads(sys.argv[1]))
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("direct_one", "direct"),
        ("sqs_records", "carried queues"),
        ("bus_event", "carried event_bridge"),
    ],
)
def test_an_event_loads_its_own_source_only(name, modules):
    result = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(recorded(name))],
        cwd=ROOT / "worker",
        capture_output=True,
        text=True,
        check=True,
    )

    prefix = "kiqbridge.aws.sources."
    assert result.stdout.split() == [f"{prefix}{module}" for module in modules.split()]
