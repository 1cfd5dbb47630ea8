"""A worker whose password is in Secrets Manager: performs, also after the password is rotated."""

import pytest
from support.waiting import wait_until
from support.workers import WorkerProcess

from kiqbridge import Client

pytestmark = pytest.mark.slow

JOBS = """
from kiqbridge import job

@job(name="Plain")
def plain(number):
    later.perform_async(number)

@job(name="Pooled", pool="process")
def pooled(number):
    later.perform_async(number)

@job(name="Later", queue="nobody")
def later(number):
    pass
"""


@pytest.fixture
def address(redis, server):
    """The address with a new password of the user `worker`; connections with the former one end."""

    def address(password):
        redis.execute_command(
            "ACL", "SETUSER", "worker", "reset", "on", f">{password}", "~*", "&*", "+@all"
        )
        redis.client_kill_filter(user="worker")
        return server.url.replace("redis://", f"redis://worker:{password}@")

    address.url = server.url
    yield address
    redis.execute_command("ACL", "DELUSER", "worker")


@pytest.mark.parametrize("flags", [(), ("--processes", "2")], ids=["alone", "supervised"])
def test_it_performs_before_and_after_a_rotation(flags, services, address, redis, tmp_path):
    redis_url = address.url
    (tmp_path / "jobs.py").write_text(JOBS)
    arn = services.secret(address("first-pw"))
    env = {**services.aws, "REDIS_SECRET_ARN": arn, "REDIS_URL": ""}
    client = Client(redis_url)

    def perform(number):
        for name in ("Plain", "Pooled"):
            client.push({"class": name, "args": [number]})
        wait_until(lambda: redis.llen("queue:nobody") == 2 * number, 30, "both jobs performed")

    with WorkerProcess(
        "-r", "jobs.py", "-q", "default", *flags, redis_url=redis_url, cwd=tmp_path, env=env
    ) as worker:
        worker.wait_ready(lambda output: "is ready" in output)
        perform(1)
        services.rotate(arn, address("second-pw"))
        perform(2)
        assert worker.stop(40) == 0

    assert "has changed: connections now go to redis://worker:***@" in worker.output
    assert "first-pw" not in worker.output
    assert "second-pw" not in worker.output
    client.close()


def test_its_start_ends_with_the_reason_when_the_secret_may_not_be_read(
    services, redis_url, tmp_path
):
    (tmp_path / "jobs.py").write_text(JOBS)
    services.refuse = lambda _operation: (400, "AccessDeniedException")
    env = {**services.aws, "REDIS_SECRET_ARN": "redis", "REDIS_URL": ""}

    with WorkerProcess("-r", "jobs.py", redis_url=redis_url, cwd=tmp_path, env=env) as worker:
        code = worker.wait(30)

    assert code == 1
    assert "the secret redis cannot be read: " in worker.output
    assert "AccessDeniedException" in worker.output
