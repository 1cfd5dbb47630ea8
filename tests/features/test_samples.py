"""The sample events of users, in `events/`: the function enqueues each, in this repository and in an app of `init`."""

import json
from datetime import UTC, datetime

import pytest
from support.enqueue_function import ROOT, SAMPLES, Context

from kiqbridge.dev.scaffold.app_files import App, app_files
from kiqbridge.schedule.template import read_functions

NAMES = sorted(path.name for path in SAMPLES.glob("*.json"))
WITH_MAPPING = "s3_object_created.json"


@pytest.fixture(params=["repository", "app"])
def project(request, tmp_path):
    """Folder, and the job of a rule of its template."""
    if request.param == "repository":
        return ROOT, "NightlyReport"
    for path, text in app_files(App(name="shop")).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path, "DailyReport"


@pytest.mark.parametrize("name", [name for name in NAMES if name != WITH_MAPPING])
def test_a_sample_enqueues_the_job_of_a_rule(environment, load, redis, project, name):
    folder, job_class = project
    allow_as(folder, environment)
    now = f"{datetime.now(UTC):%FT%H:%M:00Z}"
    text = (folder / "events" / name).read_text()

    load().lambda_handler(
        json.loads(text.replace("<aws.scheduler.scheduled-time>", now)), Context()
    )

    [payload] = map(json.loads, redis.lrange("queue:low", 0, -1))
    assert (payload["class"], payload["args"]) == (job_class, [1])


def test_the_sample_of_s3_is_taken_by_the_mapping_in_the_comments(
    environment, load, redis, project, tmp_path
):
    folder, _ = project
    lines = (folder / "lambdas/enqueue/mappings.yml").read_text().splitlines()
    begin = lines.index("# mappings:")
    end = next(i for i, line in enumerate(lines) if "s3_object_created" in line)
    mappings = tmp_path / "uncommented.yml"
    mappings.write_text("\n".join(line.removeprefix("# ") for line in lines[begin : end + 1]))
    environment.setenv("KIQBRIDGE_MAPPINGS", str(mappings))
    for name in ("CLASSES", "QUEUES"):
        environment.setenv(f"KIQBRIDGE_ALLOWED_{name}", "*")

    load().lambda_handler(json.loads((folder / "events" / WITH_MAPPING).read_text()), Context())

    [payload] = map(json.loads, redis.lrange("queue:default", 0, -1))
    assert "orders.csv" in payload["args"]


def test_each_sample_is_in_the_readme(project):
    folder, _ = project
    text = (folder / "events/README.md").read_text()

    assert [name for name in NAMES if f"`{name}`" not in text] == []
    assert sorted(path.name for path in (folder / "events").glob("*.json")) == NAMES


def allow_as(folder, environment):
    """What the template of the folder allows by itself."""
    [function] = [each for each in read_functions(folder / "template.yaml") if each.enqueues]
    for name in ("KIQBRIDGE_ALLOWED_CLASSES", "KIQBRIDGE_ALLOWED_QUEUES"):
        environment.setenv(name, function.environment[name])
