"""infra/worker_service.yaml: what it promises of tasks and their roles, read from the file as it is."""

import inspect
import json
import re

import pytest
from infra import check_template
from infra.decided import decide, refused
from samtranslator.yaml_helper import yaml_parse

from kiqbridge.config.config import SETTINGS
from kiqbridge.features.monitor import minute

TEMPLATE = check_template.TEMPLATE
INFRA = TEMPLATE.parent / "infra"
NO_VALUE = {"Ref": "AWS::NoValue"}


def read(path):
    return yaml_parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def worker_stack():
    return read(INFRA / "worker_service.yaml")


def properties(template, name):
    return template["Resources"][name]["Properties"]


def metrics_in(node):
    """All descriptions of a metric below a node."""
    if isinstance(node, list):
        return [found for each in node for found in metrics_in(each)]
    if not isinstance(node, dict):
        return []
    own = [node] if "MetricName" in node else []
    return own + [found for each in node.values() for found in metrics_in(each)]


def environment_of(container):
    """Names and values of a container's variables, those behind an Fn::If included."""
    entries = [entry.get("Fn::If", [None, entry])[1] for entry in container["Environment"]]
    return {entry["Name"]: entry["Value"] for entry in entries}


def conditional_policy(stack, name):
    """Condition, policy and what stands in its place, of a policy of the task role."""
    policies = properties(stack, "WorkerTaskRole")["Policies"]
    [found] = [each["Fn::If"] for each in policies if each["Fn::If"][1]["PolicyName"] == name]
    return found


class TestWorkerServiceStack:
    @pytest.fixture
    def container(self, worker_stack):
        [container] = properties(worker_stack, "WorkerTaskDefinition")["ContainerDefinitions"]
        return container

    def test_ecs_waits_longer_than_the_worker_does(self, worker_stack, container):
        longest = worker_stack["Parameters"]["TimeoutSeconds"]["MaxValue"]
        environment = environment_of(container)

        assert environment["KIQBRIDGE_TIMEOUT_S"] == {"Ref": "TimeoutSeconds"}
        assert longest + 10 <= container["StopTimeout"] <= 120

    def test_the_address_comes_from_a_secret_only(self, worker_stack, container):
        environment = environment_of(container)
        addresses = {name: value for name, value in environment.items() if "REDIS" in name}

        assert addresses == {
            "REDIS_SECRET_ARN": {"Ref": "RedisUrlSecretArn"},
            "REDIS_SSM_PARAMETER": {"Ref": "RedisSsmParameter"},
            "REDIS_URL": {"Ref": "RedisIamUrl"},
            "REDIS_IAM_USER": {"Ref": "RedisIamUser"},
            "REDIS_IAM_CACHE": {"Fn::Sub": "${RedisIamCacheType}:${RedisIamCache}"},
        }
        for template in (worker_stack, read(TEMPLATE)):
            pattern = template["Parameters"]["RedisIamUrl"]["AllowedPattern"]
            assert re.match(pattern, "rediss://host:6379/0")
            assert re.match(pattern, "rediss+cluster://host:6379")
            assert not re.match(pattern, "rediss://:password@host:6379/0")

    def test_its_role_may_read_just_what_it_is_given(self, worker_stack):
        allowed = {
            name: [
                (statement["Action"], statement["Resource"])
                for statement in conditional_policy(worker_stack, name)[1]["PolicyDocument"][
                    "Statement"
                ]
            ]
            for name in ("ReadRedisUrl", "ReadRedisParameter", "ConnectToRedis")
        }

        assert allowed["ReadRedisUrl"] == [
            ("secretsmanager:GetSecretValue", {"Ref": "RedisUrlSecretArn"})
        ]
        [(action, parameter)] = allowed["ReadRedisParameter"]
        assert action == "ssm:GetParameter"
        assert parameter["Fn::Sub"].endswith(":parameter${RedisSsmParameter}")
        [(action, (cache, user))] = allowed["ConnectToRedis"]
        assert action == "elasticache:Connect"
        assert cache["Fn::Sub"].endswith(":${RedisIamCacheType}:${RedisIamCache}")
        assert user["Fn::Sub"].endswith(":user:${RedisIamUser}")

    def test_a_changed_address_changes_function_and_tasks_in_one_deployment(
        self, worker_stack, container
    ):
        root = read(TEMPLATE)
        function = check_template.function_properties(root, "EnqueueFunction")
        variables = function["Environment"]["Variables"]
        given = properties(root, "WorkerServiceStack")["Parameters"]["RedisUrlVersion"]
        version = {"Fn::GetAtt": ["RedisUrlStack", "Outputs.VersionId"]}

        assert given == variables["REDIS_URL_VERSION"]
        assert given == {"Fn::If": ["HasRedisUrl", version, {"Ref": "RedisUrlVersionId"}]}
        _, labels, _ = container["DockerLabels"]["Fn::If"]
        assert {"Ref": "RedisUrlVersion"} in labels.values()

    def test_its_variables_are_those_that_the_worker_reads(self, container):
        known = {variable for setting in SETTINGS for variable in setting.env}

        assert set(environment_of(container)) <= known

    @pytest.mark.parametrize(
        ("name", "parameter", "wanted", "allowed"),
        [
            (
                "ProtectTask",
                ("ProtectAfterSeconds", 0),
                {"Fn::Not": [{"Fn::Equals": [{"Ref": "ProtectAfterSeconds"}, 0]}]},
                (
                    ["ecs:GetTaskProtection", "ecs:UpdateTaskProtection"],
                    ":task/${WorkerCluster}/*",
                ),
            ),
            (
                "PublishMissedTicks",
                ("MissedTickTopicArn", ""),
                {"Fn::Not": [{"Fn::Equals": [{"Ref": "MissedTickTopicArn"}, ""]}]},
                ("sns:Publish", {"Ref": "MissedTickTopicArn"}),
            ),
            (
                "ReportToStepFunctions",
                ("StepFunctions", "DISABLED"),
                {"Fn::Equals": [{"Ref": "StepFunctions"}, "ENABLED"]},
                (
                    [f"states:SendTask{each}" for each in ("Success", "Failure", "Heartbeat")],
                    ":states:${AWS::Region}:${AWS::AccountId}:*",
                ),
            ),
        ],
    )
    def test_it_may_do_more_only_if_that_is_wanted(
        self, worker_stack, name, parameter, wanted, allowed
    ):
        condition, policy, otherwise = conditional_policy(worker_stack, name)
        [statement] = policy["PolicyDocument"]["Statement"]
        (parameter, default), (actions, resource) = parameter, allowed
        found = statement["Resource"]

        assert worker_stack["Parameters"][parameter]["Default"] == default
        assert worker_stack["Conditions"][condition] == wanted
        assert otherwise == NO_VALUE
        assert statement["Action"] == actions
        assert found == resource or found["Fn::Sub"].endswith(resource)

    def test_the_root_stack_gives_it_what_the_operator_chose(self, container):
        given = properties(read(TEMPLATE), "WorkerServiceStack")["Parameters"]
        handed = ("Queues", "ImageUri", "ImageRepositoryArn", "StepFunctions", "MissedTickTopicArn")

        assert {name: given[name] for name in handed} == {
            name: {"Ref": f"Worker{name}"} for name in handed
        }
        assert given["Command"] == {"Fn::Join": [",", {"Ref": "WorkerCommand"}]}
        assert given["Namespace"] == {"Ref": "Namespace"}
        environment = environment_of(container)
        assert environment["KIQBRIDGE_ECS_PROTECT_AFTER_S"] == {"Ref": "ProtectAfterSeconds"}
        for name in ("Queues", "Namespace"):
            assert environment[f"KIQBRIDGE_{name.upper()}"] == {"Ref": name}

    def test_ecs_may_pull_the_image_and_write_the_log_and_no_more(self, worker_stack, container):
        policies = properties(worker_stack, "WorkerExecutionRole")["Policies"]
        options = container["LogConfiguration"]["Options"]

        assert [
            (statement["Action"], statement["Resource"])
            for statement in check_template.statements(policies)
        ] == [
            (
                ["logs:CreateLogStream", "logs:PutLogEvents"],
                {"Fn::GetAtt": ["WorkerLogGroup", "Arn"]},
            ),
            (
                [
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:BatchGetImage",
                    "ecr:GetDownloadUrlForLayer",
                ],
                {"Ref": "ImageRepositoryArn"},
            ),
            ("ecr:GetAuthorizationToken", "*"),
        ]
        assert options["awslogs-group"] == {"Ref": "WorkerLogGroup"}
        kept = properties(worker_stack, "WorkerLogGroup")["RetentionInDays"]
        assert kept == {"Ref": "LogRetentionDays"}
        assert worker_stack["Parameters"]["LogRetentionDays"]["Default"] == 30

    def test_a_sick_container_is_noticed(self, container):
        assert container["HealthCheck"]["Command"] == ["CMD", "kiqbridge", "health", "--live"]

    def test_a_task_that_has_not_reached_redis_is_not_healthy(self, container):
        environment = environment_of(container)

        assert environment["KIQBRIDGE_START_PERIOD_S"] == "0"  # one success would make it healthy
        assert container["HealthCheck"]["StartPeriod"] >= 60

    def test_it_runs_on_fargate_in_the_given_subnets(self, worker_stack):
        task = properties(worker_stack, "WorkerTaskDefinition")
        service = properties(worker_stack, "WorkerService")
        network = service["NetworkConfiguration"]["AwsvpcConfiguration"]

        assert (task["RequiresCompatibilities"], task["NetworkMode"]) == (["FARGATE"], "awsvpc")
        assert task["RuntimePlatform"]["CpuArchitecture"] == {
            "Fn::If": ["IsArm", "ARM64", "X86_64"]
        }
        assert service["LaunchType"] == {"Fn::If": ["UsesSpot", NO_VALUE, "FARGATE"]}
        assert worker_stack["Parameters"]["SpotWeight"]["Default"] == 0
        assert network["Subnets"] == {"Ref": "SubnetIds"}

    def test_a_deployment_that_does_not_live_is_taken_back(self, worker_stack):
        deployment = properties(worker_stack, "WorkerService")["DeploymentConfiguration"]

        assert deployment["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
        assert deployment["MinimumHealthyPercent"] == 100

    def test_nobody_may_call_the_worker(self, worker_stack):
        assert "SecurityGroupIngress" not in properties(worker_stack, "WorkerSecurityGroup")
        assert not [
            name
            for name, resource in worker_stack["Resources"].items()
            if resource["Type"] == "AWS::EC2::SecurityGroupIngress"
        ]

    def test_both_stacks_run_the_same_command_by_default(self, worker_stack):
        root = read(TEMPLATE)["Parameters"]

        for name in ("Command", "Queues"):
            assert worker_stack["Parameters"][name]["Default"] == root[f"Worker{name}"]["Default"]

    def test_a_read_only_task_can_still_write_its_status(self, container):
        condition, [mount], otherwise = container["LinuxParameters"]["Tmpfs"]["Fn::If"]

        assert container["ReadonlyRootFilesystem"] == {"Fn::If": [condition, True, False]}
        assert (mount["ContainerPath"], mount["Size"]) == ("/tmp", 64)
        assert {"rw", "mode=1777"} <= set(mount["MountOptions"])  # its user is not root
        assert otherwise == NO_VALUE

    def test_the_first_task_is_never_taken_away(self, worker_stack):
        _, [first, spot], _ = properties(worker_stack, "WorkerService")["CapacityProviderStrategy"][
            "Fn::If"
        ]

        assert (first["CapacityProvider"], first["Base"]) == ("FARGATE", 1)
        assert (spot["CapacityProvider"], "Base" in spot) == ("FARGATE_SPOT", False)
        assert properties(worker_stack, "WorkerCluster")["CapacityProviders"] == [
            "FARGATE",
            "FARGATE_SPOT",
        ]

    def test_a_deployment_does_not_undo_what_scaling_chose(self, worker_stack):
        desired = properties(worker_stack, "WorkerService")["DesiredCount"]
        scaling = properties(worker_stack, "WorkerScaling")

        assert desired == {"Fn::If": ["Scales", NO_VALUE, {"Ref": "DesiredCount"}]}
        assert scaling["MinCapacity"] == {"Ref": "DesiredCount"}
        assert scaling["ResourceId"]["Fn::Sub"] == "service/${WorkerCluster}/${WorkerService.Name}"
        assert worker_stack["Parameters"]["MaxCount"]["Default"] == 0

    def test_by_default_it_is_scaled_by_cpu_alone_and_with_a_monitor_by_demand(self, worker_stack):
        def made(**given):
            parameters = {
                name: parameter.get("Default")
                for name, parameter in worker_stack["Parameters"].items()
            }
            conditions = worker_stack["Conditions"]
            return {
                name
                for name, resource in worker_stack["Resources"].items()
                if "Condition" in resource
                and decide({"Condition": resource["Condition"]}, parameters | given, conditions)
            }

        cpu = {"WorkerScaling", "WorkerScalingPolicy"}
        zero = {"StartScalingPolicy", "StartAlarm", "StopScalingPolicy", "IdleAlarm"}
        monitor = {"MonitorServiceName": "shop-monitor"}

        assert made() == made(**monitor) == set()
        assert made(MaxCount=9) == cpu
        assert made(MaxCount=9, **monitor) == {*cpu, "DemandScalingPolicy"}
        assert made(MaxCount=9, DesiredCount=0, **monitor) == {*cpu, *zero, "DemandScalingPolicy"}

    def test_busy_tasks_that_need_no_cpu_are_not_taken_away_by_it(self, worker_stack):
        cpu = properties(worker_stack, "WorkerScalingPolicy")
        parameters = worker_stack["Parameters"]

        assert cpu["TargetTrackingScalingPolicyConfiguration"]["DisableScaleIn"] == {
            "Fn::If": ["ScalesByDemand", True, False]
        }
        assert parameters["JobsPerTask"]["Default"] >= parameters["Concurrency"]["Default"]

    def test_from_zero_one_task_is_started_and_to_zero_all_are_stopped(self, worker_stack):
        """What a metric's value is away from the threshold decides which step is taken."""
        for alarm, policy, values, change in (
            ("StartAlarm", "StartScalingPolicy", (1, 500), ("ChangeInCapacity", 1)),
            ("IdleAlarm", "StopScalingPolicy", (0,), ("ExactCapacity", 0)),
        ):
            raised = properties(worker_stack, alarm)
            steps = properties(worker_stack, policy)["StepScalingPolicyConfiguration"]
            [step] = steps["StepAdjustments"]
            for value in values:
                distance = value - raised["Threshold"]
                assert distance > step.get("MetricIntervalLowerBound", -1e9)
                assert distance < step.get("MetricIntervalUpperBound", 1e9)
            assert raised["AlarmActions"] == [{"Ref": policy}]
            assert (steps["AdjustmentType"], step["ScalingAdjustment"]) == change

    def test_without_data_of_the_monitor_nothing_is_started_or_stopped(self, worker_stack):
        idle = properties(worker_stack, "IdleAlarm")

        assert properties(worker_stack, "StartAlarm")["TreatMissingData"] == "notBreaching"
        assert idle["TreatMissingData"] == "notBreaching"
        assert idle["EvaluationPeriods"] == idle["DatapointsToAlarm"] == {"Ref": "IdleMinutes"}

    def test_the_metrics_that_scale_are_those_that_the_monitor_writes_each_minute(
        self, worker_stack
    ):
        written = re.findall(r'"(\w+)":', inspect.getsource(minute._measure))
        metrics = [
            metric
            for name in ("DemandScalingPolicy", "StartAlarm", "IdleAlarm")
            for metric in metrics_in(properties(worker_stack, name))
        ]

        assert len(metrics) == 5
        assert {metric["MetricName"] for metric in metrics} == {"Demand", "WorkersAlive"}
        assert {"Demand", "WorkersAlive"} <= set(written)
        for metric in metrics:
            assert metric["Namespace"] == {"Ref": "MetricsNamespace"}
            assert metric["Dimensions"] == [
                {"Name": "service", "Value": {"Ref": "MonitorServiceName"}}
            ]

    def test_scaling_from_zero_without_a_monitor_is_refused(self, worker_stack):
        given = {"RedisUrlSecretArn": "arn:aws:secretsmanager:x", "DesiredCount": 0}

        assert refused(worker_stack, **given) == set()
        assert refused(worker_stack, **given, MaxCount=3) == {"MonitorForZeroTasks"}
        assert refused(worker_stack, **given, MaxCount=3, MonitorServiceName="m") == set()

    def test_shells_are_only_opened_if_wanted_and_never_beside_a_read_only_root(self, worker_stack):
        service = properties(worker_stack, "WorkerService")
        [assertion] = worker_stack["Rules"]["ExecOrReadOnly"]["Assertions"]

        assert service["EnableExecuteCommand"] == {"Fn::If": ["OpensShells", True, False]}
        assert worker_stack["Parameters"]["ExecuteCommand"]["Default"] == "false"
        assert decide(assertion["Assert"], {"ReadOnlyRoot": "false"})
        assert not decide(assertion["Assert"], {"ReadOnlyRoot": "true"})

    def test_that_is_the_command_of_the_image(self, worker_stack):
        dockerfile = (TEMPLATE.parent / "worker/Dockerfile").read_text(encoding="utf-8")
        [command] = re.findall(r"^CMD (\[.*\])", dockerfile, flags=re.MULTILINE)

        assert worker_stack["Parameters"]["Command"]["Default"].split(",") == json.loads(command)
