"""The example sources of infra/examples, copied into the template; and faults in them that `kiqbridge check` finds."""

import re

import pytest
import yaml
from infra import check_template
from infra.examples import CANARY, example_files, with_examples
from samtranslator.yaml_helper import yaml_parse
from support.project import template_text

from kiqbridge.features.check import command as check
from kiqbridge.features.check.inputs import Application

pytestmark = pytest.mark.slow

SOURCE = template_text()
QUEUE, FIFO, TABLE, STREAM = "queue", "fifo_queue", "table_stream", "data_stream"


@pytest.fixture
def said_of(tmp_path):
    """What `kiqbridge check` says of a template, with a mapping for the bucket."""
    mappings = tmp_path / "lambdas/enqueue/mappings.yml"
    mappings.parent.mkdir(parents=True)
    mappings.write_text("mappings: [{match: {source: s3}, class: HealthPulse, args: [bucket]}]\n")

    def said_of(template):
        path = tmp_path / "template.yaml"
        path.write_text(yaml.safe_dump(template, sort_keys=False), encoding="utf-8")
        return check.check_template(path, {}, Application())

    return said_of


def merged(*names):
    return with_examples(SOURCE, [file for file in example_files() if file.stem in names])


def event(template, name):
    return template["Resources"]["EnqueueFunction"]["Properties"]["Events"][name]["Properties"]


def properties(template, name):
    return template["Resources"][name]["Properties"]


def test_there_is_one_for_each_kind_of_source():
    assert [file.stem for file in example_files()] == [
        *("bucket", "data_stream", "event_bus", "fifo_queue", "function_url"),
        *("http_api", "queue", "schedules", "table_stream", "topic"),
    ]


def test_all_of_them_together_are_clean(said_of):
    template = with_examples(SOURCE, example_files())

    assert set(template["Resources"]["EnqueueFunction"]["Properties"]["Events"]) >= {
        *("Orders", "Ledger", "Notices", "Uploads", "Customers", "Clicks", "PostJobs"),
        *("OrderPlaced", "HealthPulse"),
    }
    assert said_of(template) == []
    assert check_template.parsed_findings(template) == []


def test_a_canary_shifts_what_the_schedules_invoke_and_goes_back_at_errors_and_refusals():
    template = with_examples(SOURCE, [CANARY])
    translated = check_template.translate_parsed(with_examples(SOURCE, [CANARY]))
    alias = {"Ref": "EnqueueFunctionAliaslive"}
    made = translated["Resources"]
    group = made["EnqueueFunctionDeploymentGroup"]["Properties"]

    assert check_template.parsed_findings(template) == []
    assert made["EnqueueFunctionHealthPulse"]["Properties"]["Target"]["Arn"] == alias
    policies = properties(translated, "ScheduleRole")["Policies"]
    assert alias in check_template.resources_of("lambda:InvokeFunction", policies)
    condition, watched, _ = group["AlarmConfiguration"]["Fn::If"]
    assert (condition, watched["Enabled"]) == ("CreatesObservability", True)
    assert [each["Name"]["Fn::GetAtt"] for each in watched["Alarms"]] == [
        ["ObservabilityStack", "Outputs.ErrorsAlarmName"],
        ["ObservabilityStack", "Outputs.RefusedAlarmName"],
    ]
    assert "CodeDeployServiceRole" not in made
    variables = properties(translated, "EnqueueFunction")["Environment"]["Variables"]
    assert variables["KIQBRIDGE_TRUSTED_ALIAS"] == "live"


def test_whoever_has_copied_one_can_copy_the_others():
    copied = with_examples(SOURCE, [file for file in example_files() if file.stem == QUEUE])

    again = merged(QUEUE, QUEUE)

    assert properties(again, "EnqueueRole") == properties(copied, "EnqueueRole")


def snippets():
    """What docs/reference/sources shows of the template: events and resources, by their names."""
    for page in sorted((check_template.TEMPLATE.parent / "docs/reference/sources").glob("*.md")):
        for text in re.findall(
            r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            if "Properties:" in text or "FunctionUrlConfig:" in text:
                for name, shown in yaml_parse(text).items():
                    yield pytest.param(name, shown, id=f"{page.stem}-{name}")


@pytest.mark.parametrize(("name", "shown"), list(snippets()))
def test_what_the_documents_show_is_what_sam_takes(said_of, name, shown):
    template = with_examples(SOURCE, example_files())
    function = properties(template, "EnqueueFunction")
    if name == "FunctionUrlConfig":
        function[name] = shown
    elif shown["Type"].startswith("AWS::"):
        template["Resources"][name] = shown
    else:
        function["Events"][name] = shown

    assert said_of(template) == []
    check_template.translate_parsed(template)


def short_visibility(template):
    properties(template, "OrdersQueue")["VisibilityTimeout"] = 60


def no_redrive(template):
    del properties(template, "OrdersQueue")["RedrivePolicy"]


def batch_without_window(template):
    event(template, "Orders").update(BatchSize=100, MaximumBatchingWindowInSeconds=0)


def window_of_fifo(template):
    event(template, "Ledger")["MaximumBatchingWindowInSeconds"] = 1


def policy_left_out(template):
    properties(template, "EnqueueRole")["Policies"].pop()


def no_delete(template):
    policy = properties(template, "EnqueueRole")["Policies"][-1]
    policy["PolicyDocument"]["Statement"][0]["Action"].remove("sqs:DeleteMessage")


def unbounded_retries(template):
    del event(template, "Customers")["MaximumRetryAttempts"]


def no_bisect(template):
    del event(template, "Clicks")["BisectBatchOnFunctionError"]


def nowhere_to_give_up(template):
    del event(template, "Clicks")["DestinationConfig"]


def may_not_give_up(template):
    [statement] = [
        statement
        for policy in properties(template, "EnqueueRole")["Policies"]
        for statement in policy.get("PolicyDocument", {}).get("Statement", [])
        if statement["Action"] == "sqs:SendMessage"
    ]
    statement["Resource"] = "arn:aws:sqs:eu-west-1:123456789012:another"


def open_route(template):
    event(template, "PostJobs")["Auth"] = {"Authorizer": "NONE"}


def dead_letter_statement_left_out(template):
    properties(template, "EnqueueDeadLetterQueuePolicy")["PolicyDocument"]["Statement"].pop()


def any_rule_of_the_name(template):
    statement = properties(template, "EnqueueDeadLetterQueuePolicy")["PolicyDocument"]["Statement"]
    name = "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:rule/${AWS::StackName}-*"
    statement[-1]["Condition"] = {"ArnEquals": {"aws:SourceArn": {"Fn::Sub": name}}}


def any_topic(template):
    statement = properties(template, "EnqueueDeadLetterQueuePolicy")["PolicyDocument"]["Statement"]
    del statement[-1]["Condition"]


FAULTS = [
    (QUEUE, short_visibility, "VisibilityTimeout 60 of its queue is less than six times"),
    (QUEUE, no_redrive, "RedrivePolicy"),
    (QUEUE, batch_without_window, "BatchSize 100 needs a MaximumBatchingWindowInSeconds"),
    (FIFO, window_of_fifo, "a FIFO queue has no batching window"),
    (QUEUE, no_delete, "may not sqs:DeleteMessage,"),
    (TABLE, policy_left_out, "dynamodb:GetRecords"),
    (STREAM, policy_left_out, "kinesis:GetRecords"),
    (TABLE, unbounded_retries, "write MaximumRetryAttempts"),
    (STREAM, no_bisect, "write BisectBatchOnFunctionError"),
    (STREAM, nowhere_to_give_up, "write DestinationConfig"),
    (STREAM, may_not_give_up, "allow sqs:SendMessage"),
    ("http_api", open_route, "anybody on the internet may call it"),
    ("event_bus", dead_letter_statement_left_out, "!GetAtt EnqueueFunctionOrderPlaced.Arn"),
    ("event_bus", any_rule_of_the_name, "wider than the stack"),
    ("topic", any_topic, "write a Condition with aws:SourceArn"),
]


@pytest.mark.parametrize(
    ("example", "fault", "found"),
    FAULTS,
    ids=[f"{example}-{fault.__name__}" for example, fault, _ in FAULTS],
)
def test_a_fault_in_a_source_is_found(said_of, example, fault, found):
    template = merged(example)
    fault(template)

    findings = said_of(template)

    assert any(found in finding for finding in findings), findings


@pytest.mark.parametrize("file", [*example_files(), CANARY], ids=lambda file: file.stem)
def test_an_example_by_itself_has_none(said_of, file):
    assert said_of(with_examples(SOURCE, [file])) == []
