"""The stacks that template.yaml nests: what they promise, read from the files as they are."""

import json
import re
import shutil

import pytest
from infra import check_template
from infra.decided import decide
from infra.examples import example_files
from samtranslator.yaml_helper import yaml_parse

pytestmark = pytest.mark.slow

TEMPLATE = check_template.TEMPLATE
INFRA = TEMPLATE.parent / "infra"
NO_VALUE = {"Ref": "AWS::NoValue"}
NESTED = sorted(INFRA.glob("*.yaml"))


def read(path):
    return yaml_parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def redis_stack():
    return read(INFRA / "redis.yaml")


def properties(template, name):
    return template["Resources"][name]["Properties"]


@pytest.mark.parametrize("path", NESTED, ids=lambda path: path.name)
class TestEachNestedTemplate:
    def test_its_parameters_and_outputs_are_described(self, path):
        template = read(path)

        for section in ("Parameters", "Outputs"):
            assert all(entry.get("Description") for entry in template[section].values())

    def test_it_is_nested_behind_a_condition_that_is_off_by_default_but_for_alarms(self, path):
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
        is_on = decide(condition, defaults, root["Conditions"])
        assert is_on is (path.name == "observability.yaml")


KEYED = {
    "AWS::Logs::LogGroup": "KmsKeyId",
    "AWS::SecretsManager::Secret": "KmsKeyId",
    "AWS::SNS::Topic": "KmsMasterKeyId",
    "AWS::SQS::Queue": "KmsMasterKeyId",
}
"""What `KmsKeyArn` encrypts, and the property that names a key."""


@pytest.mark.parametrize(
    "path",
    [TEMPLATE, *NESTED, *example_files()],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_the_key_of_the_stack_reaches_all_secrets_logs_topics_and_queues(path):
    template = read(path)
    without = [
        name
        for name, resource in template["Resources"].items()
        if (member := KEYED.get(resource.get("Type", ""))) is not None
        and resource["Properties"].get(member)
        != {"Fn::If": ["HasKmsKey", {"Ref": "KmsKeyArn"}, NO_VALUE]}
    ]
    takes = [
        resource["Properties"].get("Parameters", {}).get("KmsKeyArn")
        for resource in read(TEMPLATE)["Resources"].values()
        if resource.get("Properties", {}).get("TemplateURL") == f"infra/{path.name}"
    ]

    assert without == []
    if "KmsKeyArn" in template.get("Parameters", {}) and path != TEMPLATE:
        assert takes == [{"Ref": "KmsKeyArn"}]


class TestRedisStack:
    def test_the_server_fails_over_between_zones_without_cluster_mode(self, redis_stack):
        group = properties(redis_stack, "RedisReplicationGroup")

        assert group["Engine"] == "valkey"
        assert group["ClusterMode"] == "disabled"
        for key in ("MultiAZEnabled", "AutomaticFailoverEnabled"):
            assert group[key] == {"Fn::If": ["HasReplica", True, False]}
        assert redis_stack["Parameters"]["NodeCount"]["Default"] == 2

    def test_all_is_encrypted_and_only_known_users_log_in(self, redis_stack):
        group = properties(redis_stack, "RedisReplicationGroup")

        assert group["TransitEncryptionEnabled"] is True
        assert group["TransitEncryptionMode"] == "required"
        assert group["AtRestEncryptionEnabled"] is True
        assert group["UserGroupIds"] == [{"Ref": "UserGroup"}]
        assert properties(redis_stack, "UserGroup")["UserIds"] == [
            {"Ref": f"{name}User"} for name in ("Default", "Enqueue", "Worker", "Operator")
        ]

    @pytest.mark.parametrize("namespace", ["myapp", ""])
    def test_each_user_has_the_rules_of_the_document_and_logs_in_by_iam(
        self, redis_stack, namespace
    ):
        document = (TEMPLATE.parent / "docs/reference/security.md").read_text(encoding="utf-8")

        def written(heading):
            return re.search(rf"{heading}\n.*?```text\n(.*?)```", document, re.DOTALL)[1].split()

        def rules_of(name):
            return written(f"## {name}")[4:]  # after user, its name, on and the password

        prefix = f"{namespace}:" if namespace else ""
        documented = {
            "Enqueue": [*rules_of("The enqueue function"), "+llen"],
            "Worker": rules_of("A worker"),
            "Operator": [
                *rules_of("A worker"),
                *written("## Pages and commands of operators"),
            ],
        }
        for name, rules in documented.items():
            user = properties(redis_stack, f"{name}User")
            text, variables = user["AccessString"]["Fn::Sub"]
            values = {"Ns": prefix, "Limits": "+llen"}
            assert variables.keys() <= values.keys()
            for key, value in values.items():
                text = text.replace(f"${{{key}}}", value)

            assert text.split() == [
                "on",
                *(rule.replace("~myapp:", f"~{prefix}") for rule in rules),
            ]
            assert user["AuthenticationMode"] == {"Type": "iam"}
            # As ElastiCache wants it of a user of IAM.
            assert user["UserId"] == user["UserName"]

    def test_the_user_with_a_password_is_off_by_default(self, redis_stack):
        on, off = properties(redis_stack, "DefaultUser")["AccessString"]["Fn::If"][1:]

        assert redis_stack["Parameters"]["PasswordUser"]["Default"] == "false"
        assert off.split() == ["off", "resetkeys", "resetchannels", "-@all"]
        assert {"on", "-@admin", "-@dangerous"} <= set(on["Fn::Sub"][0].split())

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

    def test_the_address_speaks_tls_with_the_token_where_there_is_one(self, redis_stack):
        assert redis_stack["Resources"]["RedisUrlSecret"]["Condition"] == "HasPasswordUser"
        assert "@" not in redis_stack["Outputs"]["RedisUrl"]["Value"]["Fn::Sub"]
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


class TestNetworkStacks:
    def test_nothing_of_it_reaches_the_internet_unless_it_is_asked_for(self):
        network = read(INFRA / "network.yaml")
        ways = {
            resource["Type"]
            for resource in network["Resources"].values()
            if resource.get("Condition") != "IsPublic"
        }

        assert ways.isdisjoint(
            {"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::Route"}
        )
        assert network["Parameters"]["Public"]["Default"] == "false"
        given = properties(read(TEMPLATE), "NetworkStack")["Parameters"]["Public"]
        assert given == {"Fn::If": ["IsSmall", "true", "false"]}
        assert properties(network, "S3Endpoint")["VpcEndpointType"] == "Gateway"

    def test_its_subnets_are_in_two_zones_and_do_not_overlap(self):
        network = read(INFRA / "network.yaml")
        one, other = (properties(network, f"PrivateSubnet{zone}") for zone in "AB")

        assert one["AvailabilityZone"] != other["AvailabilityZone"]
        assert one["CidrBlock"] != other["CidrBlock"]

    def test_endpoints_have_private_names_and_let_the_whole_vpc_in(self):
        """Private names hold for the whole VPC: where they let in us alone, nobody else reaches the service."""
        endpoints = read(INFRA / "endpoints.yaml")
        made = {
            resource["Properties"]["ServiceName"]["Fn::Sub"].split(".", 3)[3]: resource
            for resource in endpoints["Resources"].values()
            if resource["Type"] == "AWS::EC2::VPCEndpoint"
        }
        clients, others = properties(endpoints, "EndpointSecurityGroup")["SecurityGroupIngress"]
        gateway = made.pop("s3")

        assert set(made) == {
            *("secretsmanager", "sqs", "ssm", "sns"),
            *("logs", "ecr.api", "ecr.dkr", "states", "ssmmessages"),
        }
        assert all(endpoint["Properties"]["PrivateDnsEnabled"] for endpoint in made.values())
        assert (gateway["Properties"]["VpcEndpointType"], gateway["Condition"]) == (
            "Gateway",
            "HasRouteTables",
        )
        assert clients["SourceSecurityGroupId"] == {"Ref": "ClientSecurityGroupId"}
        assert others["Fn::If"][0] == "HasVpcCidr"
        assert others["Fn::If"][1]["CidrIp"] == {"Ref": "VpcCidr"}
        for ingress in (clients, others["Fn::If"][1]):
            assert (ingress["FromPort"], ingress["ToPort"]) == (443, 443)

    @pytest.mark.parametrize(
        ("given", "services"),
        [
            ({"RedisUrl": "rediss://host"}, {"SecretsManager", "Sqs"}),
            ({"RedisSsmParameter": "/redis"}, {"Ssm", "SecretsManager", "Sqs"}),
            ({"CreateRedis": "true"}, {"SecretsManager", "Sqs"}),
            ({"CreateRedis": "true", "CreateSpillQueue": "false"}, set()),
            ({"CreateRedis": "true", "SqsEndpoint": "false"}, {"SecretsManager"}),
            (
                {"RedisIamUrl": "rediss://host", "CreateWorkerService": "true"},
                {"SecretsManager", "Sqs", "Logs"},
            ),
            (
                {
                    "CreateRedis": "true",
                    "CreateWorkerService": "true",
                    "WorkerImageRepositoryArn": "arn:aws:ecr:eu-west-1:123456789012:repository/w",
                    "WorkerExec": "true",
                    "WorkerStepFunctions": "ENABLED",
                    "WorkerMissedTickTopicArn": "arn:aws:sns:eu-west-1:123456789012:missed",
                },
                {"SecretsManager", "Sqs", "Logs", "Ecr", "SsmMessages", "States", "Sns"},
            ),
        ],
        ids=lambda given: "+".join(sorted(given)) or "none",
    )
    def test_there_are_the_endpoints_that_the_parameters_need(self, given, services):
        root, endpoints = read(TEMPLATE), read(INFRA / "endpoints.yaml")
        parameters = {name: each.get("Default") for name, each in root["Parameters"].items()}
        parameters |= given
        switches = {
            name: value["Fn::If"]
            for name, value in properties(root, "EndpointsStack")["Parameters"].items()
            if "Fn::If" in value and "AllowedValues" in endpoints["Parameters"][name]
        }

        assert len(switches) == 8
        assert {
            name
            for name, (condition, then, _) in switches.items()
            if decide({"Condition": condition}, parameters, root["Conditions"])
            and parameters[then["Ref"]] == "true"
        } == services

    def test_function_and_workers_are_members_of_the_group_that_they_let_in(self):
        root = read(TEMPLATE)
        given = properties(root, "EndpointsStack")["Parameters"]["ClientSecurityGroupId"]
        function = check_template.function_properties(root, "EnqueueFunction")
        function = function["VpcConfig"]["Fn::If"][1]
        workers, functions = (
            properties(root, f"{name}Stack")["Parameters"]["SecurityGroupIds"]
            for name in ("WorkerService", "Functions")
        )

        assert given == {"Fn::GetAtt": ["AwsClientSecurityGroup", "GroupId"]}
        echoed = read(INFRA / "endpoints.yaml")["Outputs"]["ClientSecurityGroupId"]["Value"]
        assert echoed == {"Ref": "ClientSecurityGroupId"}
        # From the stack of the endpoints, if there is one: nothing starts before AWS can be reached.
        assert workers == {
            "Fn::Join": [
                ",",
                [
                    {
                        "Fn::If": [
                            "CreatesRedis",
                            {"Fn::GetAtt": ["RedisStack", "Outputs.RedisClientSecurityGroupId"]},
                            {"Ref": "SecurityGroupIds"},
                        ]
                    },
                    {
                        "Fn::If": [
                            "CreatesEndpoints",
                            {"Fn::GetAtt": ["EndpointsStack", "Outputs.ClientSecurityGroupId"]},
                            {"Fn::If": ["CreatesRedis", given, NO_VALUE]},
                        ]
                    },
                ],
            ]
        }
        assert workers == functions
        assert function["SecurityGroupIds"] == {"Fn::Split": [",", workers]}


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


def test_the_small_shop_has_one_node_one_worker_no_endpoints_and_nothing_that_needs_them():
    root = read(TEMPLATE)
    parameters = {name: each.get("Default") for name, each in root["Parameters"].items()}
    parameters |= {"Size": "small", "CreateRedis": "true", "CreateNetwork": "true"}
    parameters |= {"CreateWorkerService": "true"}

    def holds(condition):
        return decide({"Condition": condition}, parameters, root["Conditions"])

    assert root["Mappings"]["Sizes"]["small"] == {
        "NodeType": "cache.t4g.micro",
        "NodeCount": "1",
        "WorkerCount": "1",
    }
    assert holds("CreatesNetwork") and holds("CreatesWorkerService") and holds("UsesIam")
    for nothing in ("CreatesEndpoints", "CallsSecretsManager", "Spills", "HasNodeType"):
        assert not holds(nothing), nothing
    workers = properties(root, "WorkerServiceStack")["Parameters"]
    assert workers["AssignPublicIp"] == {"Fn::If": ["IsSmall", "ENABLED", "DISABLED"]}


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
            "Runtime",
            "Size",
            "Namespace",
            "Tracing",
        }
        assert named - names - {"TimeoutStopSec", "AuthToken", "CfnStack", "MemorySize"} == set()

    def test_the_rotation_changes_all_that_holds_the_password(self):
        """What CloudFormation resolves into the user at its next update is the new one, too."""
        rotation = self.TEXT.split("## Rotate the password")[1].split("\n## ")[0]
        user = properties(read(INFRA / "redis.yaml"), "DefaultUser")["AuthenticationMode"]

        written = re.findall(r"put-secret-value --secret-id \"\$(\w+)\"", rotation)
        assert written == ["PASSWORD_SECRET", "URL_SECRET"]
        assert "RedisAuthTokenSecret" in user["Passwords"][0]["Fn::Sub"]
        assert "`RedisAuthTokenSecretArn`" in rotation and "`RedisUrlSecretArn`" in rotation

    def test_the_prices_of_a_month_add_up(self):
        section = self.TEXT.split("## Cost of a month")[1].split("\n## ")[0]
        rows = [line.split("|")[2:-1] for line in section.splitlines() if line.startswith("| ")]
        _, *parts, sums = [[cell.strip(" *") for cell in row] for row in rows]

        assert len(sums) == 4
        for column, total in enumerate(sums):
            numbers = [row[column].rpartition("=")[2] for row in parts if row[column]]
            assert round(sum(map(float, numbers)), 2) == float(total)

    def test_the_numbers_are_those_of_the_files(self):
        worker = read(INFRA / "worker_service.yaml")
        [container] = properties(worker, "WorkerTaskDefinition")["ContainerDefinitions"]
        timeout = worker["Parameters"]["TimeoutSeconds"]

        assert f"`TimeoutSeconds` ({timeout['Default']})" in self.TEXT
        assert f"is at most {timeout['MaxValue']}" in self.TEXT
        assert f"after {container['StopTimeout']} seconds" in self.TEXT
