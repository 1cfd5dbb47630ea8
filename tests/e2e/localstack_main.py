"""Starts LocalStack with what this run needs changed in it; runs in the environment `.venv-e2e`."""

import tempfile
from types import SimpleNamespace

from e2e.process_executor import ProcessExecutor
from localstack.runtime.main import main
from localstack.services.cloudformation.engine.v2.change_set_model import (
    ChangeSetModel,
    ChangeType,
)
from localstack.services.cloudformation.engine.v2.change_set_model_transform import (
    ChangeSetModelTransform,
)
from localstack.services.cloudformation.engine.validations import ValidationError
from localstack.services.lambda_.event_source_mapping.pollers.sqs_poller import SqsPoller
from localstack.services.lambda_.invocation.plugins import DockerRuntimeExecutorPlugin
from localstack.services.s3 import provider as s3

visit_resource = ChangeSetModel._visit_resource
get_resource = ChangeSetModelTransform._get_node_resource_for
handle_messages = SqsPoller.handle_messages
add_source_metadata = SqsPoller.add_source_metadata


def visit_once(model, scope, resource_name, before_resource, after_resource):
    """Visit a resource, unless that is under way.

    LocalStack compares the templates of an update also before SAM's transform. There a function's
    events name the role of the schedules, and that role names the function: a circle that does not
    exist in what CloudFormation sees, and in which LocalStack goes round for ever.
    """
    under_way = model.__dict__.setdefault("_under_way", set())
    if resource_name in under_way:
        return SimpleNamespace(
            change_type=ChangeType.UNCHANGED, properties=SimpleNamespace(properties=[])
        )
    under_way.add(resource_name)
    try:
        return visit_resource(model, scope, resource_name, before_resource, after_resource)
    finally:
        under_way.discard(resource_name)


def find_resource(transform, resource_name, node_template):
    """Find a resource, or say by RuntimeError that its value is not known yet.

    Before SAM's transform a template may name resources that the transform makes, such as the rule of an
    event. LocalStack goes on after a RuntimeError, and refuses the template after its ValidationError.
    """
    try:
        return get_resource(transform, resource_name, node_template)
    except ValidationError as error:
        raise RuntimeError(str(error)) from error


def note_bodies(poller, messages):
    """Handle messages whose bodies are known as they are: see `with_their_bodies`."""
    poller.bodies = {each["MessageId"]: each["Body"] for each in messages}
    handle_messages(poller, messages)


def with_their_bodies(poller, events):
    """Events with the bodies that lie in the queue, as Lambda delivers them.

    LocalStack reads each as JSON for its filters and writes it anew, so that no signature fits.
    """
    for event in events:
        event["body"] = poller.bodies[event["messageId"]]
    return add_source_metadata(poller, events)


ChangeSetModel._visit_resource = visit_once
ChangeSetModelTransform._get_node_resource_for = find_resource
SqsPoller.handle_messages = note_bodies
SqsPoller.add_source_metadata = with_their_bodies
# A folder that all runs share, otherwise, and that stays.
s3.DEFAULT_S3_TMP_DIR = f"{tempfile.gettempdir()}/s3"
# The plug-in that LocalStack takes by default; asked each time that it needs the executor.
DockerRuntimeExecutorPlugin.load = lambda *_args, **_options: ProcessExecutor

if __name__ == "__main__":
    main()
