"""The function with its password in Secrets Manager, and the time that its calls may take."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.enqueue_function import APP, ENVIRONMENT, Context, load_app, read_event

from kiqbridge.aws.environment import seconds_for_redis
from kiqbridge.errors import RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool

JOB = {"class": "NightlyReport", "args": [1]}


@pytest.fixture
def address(redis, server):
    """The address with a new password of the user `function`; connections with the former one end."""

    def address(password):
        redis.execute_command(
            "ACL", "SETUSER", "function", "reset", "on", f">{password}", "~*", "+@all"
        )
        redis.client_kill_filter(user="function")
        return server.url.replace("redis://", f"redis://function:{password}@")

    yield address
    redis.execute_command("ACL", "DELUSER", "function")


def environment(services, arn):
    return {**ENVIRONMENT, **services.aws, "REDIS_SECRET_ARN": arn}


def test_a_warm_environment_survives_the_rotation_of_its_password(
    services, address, redis, monkeypatch, capsys
):
    arn = services.secret(address("first-pw"))
    for name, value in environment(services, arn).items():
        monkeypatch.setenv(name, value)
    app = load_app()
    app.lambda_handler(JOB, Context())
    app.lambda_handler(JOB, Context())
    services.rotate(arn, address("second-pw"))

    app.lambda_handler(read_event("direct_one", **JOB), Context())

    assert redis.llen("queue:default") == 3
    assert services.operations == ["secretsmanager.GetSecretValue"] * 2
    shown = "".join(capsys.readouterr())
    assert "first-pw" not in shown
    assert "second-pw" not in shown


def test_a_secret_costs_its_environment_no_botocore(services, address, redis):
    script = f"""
        import json, runpy, sys
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from support.enqueue_function import Context
        app = runpy.run_path({str(APP)!r})
        app["lambda_handler"]({json.dumps(JOB)}, Context())
        print(json.dumps([name for name in sys.modules if name.startswith(("boto", "kiqbridge.config.cred"))]))
    """
    env = {**os.environ, **environment(services, services.secret(address("pw")))}
    command = [sys.executable, "-c", "\n".join(line[8:] for line in script.splitlines())]

    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)

    loaded = json.loads(ran.stdout.splitlines()[-1])
    assert "kiqbridge.config.credentials.aws_request" in loaded
    assert [name for name in loaded if name.startswith("boto")] == ["botocore"]  # by Powertools
    assert redis.llen("queue:default") == 1


def test_an_error_is_raised_before_the_invocation_times_out(server, monkeypatch):
    for name, value in {**ENVIRONMENT, "REDIS_URL": server.url}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(RedisPool.__init__.__kwdefaults__, "read_timeout_s", 60.0)
    app = load_app()
    app.lambda_handler(JOB, Context())
    context = Context(timeout_s=0.4)
    tick = read_event("scheduler_tick")
    tick["tick"]["at"] = f"{time.strftime('%FT%TZ', time.gmtime())}"
    began = time.monotonic()
    server.pause()
    try:
        with pytest.raises(RedisUnavailable):
            app.lambda_handler(tick, context)
    finally:
        server.resume()

    assert time.monotonic() - began < 30, "the time of the pool, twice, would be more"


@pytest.mark.parametrize(
    ("remaining_ms", "seconds"), [(30_000, 29.0), (4_000, 3.0), (2_000, 1.5), (0, 0.0), (-5, 0.0)]
)
def test_a_reserve_stays_for_the_answer(remaining_ms, seconds):
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: remaining_ms)

    assert seconds_for_redis(context) == seconds
