"""The real worker with an allow-list of commands, alone and under a supervisor."""

import json

import pytest
from support.waiting import wait_until

JOBS = ""
ENV = {
    "KIQBRIDGE_BEAT_S": "0.1",
    "HOME": "/home-of-the-worker",
    "TOKEN": "secret",
    "APP": "shop",
}


def push(client, command):
    client.push({"class": "ShellCommand", "args": [command], "retry": 0})


@pytest.mark.parametrize("processes", ["1", "2"])
def test_allowed_commands_run_in_the_folder_and_environment_of_the_worker(
    start, client, redis, folder, processes
):
    command = 'pwd > out; echo "$HOME $APP $TOKEN" >> out; mv out done'
    push(client, command)
    push(client, "touch other")

    worker = start(
        "--processes",
        processes,
        ready=False,
        KIQBRIDGE_SHELL_COMMANDS=f"{command}\nmkdir *",
        KIQBRIDGE_SHELL_ENVIRONMENT="APP",
    )
    wait_until(lambda: (folder / "done").exists() and redis.zcard("dead") == 1)

    assert (folder / "done").read_text() == f"{folder}\n/home-of-the-worker shop \n"
    [dead] = [json.loads(text) for text in redis.zrange("dead", 0, -1)]
    assert dead["args"] == ["touch other"]
    assert "not allowed" in dead["error_message"]
    assert not (folder / "other").exists()
    worker.wait_for(lambda: "ended with status 0; output: none" in worker.output)


def test_without_an_allow_list_there_is_no_such_job(start, client, redis, folder):
    push(client, "touch done")

    start("-q", "default", "--allow-no-jobs", ready=False)
    wait_until(lambda: redis.zcard("dead") == 1)

    [dead] = [json.loads(text) for text in redis.zrange("dead", 0, -1)]
    assert "uninitialized constant ShellCommand" in dead["error_message"]
    assert not (folder / "done").exists()
