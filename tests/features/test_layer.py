"""What the layer leaves out: no function loads it, whatever its event."""

import json
import os
import subprocess
import sys
from pathlib import PurePosixPath

import pytest
from support.enqueue_function import ENVIRONMENT, EVENTS
from support.lambda_build import ROOT, is_left_out, left_out

from kiqbridge import Schedule, Schedules
from kiqbridge.features.mappings.check import main as check_mappings

MAPPINGS = """\
mappings:
  - match: {source: "*"}
    class: HealthPulse
    args: ["powertools_json('[1]')"]
schemas: {HealthPulse: {items: [{type: array}]}}
"""

LOADED = """
import json, sys
from types import SimpleNamespace

sys.path.insert(0, sys.argv[1])
import app

context = SimpleNamespace(
    aws_request_id="8f5b8f0e-0f4a-4d57-9f1e-1c9f6c1f0a11",
    invoked_function_arn="arn:aws:lambda:eu-west-1:123456789012:function:enqueue",
    function_name="enqueue",
    memory_limit_in_mb="512",
    get_remaining_time_in_millis=lambda: 20_000,
)
answered = 0
for event in json.load(sys.stdin):
    try:
        app.lambda_handler(event, context)
        answered += 1
    except Exception as error:
        assert not isinstance(error, ImportError), error
print()
print(json.dumps({"answered": answered, "modules": [
    name.replace(".", "/") + ("/__init__.py" if hasattr(module, "__path__") else ".py")
    for name, module in sorted(sys.modules.items())
]}))
"""


@pytest.fixture
def loaded(tmp_path, redis_url):
    """What a function has loaded after its events, as paths in the layer."""

    def loaded(name, events):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "app.py").write_text((ROOT / "lambdas" / name / "app.py").read_text())
        mappings = folder / "mappings.yml"
        mappings.write_text(MAPPINGS)
        assert check_mappings([str(mappings), "--json", str(folder / "mappings.json")]) == 0
        mappings.unlink()
        more = {
            "REDIS_URL": redis_url,
            "KIQBRIDGE_STACK": "shop",
            "KIQBRIDGE_SPILL_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/spill",
            "KIQBRIDGE_WEB_IAM": "true",
            "KIQBRIDGE_WEB_ROLES": "admin=*",
            "KIQBRIDGE_WEB_ORIGINS": "http://localhost:8080",
        }
        done = subprocess.run(
            [sys.executable, "-c", LOADED, str(folder)],
            input=json.dumps(events),
            env={**os.environ, **ENVIRONMENT, **more},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        answer = json.loads(done.stdout.splitlines()[-1])
        assert answer["answered"] > len(events) / 2
        return [PurePosixPath(each) for each in answer["modules"]]

    return loaded


def test_the_enqueue_function_loads_nothing_that_the_layer_leaves_out(loaded):
    events = [json.loads(path.read_text()) for path in sorted(EVENTS.rglob("*.json"))]
    spilled = {"eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:e:123456789012:spill"}
    more = [{"kiqbridge": "publish"}, {"Records": [{**spilled, "body": "{}", "messageId": "m"}]}]

    modules = loaded("enqueue", events + more)

    assert PurePosixPath("kiqbridge/features/http_events/http.py") in modules
    assert PurePosixPath("kiqbridge/features/mappings/mapper.py") in modules
    unused = left_out("IN_NO_FUNCTION", "IN_NO_LAYER", "NOT_OF_POWERTOOLS")
    assert [each for each in modules if is_left_out(each, unused)] == []


@pytest.mark.parametrize("name", ["monitor", "tick"])
def test_a_function_of_each_minute_loads_nothing_that_the_layer_leaves_out(
    loaded, client, redis, name
):
    Schedules(client).save(Schedule("Pulse", "HealthPulse", cron="* * * * *"))
    redis.hset("kb:alive", "v2:host:1:ab:1", "7 1 1000")

    modules = loaded(name, [{}, {}])

    assert PurePosixPath("kiqbridge/aws/minutely.py") in modules
    unused = left_out("IN_NO_FUNCTION", "IN_NO_LAYER", "NOT_OF_POWERTOOLS")
    assert [each for each in modules if is_left_out(each, unused)] == []
