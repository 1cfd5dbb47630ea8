"""The deployed shape of template.yaml: what SAM makes of it, and that it may do no more than it must."""

import re
import tomllib
from pathlib import Path

import pytest
from infra import check_template
from infra.decided import decide
from samtranslator.yaml_helper import yaml_parse
from support.project import template_text

from kiqbridge.aws import minutely
from kiqbridge.config.config import SETTINGS
from kiqbridge.config.function_settings import FUNCTION_SETTINGS
from kiqbridge.config.web_settings import WEB_SETTINGS
from kiqbridge.features.check import command as check
from kiqbridge.features.check.inputs import Application
from kiqbridge.schedule.template import read_schedules
from kiqbridge.schedule.template_view import View

ROOT = Path(__file__).parents[2]
OWN = ROOT / "template.yaml"
SOURCE = template_text()
NESTED = list((ROOT / "infra").glob("*.yaml"))


@pytest.fixture(scope="module")
def translated():
    return check_template.translate(SOURCE)


@pytest.fixture(scope="module")
def functions():
    """The stack of the other functions, as SAM makes it."""
    return check_template.translate((ROOT / "infra/functions.yaml").read_text(encoding="utf-8"))


class TestTheTemplateAsItStands:
    """With whatever rules its owner has written."""

    def test_the_reader_finds_the_same_rules_as_sam(self):
        translated = check_template.translate(OWN.read_text(encoding="utf-8"))

        assert {
            f"{schedule.function.name}{schedule.name}": schedule.expression_text
            for schedule in read_schedules(OWN)
        } == {
            name: schedule["ScheduleExpression"]
            for name, schedule in schedules_of(translated).items()
        }

    @pytest.mark.parametrize("given", [{}, {"CreateSpillFifoQueue": "true", "CreateTick": "true"}])
    def test_the_check_of_users_finds_nothing_in_it(self, given):
        assert check.check_template(OWN, given, Application()) == []


def of_type(translated, kind):
    return {
        name: resource["Properties"]
        for name, resource in translated["Resources"].items()
        if resource["Type"] == kind
    }


def schedules_of(translated):
    """Those that enqueue jobs."""
    found = of_type(translated, "AWS::Scheduler::Schedule")
    function = {"Fn::GetAtt": ["EnqueueFunction", "Arn"]}
    return {name: each for name, each in found.items() if each["Target"]["Arn"] == function}


class TestTranslatedTemplate:
    def test_two_stacks_do_not_collide(self, translated):
        assert all("Name" not in schedule for schedule in schedules_of(translated).values())
        assert (
            of_type(translated, "AWS::Lambda::Function")["EnqueueFunction"]
            .keys()
            .isdisjoint({"FunctionName"})
        )

    def test_only_schedules_of_the_own_group_may_use_the_role(self, translated):
        role = of_type(translated, "AWS::IAM::Role")["ScheduleRole"]

        condition = role["AssumeRolePolicyDocument"]["Statement"][0]["Condition"]["StringEquals"]
        assert condition["aws:SourceArn"] == {"Fn::GetAtt": ["ScheduleGroup", "Arn"]}
        assert condition["aws:SourceAccount"] == {"Ref": "AWS::AccountId"}
        assert check_template.resources_of("lambda:InvokeFunction", role["Policies"]) == [
            {"Fn::GetAtt": ["EnqueueFunction", "Arn"]}
        ]

    def test_a_failed_invocation_ends_in_the_dead_letter_queue(self, translated):
        [config] = [
            each
            for each in of_type(translated, "AWS::Lambda::EventInvokeConfig").values()
            if each["FunctionName"] == {"Ref": "EnqueueFunction"}
        ]

        destination = config["DestinationConfig"]["OnFailure"]["Destination"]
        role = of_type(translated, "AWS::IAM::Role")["EnqueueRole"]
        assert destination in check_template.resources_of("sqs:SendMessage", role["Policies"])

    def test_the_log_is_not_kept_for_ever(self, translated, functions):
        found = 0
        for stack in (translated, functions):
            groups = of_type(stack, "AWS::Logs::LogGroup")
            for name, function in of_type(stack, "AWS::Lambda::Function").items():
                group = name.replace("Function", "LogGroup")
                assert function["LoggingConfig"]["LogGroup"] == {"Ref": group}
                assert groups[group]["RetentionInDays"] == {"Ref": "LogRetentionDays"}
                found += 1
        assert found == 4

    def test_function_and_layer_are_built_for_the_same_architecture(self, translated):
        function = of_type(translated, "AWS::Lambda::Function")["EnqueueFunction"]
        [layer] = of_type(translated, "AWS::Lambda::LayerVersion").values()

        assert function["Architectures"] == layer["CompatibleArchitectures"]
        assert [function["Runtime"]] == layer["CompatibleRuntimes"] == [{"Ref": "Runtime"}]
        assert translated["Parameters"]["Architecture"]["Default"] == "arm64"

    def test_every_parameter_and_output_is_described(self, translated):
        for section in ("Parameters", "Outputs"):
            assert all(entry.get("Description") for entry in translated[section].values())
        assert translated["Parameters"]["RedisUrl"]["NoEcho"] is True

    def test_the_default_is_no_stack_besides(self, translated):
        for switch in (
            *("CreateRedis", "CreateWorkerService", "CreateNetwork", "CreateVpcEndpoints"),
            *("CreateObservability", "CreateSpillFifoQueue", "CreateMonitor", "CreateTick"),
        ):
            assert translated["Parameters"][switch]["Default"] == "false"
        defaults = {
            name: each.get("Default") for name, each in translated["Parameters"].items()
        } | {"CreateSpillQueue": "true"}
        assert {
            name
            for name, output in translated["Outputs"].items()
            if "Condition" not in output
            or decide({"Condition": output["Condition"]}, defaults, translated["Conditions"])
        } == {
            *("EnqueueFunctionArn", "KiqbridgeLayerArn", "EnqueueDeadLetterQueueUrl"),
            *("SpillQueueUrl", "SpillDeadLetterQueueUrl", "SpillKeySecretArn"),
            *("ScheduleGroupName", "SampleSchedules", "AlarmTopicArn"),
        }

    @pytest.mark.parametrize("kind", ["Spill", "SpillFifo"])
    def test_the_function_drains_its_spill_queue_and_gives_up_after_many_attempts(
        self, translated, kind
    ):
        queue = of_type(translated, "AWS::SQS::Queue")[f"{kind}Queue"]
        mapping = of_type(translated, "AWS::Lambda::EventSourceMapping")[f"{kind}Mapping"]
        variables = of_type(translated, "AWS::Lambda::Function")["EnqueueFunction"]["Environment"]
        address = {"Spill": "KIQBRIDGE_SPILL_QUEUE_URL"}.get(kind, "KIQBRIDGE_SPILL_FIFO_QUEUE_URL")

        assert queue["RedrivePolicy"] == {
            "deadLetterTargetArn": {"Fn::GetAtt": [f"{kind}DeadLetterQueue", "Arn"]},
            "maxReceiveCount": {"Ref": "SpillMaxReceives"},
        }
        assert translated["Parameters"]["SpillMaxReceives"]["Default"] == 500
        assert mapping["EventSourceArn"] == {"Fn::GetAtt": [f"{kind}Queue", "Arn"]}
        assert mapping["FunctionName"] == {"Ref": "EnqueueFunction"}
        assert variables["Variables"][address]["Fn::If"] == [
            *(f"Creates{kind}Queue", {"Ref": f"{kind}Queue"}, {"Ref": "AWS::NoValue"}),
        ]

    @pytest.mark.parametrize("kind", ["Spill", "SpillFifo"])
    def test_nobody_but_the_function_sends_to_its_spill_queue(self, translated, kind):
        policies = of_type(translated, "AWS::SQS::QueuePolicy")
        queue = {
            "Fn::If": [f"Creates{kind}Queue", {"Ref": f"{kind}Queue"}, {"Ref": "AWS::NoValue"}]
        }
        [policy] = [each for each in policies.values() if queue in each["Queues"]]
        [statement] = [
            each
            for each in policy["PolicyDocument"]["Statement"]
            if each["Action"] == "sqs:SendMessage"
        ]
        assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
        assert statement["Condition"] == {
            "ArnNotEquals": {"aws:PrincipalArn": {"Fn::GetAtt": ["EnqueueRole", "Arn"]}}
        }

    def test_the_function_alone_reads_the_key_of_what_it_spills(self, translated):
        key = {"Ref": "SpillKeySecret"}
        roles = of_type(translated, "AWS::IAM::Role")
        may_read = {
            name
            for name, role in roles.items()
            for statement in check_template.statements(role["Policies"])
            if key in check_template.as_list(statement["Resource"])
        }
        functions = of_type(translated, "AWS::Lambda::Function")
        variables = functions["EnqueueFunction"]["Environment"]["Variables"]

        assert may_read == {"EnqueueRole"}
        assert variables["KIQBRIDGE_SPILL_KEY_SECRET_ARN"] == {
            "Fn::If": ["Spills", key, {"Ref": "AWS::NoValue"}]
        }
        assert translated["Resources"]["SpillKeySecret"]["Condition"] == "Spills"

    @pytest.mark.parametrize("kind", ["Spill", "SpillFifo"])
    def test_the_function_may_send_what_it_refuses_to_the_dead_letters(self, translated, kind):
        role = of_type(translated, "AWS::IAM::Role")["EnqueueRole"]
        queues = check_template.resources_of("sqs:SendMessage", role["Policies"])

        assert {"Fn::GetAtt": [f"{kind}DeadLetterQueue", "Arn"]} in queues


SPILLING = {"ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage"}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("WebRole", set()),
        ("MinuteFunctionsRole", {"sns:Publish", "kms:GenerateDataKey"}),
        (
            "EnqueueRole",
            {"sqs:SendMessage", "kms:GenerateDataKey", *(f"sqs:{each}" for each in SPILLING)},
        ),
    ],
)
def test_the_role_of_a_function_may_log_trace_and_reach_redis(translated, functions, name, more):
    is_here = name == "EnqueueRole"
    role = of_type(translated if is_here else functions, "AWS::IAM::Role")[name]
    [shared] = of_type(translated, "AWS::IAM::ManagedPolicy").values()
    actions = {
        action
        for statement in check_template.statements([*role["Policies"], shared])
        for action in check_template.as_list(statement["Action"])
        if not action.startswith("ec2:")
    }

    assert role["ManagedPolicyArns"] == [
        {"Ref": "FunctionPolicy" if is_here else "FunctionPolicyArn"}
    ]

    assert actions - more == {
        *("logs:CreateLogStream", "logs:PutLogEvents", "kms:Decrypt"),
        *("secretsmanager:GetSecretValue", "ssm:GetParameter", "elasticache:Connect"),
        *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
    }
    assert more <= actions


def test_the_enqueue_function_logs_in_as_the_user_that_its_role_may_be_and_no_other(translated):
    function = of_type(translated, "AWS::Lambda::Function")["EnqueueFunction"]
    role = of_type(translated, "AWS::IAM::Role")["EnqueueRole"]
    output = {"Fn::GetAtt": ["RedisStack", "Outputs.EnqueueUserId"]}
    [resource] = check_template.resources_of("elasticache:Connect", role["Policies"])
    text, given = resource["Fn::Sub"]

    assert function["Environment"]["Variables"]["REDIS_IAM_USER"]["Fn::If"][:2] == [
        *("CreatesRedis", output),
    ]
    assert text.endswith(":user:${User}")
    assert given["User"]["Fn::If"] == ["CreatesRedis", output, {"Ref": "RedisIamUser"}]


@pytest.mark.parametrize(
    ("name", "user"), [("Monitor", "Worker"), ("Tick", "Worker"), ("Web", "Operator")]
)
def test_so_does_each_other_function(translated, functions, name, user):
    function = of_type(functions, "AWS::Lambda::Function")[f"{name}Function"]
    role = of_type(functions, "AWS::IAM::Role")[function["Role"]["Fn::GetAtt"][0]]
    [resource] = check_template.resources_of("elasticache:Connect", role["Policies"])
    given = translated["Resources"]["FunctionsStack"]["Properties"]["Parameters"][f"{user}User"]
    output = {"Fn::GetAtt": ["RedisStack", f"Outputs.{user}UserId"]}

    assert function["Environment"]["Variables"]["REDIS_IAM_USER"] == {
        "Fn::If": ["UsesIam", {"Ref": f"{user}User"}, {"Ref": "AWS::NoValue"}]
    }
    assert resource["Fn::Sub"].endswith(f":user:${{{user}User}}")
    assert given["Fn::If"] == ["CreatesRedis", output, {"Ref": "RedisIamUser"}]


def test_all_roles_have_the_boundary_of_who_has_one(translated):
    boundary = {
        "Fn::If": [
            "HasPermissionsBoundary",
            {"Ref": "PermissionsBoundary"},
            {"Ref": "AWS::NoValue"},
        ]
    }
    stacks = [translated, *(yaml_parse(path.read_text(encoding="utf-8")) for path in NESTED)]
    roles = [role for stack in stacks for role in of_type(stack, "AWS::IAM::Role").items()]

    assert len(roles) == 8
    assert [name for name, role in roles if role.get("PermissionsBoundary") != boundary] == []


@pytest.mark.parametrize(("given", "taken"), [("", True), ("5", True), ("0", False), ("x", False)])
def test_reserved_concurrency_of_0_which_stops_the_function_is_refused(translated, given, taken):
    pattern = translated["Parameters"]["ReservedConcurrency"]["AllowedPattern"]

    assert bool(re.fullmatch(pattern, given)) is taken


def test_the_other_functions_have_the_way_to_redis_of_the_enqueue_function(translated, functions):
    enqueue = of_type(translated, "AWS::Lambda::Function")["EnqueueFunction"]
    given = translated["Resources"]["FunctionsStack"]["Properties"]["Parameters"]
    vpc = enqueue["VpcConfig"]["Fn::If"][1]
    others = of_type(functions, "AWS::Lambda::Function").values()

    assert given["LayerArn"] == enqueue["Layers"][0]
    assert given["FunctionPolicyArn"] == {"Ref": "FunctionPolicy"}
    for name in ("SubnetIds", "SecurityGroupIds"):
        assert vpc[name]["Fn::Split"] == [",", given[name]]
    for name in ("Architecture", "Runtime", "Tracing", "KmsKeyArn", "Namespace", "LogLevel"):
        assert given[name] == {"Ref": name}
    assert len(others) == 3
    for function in others:
        assert function["Layers"] == [{"Ref": "LayerArn"}]
        assert function["VpcConfig"]["Fn::If"][1] == {
            name: {"Ref": name} for name in ("SubnetIds", "SecurityGroupIds")
        }
        for key in ("Architectures", "Runtime", "TracingConfig", "KmsKeyArn"):
            assert function[key] == enqueue[key]


def test_the_key_under_which_a_function_reads_its_address_is_given_on(translated):
    """Each way to the server: what the enqueue function has as a variable, the others get as a parameter."""
    variables = of_type(translated, "AWS::Lambda::Function")["EnqueueFunction"]["Environment"][
        "Variables"
    ]
    given = translated["Resources"]["FunctionsStack"]["Properties"]["Parameters"]
    condition, address, _ = variables["REDIS_SECRET_ARN"]["Fn::If"]

    assert given["RedisUrlSecretArn"] == {"Fn::If": [condition, address, ""]}
    assert given["RedisSsmParameter"] == {"Ref": "RedisSsmParameter"}
    for name, variable in (("RedisUrl", "REDIS_URL"), ("RedisIamCache", "REDIS_IAM_CACHE")):
        assert given[name]["Fn::If"][:2] == variables[variable]["Fn::If"][:2]
    assert given["RedisUrlVersion"] == variables["REDIS_URL_VERSION"]


class TestFunctionsOfEachMinute:
    @pytest.fixture(params=["Monitor", "Tick"])
    def name(self, request):
        return request.param

    def test_all_of_one_stands_behind_its_condition(self, functions, name):
        for resource in ("Function", "Rule", "LogGroup", "FunctionEventInvokeConfig"):
            assert functions["Resources"][f"{name}{resource}"]["Condition"] == f"Creates{name}"

    def test_its_rule_invokes_it_each_minute_and_repeats_nothing(self, functions, name):
        rule = functions["Resources"][f"{name}Rule"]["Properties"]
        role = of_type(functions, "AWS::IAM::Role")["ScheduleRole"]
        arn = {"Fn::GetAtt": [f"{name}Function", "Arn"]}
        config = functions["Resources"][f"{name}FunctionEventInvokeConfig"]["Properties"]

        assert rule["ScheduleExpression"] == "rate(1 minute)"
        assert (rule["Target"]["Arn"], rule["GroupName"]) == (arn, {"Ref": "ScheduleGroupName"})
        assert rule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0
        assert (config["MaximumRetryAttempts"], config["MaximumEventAgeInSeconds"]) == (0, 60)
        assert {"Fn::If": [f"Creates{name}", arn, {"Ref": "AWS::NoValue"}]} in (
            check_template.resources_of("lambda:InvokeFunction", role["Policies"])
        )

    def test_it_ends_before_the_next_one_begins(self, functions, name):
        function = of_type(functions, "AWS::Lambda::Function")[f"{name}Function"]

        assert minutely.LONGEST_S <= function["Timeout"] < 60

    def test_it_knows_no_more_than_the_enqueue_function(self, translated, functions, name):
        enqueue = of_type(translated, "AWS::Lambda::Function")["EnqueueFunction"]
        ours = of_type(functions, "AWS::Lambda::Function")[f"{name}Function"]

        own, others = ours["Environment"]["Variables"], enqueue["Environment"]["Variables"]
        assert set(own) - set(others) <= {
            "KIQBRIDGE_MONITOR_QUEUES",
            "KIQBRIDGE_MISSED_TICK_SNS_TOPIC_ARN",
        }
        assert {"KIQBRIDGE_ALLOWED_CLASSES", "KIQBRIDGE_SPILL_QUEUE_URL"}.isdisjoint(own)


class TestWebFunction:
    def test_all_of_it_stands_behind_its_condition_and_is_off_by_default(
        self, translated, functions
    ):
        parts = [name for name in functions["Resources"] if name.startswith("Web")]

        assert len(parts) == 5
        conditions = {name: functions["Resources"][name]["Condition"] for name in parts}
        assert set(conditions.values()) == {"ServesWebPage"}
        assert functions["Conditions"]["ServesWebPage"] == {
            "Fn::Equals": [{"Ref": "WebPage"}, "ENABLED"]
        }
        for stack in (translated, functions):
            assert stack["Parameters"]["WebPage"]["Default"] == "DISABLED"
            assert stack["Parameters"]["WebRoles"]["Default"] == "viewer=*"

    def test_only_iam_lets_callers_in(self, functions):
        urls = of_type(functions, "AWS::Lambda::Url")
        function = of_type(functions, "AWS::Lambda::Function")["WebFunction"]

        assert [each["AuthType"] for each in urls.values()] == ["AWS_IAM"]
        assert function["Environment"]["Variables"]["KIQBRIDGE_WEB_IAM"] == "true"
        assert of_type(functions, "AWS::Lambda::Permission") == {}

    def test_what_only_it_needs_is_not_in_the_layer(self):
        names = [
            line
            for line in (ROOT / "lambdas/web/requirements.txt").read_text().splitlines()
            if not line.startswith("#")
        ]
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
            "optional-dependencies"
        ]
        of_page = {re.match(r"[\w-]+", each)[0] for each in extras["web-lambda"]}

        assert set(names) == of_page - {"pyjwt"}
        assert not [each for each in extras["lambda"] if each.startswith(tuple(names))]


class TestSecretsAndNetwork:
    def test_no_variable_of_a_function_shows_a_secret(self, translated, functions):
        shown = [
            each
            for path, stack in ((OWN, translated), (ROOT / "infra/functions.yaml", functions))
            for name in of_type(stack, "AWS::Lambda::Function")
            for each in View(path, {}).secret_variables(name)
        ]

        assert shown == []

    def test_its_code_may_not_use_the_permissions_by_which_lambda_joins_it_to_the_vpc(
        self, translated
    ):
        [policy] = of_type(translated, "AWS::IAM::ManagedPolicy").values()
        deny, *allowed = check_template.statements([policy])
        joining = {
            action for each in allowed for action in each["Action"] if action.startswith("ec2:")
        }

        assert deny["Effect"] == "Deny"
        assert joining and joining <= set(deny["Action"])
        # Only the code of a function has this key; Lambda itself has not.
        [(key, value)] = deny["Condition"]["ArnLike"].items()
        assert key == "lambda:SourceFunctionArn"
        assert value["Fn::Sub"].endswith(":function:*")

    def test_its_variables_are_those_that_the_function_reads(self, translated, functions):
        known = {
            variable
            for setting in (*SETTINGS, *FUNCTION_SETTINGS, *WEB_SETTINGS)
            for variable in setting.env
        }
        # The one that nothing reads makes Lambda start new environments.
        for function in (
            each
            for stack in (translated, functions)
            for each in of_type(stack, "AWS::Lambda::Function").values()
        ):
            assert set(function["Environment"]["Variables"]) - known == {"REDIS_URL_VERSION"}

    def test_the_sample_rule_fires_only_if_it_is_asked_for(self):
        # Other rules are the user's own.
        def fires(**answers):
            return [
                rule.enabled for rule in read_schedules(OWN, answers) if rule.name == "HealthPulse"
            ]

        assert fires(SampleSchedules="ENABLED") == [not enabled for enabled in fires()]
        assert not any(fires())

    def test_tracing_is_off_by_default(self, translated):
        function = of_type(translated, "AWS::Lambda::Function")["EnqueueFunction"]

        assert function["TracingConfig"] == {"Mode": {"Ref": "Tracing"}}
        assert translated["Parameters"]["Tracing"]["Default"] == "PassThrough"

    def test_all_queues_keep_messages_for_14_days_and_are_under_the_key_of_who_has_one(
        self, translated
    ):
        for name, queue in of_type(translated, "AWS::SQS::Queue").items():
            assert queue["KmsMasterKeyId"]["Fn::If"][:2] == ["HasKmsKey", {"Ref": "KmsKeyArn"}], (
                name
            )
            assert queue["SqsManagedSseEnabled"]["Fn::If"][::2] == ["HasKmsKey", True], name
            assert queue["MessageRetentionPeriod"] == 14 * 24 * 3600, name


@pytest.mark.slow
class TestFaultsTheCheckFinds:
    """One fault each, injected into the real template; the check must not stay silent."""

    def test_a_fault_that_ends_the_translation_is_found(self):
        right, wrong = "Handler: app.lambda_handler", "Handlr: app.lambda_handler"
        assert right in SOURCE

        findings = check_template.sam_findings(SOURCE.replace(right, wrong))

        assert any("Handlr" in finding for finding in findings), findings
