"""How many suspects wait, as `kiqbridge health` and the process hash of a real worker show it."""

import json

import pytest
from support.processes import ran
from support.waiting import wait_until
from support.workers import find_identity

pytestmark = [pytest.mark.slow, pytest.mark.any_server]

JOBS = ""
FLAGS = ("--allow-no-jobs",)
ENV = {"KIQBRIDGE_BEAT_S": "0.5"}


def test_health_and_the_process_hash_show_how_many_suspects_wait(redis, start, tmp_path):
    redis.sadd("paused", "default")  # so that the suspect waits
    redis.rpush("kb:suspects:default", '{"class":"note_it","args":["suspect"],"jid":"s"}')
    worker = start()
    identity = find_identity(redis, worker.pid)

    def shown():
        _, text = ran("health", "--json", "--run-dir", tmp_path / "run")
        return json.loads(text)["workers"][0]["ages"]["suspects"]

    wait_until(lambda: shown() == {"default": 1})
    wait_until(lambda: redis.hget(identity, "kb_suspects") == b"1")
