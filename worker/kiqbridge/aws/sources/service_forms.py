"""How events of services without a module of their own are recognized, and what in them means what.

Sources: the services' developer guides, and the sample events of `sam local generate-event`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_ANSWER: Final = "it waits for an answer of its own form, which a job gives too late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One service's events.

    Attributes:
        what: it, for messages.
        keys: paths that lead to a value in each of its events, such as `Records.0.cf`.
        values: path → what is there.
        origin: path of who sent it.
        identity: paths of the texts that are the same at each attempt and at no other event; () = the
            service sends none.
        facets: name → path; `_` in a name stands for `-`.
        refused: why a job cannot serve it, and what to do; "" = a mapping may take it.
        returns_event: whether the service expects its own event as the answer.
        test: whether an event is the service's test.
    """

    what: str
    keys: tuple[str, ...]
    values: Mapping[str, object] = field(default_factory=dict)
    origin: str = ""
    identity: tuple[str, ...] = ()
    facets: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""
    returns_event: bool = False
    test: Callable[[Mapping[str, Any]], bool] | None = None

    def is_its_own(self, event: Mapping[str, Any]) -> bool:
        """Whether the event has this form."""
        return all(at(event, path) is not None for path in self.keys) and all(
            at(event, path) == value for path, value in self.values.items()
        )


def at(event: object, path: str) -> Any:
    """The value at a path such as `Records.0.ses.mail`, None if there is none; `/` is a key's own dot."""
    if not path:
        return None
    value = event
    for step in (key.replace("/", ".") for key in path.split(".")):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


FORMS: Final[dict[str, Form]] = {
    "ses": Form(
        what="a message that SES received",
        keys=("Records.0.ses.mail",),
        origin="Records.0.ses.mail.source",
        identity=("Records.0.ses.mail.messageId",),
        facets={"recipient": "Records.0.ses.receipt.recipients.0"},
    ),
    "codecommit": Form(
        what="a trigger of CodeCommit",
        keys=("Records.0.codecommit",),
        origin="Records.0.eventSourceARN",
        identity=("Records.0.eventSourceARN", "Records.0.eventId"),
        facets={"event": "Records.0.eventName", "ref": "Records.0.codecommit.references.0.ref"},
        test=lambda event: at(event, "Records.0.eventName") == "TriggerEventTest",
    ),
    "cloudfront": Form(
        what="a request at the edge (CloudFront)",
        keys=("Records.0.cf",),
        refused=f"{_ANSWER}; enqueue in the origin, or through CloudFront's logs",
    ),
    "firehose": Form(
        what="a transformation of Data Firehose",
        keys=("invocationId", "records.0.recordId", "region"),
        refused=(
            "Firehose waits for the transformed records; attach the function to the stream from which "
            "Firehose reads, or to the bucket into which it writes"
        ),
    ),
    "kinesis-analytics": Form(
        what="a preprocessing of Kinesis Data Analytics",
        keys=("invocationId", "records.0.recordId", "applicationArn"),
        refused=(
            "the application waits for the records; attach the function to the stream from which it "
            "reads"
        ),
    ),
    "authorizer": Form(
        what="the question of an authorizer (API Gateway)",
        keys=("methodArn", "type"),
        refused="it asks for a policy; let a route of the API enqueue instead",
    ),
    "authorizer-v2": Form(
        what="the question of an authorizer (HTTP API)",
        keys=("routeArn", "type"),
        refused="it asks for a policy; let a route of the API enqueue instead",
    ),
    "s3-object-lambda": Form(
        what="a request of S3 Object Lambda",
        keys=("getObjectContext", "userRequest"),
        refused="it waits for the object; use a notification of the bucket",
    ),
    "cloudwatch-alarm": Form(
        what="an alarm of CloudWatch",
        keys=("alarmArn", "alarmData"),
        origin="alarmArn",
        identity=("alarmArn", "alarmData.state.value", "alarmData.state.timestamp"),
        facets={
            "alarm": "alarmData.alarmName",
            "state": "alarmData.state.value",
            "account": "accountId",
            "region": "region",
        },
    ),
    "cognito": Form(
        what="a trigger of a user pool (Cognito)",
        keys=("userPoolId", "triggerSource"),
        origin="userPoolId",
        facets={"trigger": "triggerSource", "region": "region", "client": "callerContext.clientId"},
        returns_event=True,
    ),
    "cognito-sync": Form(
        what="a trigger of Cognito Sync",
        keys=("identityPoolId", "datasetName"),
        origin="identityPoolId",
        facets={"trigger": "eventType", "dataset": "datasetName", "region": "region"},
        returns_event=True,
    ),
    "codepipeline": Form(
        what="an action of CodePipeline",
        keys=("CodePipeline/job.id",),
        identity=("CodePipeline/job.id",),
        facets={"account": "CodePipeline/job.accountId"},
    ),
    "codedeploy": Form(
        what="a hook of a deployment (CodeDeploy)",
        keys=("DeploymentId", "LifecycleEventHookExecutionId"),
        origin="DeploymentId",
        identity=("DeploymentId", "LifecycleEventHookExecutionId"),
    ),
    "config": Form(
        what="an evaluation of a rule (AWS Config)",
        keys=("invokingEvent", "configRuleArn"),
        origin="configRuleArn",
        identity=("configRuleArn", "invokingEvent", "resultToken"),
        facets={"rule": "configRuleName", "account": "accountId"},
    ),
    "cloudformation": Form(
        what="a custom resource (CloudFormation)",
        keys=("RequestType", "ResponseURL", "StackId"),
        origin="StackId",
        identity=("StackId", "RequestId"),
        facets={
            "request": "RequestType",
            "resource": "LogicalResourceId",
            "resource_type": "ResourceType",
        },
    ),
    "connect": Form(
        what="a contact flow (Amazon Connect)",
        keys=("Details.ContactData",),
        values={"Name": "ContactFlowEvent"},
        origin="Details.ContactData.InstanceARN",
        facets={"channel": "Details.ContactData.Channel"},
    ),
    "lex-v2": Form(
        what="a bot (Amazon Lex)",
        keys=("sessionState.intent", "bot.name"),
        origin="bot.name",
        facets={"intent": "sessionState.intent.name", "invocation": "invocationSource"},
    ),
    "lex": Form(
        what="a bot (Amazon Lex V1)",
        keys=("currentIntent", "bot.name"),
        origin="bot.name",
        facets={"intent": "currentIntent.name", "invocation": "invocationSource"},
    ),
    "alexa-skill": Form(
        what="a request of an Alexa skill",
        keys=("session.application", "request.type"),
        origin="session.application.applicationId",
        identity=("request.requestId",),
        facets={"request": "request.type", "intent": "request.intent.name"},
    ),
    "alexa-smart-home": Form(
        what="a directive of Alexa Smart Home",
        keys=("header.namespace", "header.messageId", "payload"),
        origin="header.namespace",
        identity=("header.messageId",),
        facets={"request": "header.name"},
    ),
    "appsync": Form(
        what="a field of AppSync",
        keys=("info.fieldName", "arguments"),
        origin="info.parentTypeName",
        facets={"field": "info.fieldName", "type": "info.parentTypeName"},
    ),
    "iot-registry": Form(
        what="a change of the registry (AWS IoT)",
        keys=("eventId", "eventType", "timestamp"),
        origin="eventType",
        identity=("eventId",),
        facets={"event": "eventType", "operation": "operation", "account": "accountId"},
    ),
    "iot-button": Form(
        what="a button of AWS IoT",
        keys=("serialNumber", "clickType"),
        origin="serialNumber",
        facets={"click": "clickType"},
    ),
    "secrets-manager": Form(
        what="a step of a rotation (Secrets Manager)",
        keys=("SecretId", "ClientRequestToken", "Step"),
        origin="SecretId",
        identity=("SecretId", "ClientRequestToken", "Step"),
        facets={"step": "Step"},
    ),
    "sagemaker": Form(
        what="a labelling job (SageMaker Ground Truth)",
        keys=("labelingJobArn", "version"),
        origin="labelingJobArn",
    ),
    "workmail": Form(
        what="a message of WorkMail",
        keys=("summaryVersion", "flowDirection", "invocationId"),
        origin="envelope.mailFrom.address",
        identity=("invocationId",),
    ),
    "batch": Form(
        what="a job of AWS Batch",
        keys=("jobName", "jobQueue", "jobDefinition"),
        origin="jobQueue",
        facets={"name": "jobName", "definition": "jobDefinition"},
    ),
    "step-functions-error": Form(
        what="an error that a state machine caught (Step Functions)",
        keys=("Error", "Cause"),
        facets={"error": "Error"},
    ),
    "failed-batch": Form(
        what="a batch that an event source mapping gave up",
        keys=("requestContext.condition", "responseContext"),
        origin="requestContext.functionArn",
        identity=("requestContext.functionArn", "requestContext.requestId"),
        facets={"condition": "requestContext.condition"},
    ),
    "kafka": Form(
        what="a batch of Kafka",
        keys=("records", "bootstrapServers"),
        origin="eventSourceArn",
        facets={"event_source": "eventSource"},
    ),
    "amazon-mq": Form(
        what="a batch of Amazon MQ for ActiveMQ",
        keys=("messages.0.messageID", "eventSourceArn"),
        origin="eventSourceArn",
        facets={"queue": "messages.0.destination.physicalName"},
    ),
    "rabbit-mq": Form(
        what="a batch of Amazon MQ for RabbitMQ",
        keys=("rmqMessagesByQueue", "eventSourceArn"),
        origin="eventSourceArn",
    ),
    "bedrock-agent": Form(
        what="an action of a Bedrock agent",
        keys=("messageVersion", "agent", "actionGroup"),
        origin="agent.id",
        facets={"action_group": "actionGroup", "function": "function", "path": "apiPath"},
    ),
    "transfer": Form(
        what="the question for an identity (Transfer Family)",
        keys=("serverId", "username", "protocol"),
        refused="it waits for the user's rights; a job cannot give them",
    ),
}
"""Source → its form; the first that fits is taken."""
