"""The stack as moto creates it from the translated template: its resources, looked at with boto3.

What moto does not know in CloudFormation (moto_stack.py: schedules, ElastiCache, secrets, queue policies)
and what it forgets (a function's layers and architecture, a service's network and launch type) is
asserted on the templates: test_template.py, test_nested_templates.py, test_worker_service.py.
"""

import ast
import io
import json
import zipfile

import boto3
import pytest
from infra import check_template
from infra.moto_stack import STAND_IN, creatable
from moto import mock_aws
from samtranslator.yaml_helper import yaml_parse

pytestmark = pytest.mark.slow

INFRA = check_template.TEMPLATE.parent / "infra"
BUCKET = "bucket"  # what check_template.UPLOADED names
STACK = "kiqbridge-test"
URL = "rediss://user:not-a-real-password@redis.example:6379/0"


@pytest.fixture(scope="module")
def aws():
    """An AWS account in this process, with a network, an uploaded function and a secret."""
    with pytest.MonkeyPatch.context() as patch, mock_aws(config={"lambda": {"use_docker": False}}):
        patch.setenv("AWS_DEFAULT_REGION", check_template.REGION)
        s3 = boto3.client("s3")
        s3.create_bucket(
            Bucket=BUCKET,
            CreateBucketConfiguration={"LocationConstraint": check_template.REGION},
        )
        s3.put_object(Bucket=BUCKET, Key="key", Body=zipped("def lambda_handler(*_): ..."))
        yield boto3.Session()


@pytest.fixture(scope="module")
def network(aws):
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{index}.0/24")["Subnet"]["SubnetId"]
        for index in range(2)
    ]
    return {"VpcId": vpc, "SubnetIds": ",".join(subnets)}


@pytest.fixture(scope="module")
def secret(aws):
    return aws.client("secretsmanager").create_secret(Name="redis", SecretString=URL)["ARN"]


def zipped(source):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("app.py", source)
    return content.getvalue()


def create(aws, name, template, parameters):
    """Create a stack and return logical id -> physical id, and the outputs."""
    cloudformation = aws.client("cloudformation")
    cloudformation.create_stack(
        StackName=name,
        TemplateBody=json.dumps(template),
        Parameters=[
            {"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()
        ],
        Capabilities=["CAPABILITY_IAM"],
    )
    [stack] = cloudformation.describe_stacks(StackName=name)["Stacks"]
    resources = cloudformation.describe_stack_resources(StackName=name)["StackResources"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    ids = {
        resource["LogicalResourceId"]: resource.get("PhysicalResourceId")
        for resource in resources
        if "LogicalResourceId" in resource  # those behind a condition that is off have none
    }
    return ids, outputs


def policies_of(aws, role):
    iam = aws.client("iam")
    return [
        plain(iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"])
        for name in iam.list_role_policies(RoleName=role)["PolicyNames"]
    ]


def plain(document):
    """A policy document; moto tells those from templates as Python and not as JSON."""
    return ast.literal_eval(document) if isinstance(document, str) else document


def allowed(aws, role):
    """Return action -> resources of a role that was created."""
    found = {}
    for document in policies_of(aws, role):
        for statement in document["Statement"]:
            for action in check_template.as_list(statement["Action"]):
                found.setdefault(action, []).extend(check_template.as_list(statement["Resource"]))
    return found


@pytest.fixture(scope="module")
def root(aws, secret):
    """The stack with its defaults: the function, its queue, roles and log."""
    translated = check_template.translate(check_template.TEMPLATE.read_text(encoding="utf-8"))
    holding = frozenset({"CreatesSpillQueue", "HasSecretArn"})
    template, left_out = creatable(translated, holding=holding)
    ids, outputs = create(aws, STACK, template, {"RedisUrlSecretArn": secret})
    assert left_out >= {"ScheduleGroup", "EnqueueDeadLetterQueuePolicy"}
    return ids, outputs


@pytest.fixture(scope="module")
def worker(aws, network, secret):
    """The worker's stack on its own."""
    text = (INFRA / "worker_service.yaml").read_text(encoding="utf-8")
    holding = frozenset({"PullsFromEcr", "HasSecret"})
    template, left_out = creatable(yaml_parse(text), holding=holding)
    assert left_out == set()
    ids, outputs = create(
        aws,
        "worker",
        template,
        {
            **network,
            "Command": template["Parameters"]["Command"]["Default"],  # moto splits no default
            "RedisUrlSecretArn": secret,
            "ImageUri": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/worker:1",
            "ImageRepositoryArn": "arn:aws:ecr:eu-west-1:123456789012:repository/team/worker",
        },
    )
    return ids, outputs


@pytest.fixture(scope="module")
def whole(aws, network, secret):
    """The stack in a network, with the address in a secret, and the worker's stack nested."""
    text = (INFRA / "worker_service.yaml").read_text(encoding="utf-8")
    nested, _ = creatable(yaml_parse(text), holding=frozenset({"HasSecret"}))
    aws.client("s3").put_object(Bucket=BUCKET, Key="worker", Body=json.dumps(nested))
    translated = check_template.translate(check_template.TEMPLATE.read_text(encoding="utf-8"))
    template, _ = creatable(translated, holding=frozenset({"InVpc", "HasSecretArn"}))
    stack = template["Resources"]["WorkerServiceStack"]["Properties"]
    stack["TemplateURL"] = f"https://s3.amazonaws.com/{BUCKET}/worker"
    ids, _ = create(
        aws,
        "whole",
        template,
        {
            **network,
            "SecurityGroupIds": "sg-12345678",
            "RedisUrlSecretArn": secret,
            "RedisUrlVersionId": "0f2d",
            "CreateWorkerService": "true",
            "WorkerImageUri": "registry.example/worker:1",
            "WorkerCommand": "kiqbridge,worker,-r,jobs",
            "WorkerQueues": "mailers,3 low",
            "Namespace": "myapp",
        },
    )
    return ids


class TestRootStack:
    def test_by_default_it_makes_no_server_and_no_worker(self, root):
        ids, outputs = root

        assert not [name for name in ids if name.endswith("Stack")]
        assert set(outputs) == {
            "EnqueueFunctionArn",
            "KiqbridgeLayerArn",
            "EnqueueDeadLetterQueueUrl",
            "SpillQueueUrl",
            "SpillDeadLetterQueueUrl",
            "ScheduleGroupName",
            "SampleSchedules",
        }

    def test_the_function_drains_its_spill_queue_and_gives_up_after_many_attempts(self, aws, root):
        ids, outputs = root
        sqs = aws.client("sqs")
        spill, given_up = (
            sqs.get_queue_attributes(QueueUrl=outputs[name], AttributeNames=["All"])["Attributes"]
            for name in ("SpillQueueUrl", "SpillDeadLetterQueueUrl")
        )
        [mapping] = aws.client("lambda").list_event_source_mappings(
            EventSourceArn=spill["QueueArn"]
        )["EventSourceMappings"]
        function = aws.client("lambda").get_function_configuration(
            FunctionName=ids["EnqueueFunction"]
        )

        variables = function["Environment"]["Variables"]
        assert variables["KIQBRIDGE_SPILL_QUEUE_URL"] == outputs["SpillQueueUrl"]
        assert "KIQBRIDGE_SPILL_FIFO_QUEUE_URL" not in variables
        assert int(spill["VisibilityTimeout"]) >= 6 * function["Timeout"]
        assert spill["MessageRetentionPeriod"] == given_up["MessageRetentionPeriod"] == "1209600"
        assert json.loads(spill["RedrivePolicy"]) == {
            "deadLetterTargetArn": given_up["QueueArn"],
            "maxReceiveCount": 500,
        }
        assert mapping["FunctionArn"] == function["FunctionArn"]
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert spill["QueueArn"] in allowed(aws, ids["EnqueueRole"])["sqs:ReceiveMessage"]

    def test_the_function_has_its_settings_and_its_log_and_no_password(self, aws, root, secret):
        ids, _ = root
        function = aws.client("lambda").get_function_configuration(
            FunctionName=ids["EnqueueFunction"]
        )

        variables = function["Environment"]["Variables"]
        assert function["Runtime"] == "python3.13"
        assert function["Timeout"] == 20
        assert variables["REDIS_SECRET_ARN"] == secret
        assert URL not in json.dumps(function, default=str)
        assert variables["KIQBRIDGE_ALLOWED_CLASSES"]
        [group] = aws.client("logs").describe_log_groups(
            logGroupNamePrefix=f"/aws/lambda/{STACK}-enqueue"
        )["logGroups"]
        assert group["retentionInDays"] == 30

    def test_what_fails_thrice_lands_in_the_dead_letter_queue(self, aws, root):
        ids, outputs = root
        queue = aws.client("sqs").get_queue_attributes(
            QueueUrl=outputs["EnqueueDeadLetterQueueUrl"], AttributeNames=["All"]
        )["Attributes"]

        assert queue["MessageRetentionPeriod"] == str(14 * 24 * 3600)
        assert queue["QueueArn"] in allowed(aws, ids["EnqueueRole"])["sqs:SendMessage"]
        assert queue["QueueArn"] in allowed(aws, ids["ScheduleRole"])["sqs:SendMessage"]

    def test_the_roles_reach_what_was_created_and_nothing_else(self, aws, root, secret):
        ids, outputs = root
        queue = f"arn:aws:sqs:eu-west-1:123456789012:{ids['EnqueueDeadLetterQueue'].split('/')[-1]}"
        log = f"arn:aws:logs:eu-west-1:123456789012:log-group:/aws/lambda/{STACK}-enqueue"

        assert allowed(aws, ids["ScheduleRole"]) == {
            "lambda:InvokeFunction": [outputs["EnqueueFunctionArn"]],
            "sqs:SendMessage": [queue],
        }
        enqueue = allowed(aws, ids["EnqueueRole"])
        spill = {"ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage"}
        assert set(enqueue) == {
            *("logs:CreateLogStream", "logs:PutLogEvents", "sqs:SendMessage"),
            *(f"sqs:{action}" for action in spill),
            "secretsmanager:GetSecretValue",
        }
        assert enqueue["secretsmanager:GetSecretValue"] == [secret]
        assert not [action for action, resources in enqueue.items() if "*" in resources]
        assert enqueue["logs:PutLogEvents"][0].startswith(log)

    def test_only_scheduler_and_only_for_this_group_takes_the_schedule_role(self, aws, root):
        ids, _ = root
        role = aws.client("iam").get_role(RoleName=ids["ScheduleRole"])["Role"]
        [statement] = plain(role["AssumeRolePolicyDocument"])["Statement"]

        assert statement["Principal"] == {"Service": "scheduler.amazonaws.com"}
        assert statement["Condition"]["StringEquals"] == {
            "aws:SourceAccount": "123456789012",
            "aws:SourceArn": f"{STAND_IN}ScheduleGroup",
        }


class TestWorkerStack:
    @pytest.fixture
    def task(self, aws, worker):
        ids, _ = worker
        return aws.client("ecs").describe_task_definition(
            taskDefinition=ids["WorkerTaskDefinition"]
        )["taskDefinition"]

    @pytest.fixture
    def service(self, aws, worker):
        _, outputs = worker
        [service] = aws.client("ecs").describe_services(
            cluster=outputs["WorkerClusterName"], services=[outputs["WorkerServiceName"]]
        )["services"]
        return service

    def test_the_service_runs_two_tasks_of_this_definition(self, service, task):
        assert service["desiredCount"] == 2
        assert service["taskDefinition"] == task["taskDefinitionArn"]

    def test_the_task_has_its_command_its_secret_and_time_to_stop(self, task, secret):
        [container] = task["containerDefinitions"]
        environment = {entry["name"]: entry["value"] for entry in container["environment"]}

        assert environment["KIQBRIDGE_QUEUES"] == "default low mailers"
        assert container["command"] == ["kiqbridge", "worker", "-r", "worker/jobs"]
        assert environment["REDIS_SECRET_ARN"] == secret
        assert "secrets" not in container
        assert container["stopTimeout"] == 120 > int(environment["KIQBRIDGE_TIMEOUT_S"]) == 90
        assert URL not in json.dumps(task, default=str)

    def test_the_log_is_the_one_that_was_created_and_ends_some_day(self, aws, worker, task):
        _, outputs = worker
        [container] = task["containerDefinitions"]
        options = container["logConfiguration"]["options"]
        [group] = aws.client("logs").describe_log_groups(
            logGroupNamePrefix=outputs["WorkerLogGroupName"]
        )["logGroups"]

        assert options["awslogs-group"] == group["logGroupName"]
        assert group["retentionInDays"] == 30

    def test_ecs_may_start_the_task_and_the_task_may_read_its_address_only(
        self, aws, worker, secret
    ):
        ids, _ = worker
        execution = allowed(aws, ids["WorkerExecutionRole"])
        repository = "arn:aws:ecr:eu-west-1:123456789012:repository/team/worker"

        assert execution["ecr:BatchGetImage"] == [repository]
        assert ids["WorkerLogGroup"] in execution["logs:PutLogEvents"][0]
        assert [action for action, resources in execution.items() if "*" in resources] == [
            "ecr:GetAuthorizationToken"
        ]
        assert allowed(aws, ids["WorkerTaskRole"]) == {"secretsmanager:GetSecretValue": [secret]}
        attached = aws.client("iam").list_attached_role_policies(RoleName=ids["WorkerTaskRole"])
        assert attached["AttachedPolicies"] == []

    def test_nobody_may_call_it(self, aws, worker):
        ids, _ = worker
        [group] = aws.client("ec2").describe_security_groups(GroupIds=[ids["WorkerSecurityGroup"]])[
            "SecurityGroups"
        ]

        assert group["IpPermissions"] == []


class TestRedisStack:
    def test_its_security_groups_let_clients_in_and_nobody_else(self, aws, network):
        text = (INFRA / "redis.yaml").read_text(encoding="utf-8")
        template, left_out = creatable(yaml_parse(text))

        ids, outputs = create(aws, "redis", template, network)

        groups = {
            group["GroupId"]: group
            for group in aws.client("ec2").describe_security_groups(
                GroupIds=[ids["RedisSecurityGroup"], ids["RedisClientSecurityGroup"]]
            )["SecurityGroups"]
        }
        client = outputs["RedisClientSecurityGroupId"]
        [ingress] = groups[ids["RedisSecurityGroup"]]["IpPermissions"]
        assert (ingress["FromPort"], ingress["ToPort"], ingress["IpProtocol"]) == (
            6379,
            6379,
            "tcp",
        )
        assert [pair["GroupId"] for pair in ingress["UserIdGroupPairs"]] == [client]
        assert ingress["IpRanges"] == []
        assert groups[client]["IpPermissions"] == []
        assert left_out == {
            "RedisAuthTokenSecret",
            "RedisParameterGroup",
            "RedisReplicationGroup",
            "RedisSubnetGroup",
            "RedisUrlSecret",
        }


class TestStackWithWorkersAndItsAddressInASecret:
    def test_the_nested_stack_gets_the_parameters(self, aws, whole, secret):
        ecs = aws.client("ecs")
        [container] = [
            container
            for arn in ecs.list_task_definitions()["taskDefinitionArns"]
            for container in ecs.describe_task_definition(taskDefinition=arn)["taskDefinition"][
                "containerDefinitions"
            ]
            if container["image"] == "registry.example/worker:1"
        ]
        environment = {entry["name"]: entry["value"] for entry in container["environment"]}

        assert "WorkerServiceStack" in whole
        assert container["command"] == ["kiqbridge", "worker", "-r", "jobs"]
        assert environment["REDIS_SECRET_ARN"] == secret
        assert container["dockerLabels"] == {"kiqbridge.redis-url-version": "0f2d"}
        assert environment["KIQBRIDGE_QUEUES"] == "mailers,3 low"
        assert environment["KIQBRIDGE_NAMESPACE"] == "myapp"

    def test_the_function_stands_in_the_network_and_refers_to_the_secret(self, aws, whole, secret):
        function = aws.client("lambda").get_function_configuration(
            FunctionName=whole["EnqueueFunction"]
        )

        variables = function["Environment"]["Variables"]
        assert (variables["REDIS_SECRET_ARN"], variables["REDIS_URL_VERSION"]) == (secret, "0f2d")
        assert function["VpcConfig"]["SecurityGroupIds"] == ["sg-12345678"]
        assert len(function["VpcConfig"]["SubnetIds"]) == 2

    def test_its_role_may_join_the_network(self, aws, whole):
        assert "ec2:CreateNetworkInterface" in allowed(aws, whole["EnqueueRole"])
