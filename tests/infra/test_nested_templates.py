"""The stacks that template.yaml nests: what they promise, read from the files as they are."""

import json
import re
import shutil

import pytest
from infra import check_template
from infra.decided import decide
from samtranslator.yaml_helper import yaml_parse

from kiqbridge.config.table import SETTINGS

TEMPLATE = check_template.TEMPLATE
INFRA = TEMPLATE.parent / "infra"
NO_VALUE = {"Ref": "AWS::NoValue"}
NESTED = sorted(INFRA.glob("*.yaml"))


def read(path):
    return yaml_parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def redis_stack():
    return read(INFRA / "redis.yaml")


@pytest.fixture(scope="module")
def worker_stack():
    return read(INFRA / "worker_service.yaml")


def properties(template, name):
    return template["Resources"][name]["Properties"]


def environment_of(container):
    """Names and values of a container's variables, those behind an Fn::If included."""
    entries = [entry.get("Fn::If", [None, entry])[1] for entry in container["Environment"]]
    return {entry["Name"]: entry["Value"] for entry in entries}


def conditional_policy(stack, name):
    """Condition, policy and what stands in its place, of a policy of the task role."""
    policies = properties(stack, "WorkerTaskRole")["Policies"]
    [found] = [each["Fn::If"] for each in policies if each["Fn::If"][1]["PolicyName"] == name]
    return found


@pytest.mark.parametrize("path", NESTED, ids=lambda path: path.name)
class TestEachNestedTemplate:
    def test_it_lints_clean_on_its_own(self, path):
        assert check_template.lint_text(path.read_text(encoding="utf-8")) == []

    def test_its_policies_name_the_resource_wherever_it_has_an_arn(self, path):
        assert check_template.permission_findings(read(path)) == []

    def test_its_parameters_and_outputs_are_described(self, path):
        template = read(path)

        for section in ("Parameters", "Outputs"):
            assert all(entry.get("Description") for entry in template[section].values())

    def test_it_is_nested_behind_a_condition_that_is_off_by_default(self, path):
        root = read(TEMPLATE)
        [stack] = [
            resource
            for resource in root["Resources"].values()
            if resource.get("Properties", {}).get("TemplateURL") == f"infra/{path.name}"
        ]

        defaults = {
            name: parameter.get("Default") for name, parameter in root["Parameters"].items()
        }
        condition = {"Condition": stack["Condition"]}
        assert decide(condition, defaults, root["Conditions"]) is False


class TestRedisStack:
    def test_the_server_fails_over_between_zones_without_cluster_mode(self, redis_stack):
        group = properties(redis_stack, "RedisReplicationGroup")

        assert group["Engine"] == "valkey"
        assert group["ClusterMode"] == "disabled"
        assert group["MultiAZEnabled"] is True
        assert group["AutomaticFailoverEnabled"] is True
        assert redis_stack["Parameters"]["NodeCount"]["MinValue"] == 2

    def test_all_is_encrypted_and_asks_for_a_token(self, redis_stack):
        group = properties(redis_stack, "RedisReplicationGroup")

        assert group["TransitEncryptionEnabled"] is True
        assert group["TransitEncryptionMode"] == "required"
        assert group["AtRestEncryptionEnabled"] is True
        assert group["AuthToken"] == {
            "Fn::Sub": "{{resolve:secretsmanager:${RedisAuthTokenSecret}:SecretString}}"
        }

    def test_nothing_is_evicted(self, redis_stack):
        parameters = properties(redis_stack, "RedisParameterGroup")
        versions = redis_stack["Parameters"]["EngineVersion"]["AllowedValues"]

        assert parameters["Properties"] == {"maxmemory-policy": "noeviction"}
        assert parameters["CacheParameterGroupFamily"] == "valkey8"
        assert all(version.startswith("8.") for version in versions)

    def test_the_token_needs_no_escaping_and_elasticache_takes_it(self, redis_stack):
        generated = properties(redis_stack, "RedisAuthTokenSecret")["GenerateSecretString"]

        assert generated["ExcludePunctuation"] is True
        assert 16 <= generated["PasswordLength"] <= 128

    def test_the_address_speaks_tls_with_the_token(self, redis_stack):
        url = properties(redis_stack, "RedisUrlSecret")["SecretString"]["Fn::Sub"]

        assert re.fullmatch(
            r"rediss://:\{\{resolve:secretsmanager:\$\{RedisAuthTokenSecret\}:SecretString\}\}"
            r"@\$\{RedisReplicationGroup\.PrimaryEndPoint\.Address\}"
            r":\$\{RedisReplicationGroup\.PrimaryEndPoint\.Port\}/0",
            url,
        )

    def test_no_output_tells_a_secret(self, redis_stack):
        assert "resolve:" not in json.dumps(redis_stack["Outputs"])
        assert "resolve:" not in json.dumps(read(TEMPLATE)["Outputs"])

    def test_only_clients_reach_the_server_and_the_server_reaches_nobody(self, redis_stack):
        server = properties(redis_stack, "RedisSecurityGroup")
        ingress = properties(redis_stack, "RedisClientIngress")
        [egress] = server["SecurityGroupEgress"]

        assert "SecurityGroupIngress" not in server
        assert ingress["GroupId"] == {"Ref": "RedisSecurityGroup"}
        assert ingress["SourceSecurityGroupId"] == {"Ref": "RedisClientSecurityGroup"}
        assert (ingress["FromPort"], ingress["ToPort"]) == (6379, 6379)
        assert egress["CidrIp"] == "255.255.255.255/32"

    def test_the_queues_survive_a_deleted_stack(self, redis_stack):
        group = redis_stack["Resources"]["RedisReplicationGroup"]

        assert group["DeletionPolicy"] == group["UpdateReplacePolicy"] == "Snapshot"
        assert read(TEMPLATE)["Resources"]["RedisStack"]["DeletionPolicy"] == "RetainExceptOnCreate"


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

    def test_the_reason_stands_beside_both_numbers(self):
        lines = (INFRA / "worker_service.yaml").read_text(encoding="utf-8").splitlines()

        for number, other in (
            ("KIQBRIDGE_TIMEOUT_S, ", "StopTimeout"),
            ("StopTimeout: ", "TIMEOUT_S"),
        ):
            [at] = [index for index, line in enumerate(lines) if number in line]
            comment = lines[at - 3 : at]
            assert any("#" in line and other in line for line in comment), comment

    def test_the_address_comes_from_a_secret_only(self, worker_stack, container):
        environment = environment_of(container)
        addresses = {name: value for name, value in environment.items() if "REDIS" in name}

        assert addresses == {
            "REDIS_SECRET_ARN": {"Ref": "RedisUrlSecretArn"},
            "REDIS_SSM_PARAMETER": {"Ref": "RedisSsmParameter"},
            "REDIS_URL": {"Ref": "RedisIamUrl"},
            "REDIS_IAM_USER": {"Ref": "RedisIamUser"},
            "REDIS_IAM_CACHE": {"Ref": "RedisIamCache"},
        }
        for template in (worker_stack, read(TEMPLATE)):
            pattern = template["Parameters"]["RedisIamUrl"]["AllowedPattern"]
            assert re.match(pattern, "rediss://host:6379/0")
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
        execution = json.dumps(properties(worker_stack, "WorkerExecutionRole"))

        assert allowed["ReadRedisUrl"] == [
            ("secretsmanager:GetSecretValue", {"Ref": "RedisUrlSecretArn"})
        ]
        [(action, parameter)] = allowed["ReadRedisParameter"]
        assert action == "ssm:GetParameter"
        assert parameter["Fn::Sub"].endswith(":parameter${RedisSsmParameter}")
        [(action, (cache, user))] = allowed["ConnectToRedis"]
        assert action == "elasticache:Connect"
        assert cache["Fn::Sub"].endswith(":replicationgroup:${RedisIamCache}")
        assert user["Fn::Sub"].endswith(":user:${RedisIamUser}")
        assert "secretsmanager" not in execution

    def test_a_changed_address_changes_function_and_tasks_in_one_deployment(
        self, worker_stack, container
    ):
        root = read(TEMPLATE)
        variables = properties(root, "EnqueueFunction")["Environment"]["Variables"]
        given = properties(root, "WorkerServiceStack")["Parameters"]["RedisUrlVersion"]
        version = {"Fn::GetAtt": ["RedisUrlStack", "Outputs.VersionId"]}

        assert given == variables["REDIS_URL_VERSION"]
        assert given == {"Fn::If": ["HasRedisUrl", version, {"Ref": "RedisUrlVersionId"}]}
        _, labels, _ = container["DockerLabels"]["Fn::If"]
        assert {"Ref": "RedisUrlVersion"} in labels.values()

    def test_its_variables_are_those_that_the_worker_reads(self, container):
        known = {variable for setting in SETTINGS for variable in setting.env}

        assert set(environment_of(container)) <= known

    def test_a_task_may_protect_itself_and_its_neighbours_only_if_that_is_wanted(
        self, worker_stack, container
    ):
        environment = environment_of(container)
        condition, policy, otherwise = conditional_policy(worker_stack, "ProtectTask")
        [statement] = policy["PolicyDocument"]["Statement"]

        assert environment["KIQBRIDGE_ECS_PROTECT_AFTER_S"] == {"Ref": "ProtectAfterSeconds"}
        assert worker_stack["Parameters"]["ProtectAfterSeconds"]["Default"] == 0
        assert worker_stack["Conditions"][condition] == {
            "Fn::Not": [{"Fn::Equals": [{"Ref": "ProtectAfterSeconds"}, 0]}]
        }
        assert otherwise == {"Ref": "AWS::NoValue"}
        assert statement["Action"] == ["ecs:GetTaskProtection", "ecs:UpdateTaskProtection"]
        assert statement["Resource"]["Fn::Sub"].endswith(":task/${WorkerCluster}/*")

    def test_it_may_report_to_state_machines_only_if_that_is_wanted(self, worker_stack):
        condition, policy, otherwise = conditional_policy(worker_stack, "ReportToStepFunctions")
        [statement] = policy["PolicyDocument"]["Statement"]

        assert worker_stack["Parameters"]["StepFunctions"]["Default"] == "DISABLED"
        assert worker_stack["Conditions"][condition] == {
            "Fn::Equals": [{"Ref": "StepFunctions"}, "ENABLED"]
        }
        assert otherwise == {"Ref": "AWS::NoValue"}
        assert statement["Action"] == [
            "states:SendTaskSuccess",
            "states:SendTaskFailure",
            "states:SendTaskHeartbeat",
        ]
        assert statement["Resource"] == {
            "Fn::Sub": "arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:*"
        }

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


class TestNetworkStacks:
    def test_nothing_of_it_reaches_the_internet(self):
        network = read(INFRA / "network.yaml")
        types = {resource["Type"] for resource in network["Resources"].values()}

        assert types.isdisjoint(
            {"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::Route"}
        )
        assert properties(network, "S3Endpoint")["VpcEndpointType"] == "Gateway"

    def test_its_subnets_are_in_two_zones_and_do_not_overlap(self):
        network = read(INFRA / "network.yaml")
        one, other = (properties(network, f"PrivateSubnet{zone}") for zone in "AB")

        assert one["AvailabilityZone"] != other["AvailabilityZone"]
        assert one["CidrBlock"] != other["CidrBlock"]

    def test_endpoints_have_private_names_and_let_in_function_and_workers_only(self):
        endpoints = read(INFRA / "endpoints.yaml")
        made = {
            resource["Properties"]["ServiceName"]["Fn::Sub"].split(".", 3)[3]: resource
            for resource in endpoints["Resources"].values()
            if resource["Type"] == "AWS::EC2::VPCEndpoint"
        }
        [ingress] = properties(endpoints, "EndpointSecurityGroup")["SecurityGroupIngress"]

        assert set(made) == {
            *("secretsmanager", "sqs", "ssm"),
            *("logs", "ecr.api", "ecr.dkr", "states"),
        }
        assert all(endpoint["Properties"]["PrivateDnsEnabled"] for endpoint in made.values())
        assert ["Condition" in made[name] for name in ("secretsmanager", "sqs", "logs")] == [
            False,
            False,
            True,
        ]
        assert ingress["SourceSecurityGroupId"] == {"Ref": "ClientSecurityGroupId"}
        assert (ingress["FromPort"], ingress["ToPort"]) == (443, 443)

    def test_function_and_workers_are_members_of_the_group_that_they_let_in(self):
        root = read(TEMPLATE)
        given = properties(root, "EndpointsStack")["Parameters"]["ClientSecurityGroupId"]
        function = properties(root, "EnqueueFunction")["VpcConfig"]["Fn::If"][1]
        workers = properties(root, "WorkerServiceStack")["Parameters"]["SecurityGroupIds"]

        assert given == {"Fn::GetAtt": ["AwsClientSecurityGroup", "GroupId"]}
        echoed = read(INFRA / "endpoints.yaml")["Outputs"]["ClientSecurityGroupId"]["Value"]
        assert echoed == {"Ref": "ClientSecurityGroupId"}
        for groups in (function["SecurityGroupIds"], workers):
            _, with_redis, otherwise = groups["Fn::If"]
            assert "AwsClientSecurityGroup" in json.dumps(with_redis)
            # From the stack of the endpoints: nothing starts before AWS can be reached.
            for branch in (with_redis, otherwise):
                asked = {
                    f"{name}.{attribute}"
                    for name, attribute in check_template.attributes_of(branch)
                }
                assert "EndpointsStack.Outputs.ClientSecurityGroupId" in asked


class TestFaultsTheCheckFinds:
    """One fault each, injected into the real files; the check must not stay silent."""

    @pytest.fixture
    def copy(self, tmp_path):
        """The real files in a folder of their own, one of them changed."""
        shutil.copytree(INFRA, tmp_path / "infra")
        shutil.copy(TEMPLATE, tmp_path)

        def change(file, right, wrong):
            path = tmp_path / file
            source = path.read_text(encoding="utf-8")
            assert right in source
            path.write_text(source.replace(right, wrong), encoding="utf-8")
            return tmp_path / "template.yaml"

        return change

    def test_a_fault_in_a_nested_template_ends_with_1_and_is_told(self, copy, capsys):
        root = copy("infra/redis.yaml", "[!Ref RedisSecurityGroup]", "[!Ref Nowhere]")

        code = check_template.main([str(root)])

        out = capsys.readouterr().out
        assert code == 1, out
        assert "error: infra/redis.yaml" in out
        assert "Nowhere" in out

    @pytest.mark.parametrize(
        ("file", "right", "wrong", "told"),
        [
            ("infra/redis.yaml", "NodeType:\n    Type", "Size:\n    Type", "no parameter NodeType"),
            ("infra/redis.yaml", "  RedisUrlSecretArn:", "  Url:", "no Outputs.RedisUrlSecretArn"),
            (
                "infra/endpoints.yaml",
                "  ClientSecurityGroupId:\n    Description: The group",
                "  Group:\n    Description: The group",
                "no Outputs.ClientSecurityGroupId",
            ),
            ("template.yaml", "        ImageUri: !Ref WorkerImageUri\n", "", "needs ImageUri"),
            ("template.yaml", "infra/redis.yaml", "infra/rediss.yaml", "there is no"),
        ],
    )
    def test_templates_that_do_not_fit_together(self, copy, file, right, wrong, told):
        root = copy(file, right, wrong)

        findings = check_template.nested_findings(read(root), root.parent)

        assert any(told in finding for finding in findings), findings

    @pytest.mark.parametrize(
        ("right", "wrong", "told"),
        [
            ("Resource: !Ref RedisUrlSecretArn", 'Resource: "*"', "name the resource"),
            ("secretsmanager:GetSecretValue", "secretsmanager:*", "name each action"),
            (
                "ManagedPolicyArns: !If [HasTaskPolicies",
                "ManagedPolicyArns: !If [IsArm, [arn:aws:iam::aws:policy/AmazonECS_FullAccess]",
                "managed policy",
            ),
        ],
    )
    def test_policies_that_allow_too_much(self, right, wrong, told):
        source = (INFRA / "worker_service.yaml").read_text(encoding="utf-8")
        assert right in source

        [finding] = check_template.permission_findings(yaml_parse(source.replace(right, wrong)))

        assert told in finding


class TestDocuments:
    TEXT = (INFRA / "README.md").read_text(encoding="utf-8")

    def test_every_parameter_of_the_stack_is_named_and_every_name_exists(self):
        root, *nested = map(read, (TEMPLATE, *NESTED))
        names = {*root["Resources"]}.union(
            *(
                template.get(section, {})
                for template in (root, *nested)
                for section in ("Parameters", "Outputs", "Resources")
            )
        )
        named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)(?:=\w+)?`", self.TEXT))

        assert set(root["Parameters"]) <= {
            *named,
            "RedisUrl",
            "Architecture",
            "Namespace",
            "Tracing",
        }
        assert named - names - {"TimeoutStopSec", "AuthToken"} == set()

    def test_the_rotation_never_changes_what_cloudformation_resolves_into_the_server(self):
        """A changed AuthToken could replace the server at the next update of its stack."""
        rotation = self.TEXT.split("## Rotate the AUTH token")[1].split("\n## ")[0]
        resolved = properties(read(INFRA / "redis.yaml"), "RedisReplicationGroup")["AuthToken"]

        written = re.findall(r"put-secret-value --secret-id \"\$(\w+)\"", rotation)
        assert written == ["URL_SECRET"]
        assert "RedisAuthTokenSecret" in resolved["Fn::Sub"]
        assert "`RedisAuthTokenSecret`" in rotation and "`RedisUrlSecretArn`" in rotation

    def test_the_numbers_are_those_of_the_files(self):
        worker = read(INFRA / "worker_service.yaml")
        [container] = properties(worker, "WorkerTaskDefinition")["ContainerDefinitions"]
        timeout = worker["Parameters"]["TimeoutSeconds"]

        assert f"`TimeoutSeconds` ({timeout['Default']})" in self.TEXT
        assert f"is at most {timeout['MaxValue']}" in self.TEXT
        assert f"after {container['StopTimeout']} seconds" in self.TEXT
