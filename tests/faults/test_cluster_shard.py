"""Shards of which one is a cluster: its slot moves and its primary dies; the other shard goes on."""

import json
import os
import subprocess
import sys
import time
from collections import Counter

import pytest
import redis as redis_py
from support.clusters import Cluster
from support.processes import ChildProcess
from support.servers import embedded_server
from support.waiting import wait_until
from support.workers import WorkerProcess

from kiqbridge import Client, KiqbridgeError
from kiqbridge.config.shards import shards as parse_shards
from kiqbridge.store.shards import open_shards
from kiqbridge.wire.keys import Keys

pytestmark = pytest.mark.redis_server

TAG = "app"
NAMESPACE = "{app}"
KEYS = Keys(NAMESPACE)
JOBS = """
import os
from kiqbridge import job

def note(text):
    handle = os.open(os.environ["NOTES"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(handle, f"{text}\\n".encode())
    os.close(handle)

@job
def note_it(name):
    note(name)

@job(queue="mail", retry=5, retry_in=lambda *_: 1)
def relay(name):
    note_it.perform_async(name)

@job(queue="mail", retry=5, retry_in=lambda *_: 1)
def fails_once(name):
    if not os.path.exists(f"{os.environ['NOTES']}.{name}"):
        open(f"{os.environ['NOTES']}.{name}", "w").close()
        raise RuntimeError("the first time fails, as asked")
    note(name)
"""
SETTINGS = {
    "mail": {"provider": "MAIL_REDIS_URL", "queues": ["mail"]},
    "rest": {"provider": "REST_REDIS_URL", "queues": ["*"]},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def rest():
    with embedded_server() as rest:
        yield rest


@pytest.fixture
def environ(cluster, rest, tmp_path):
    """Jobs and the settings file are in the folder; the cluster is empty."""
    with cluster.owner(TAG).client() as raw:
        raw.flushall()
    (tmp_path / "shop_jobs.py").write_text(JOBS)
    (tmp_path / "kiqbridge.yml").write_text(json.dumps({"shards": SETTINGS}))  # JSON is YAML
    return {
        "MAIL_REDIS_URL": cluster.url,
        "REST_REDIS_URL": rest.url,
        "KIQBRIDGE_NAMESPACE": NAMESPACE,
        "NOTES": str(tmp_path / "notes"),
        "KIQBRIDGE_RUN_DIR": str(tmp_path / "run"),
        "KIQBRIDGE_LOG_FORMAT": "plain",
    }


@pytest.fixture
def start(environ, tmp_path):
    """Starts the worker of both shards."""
    started = []

    def start(*args, **more):
        worker = WorkerProcess(
            *("-C", "kiqbridge.yml", "-r", "shop_jobs.py", "-c", "2", *args),
            redis_url="redis://nowhere.invalid:1/0",
            cwd=tmp_path,
            env={
                **environ,
                "KIQBRIDGE_RECOVER_AFTER_S": "10",
                "KIQBRIDGE_SETTLE_REPLICAS": "1",
                **more,
            },
        )
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.close()


@pytest.fixture
def noted(tmp_path):
    def noted():
        path = tmp_path / "notes"
        return Counter(path.read_text().splitlines() if path.exists() else [])

    return noted


def client_of(environ, **options):
    pools = open_shards(parse_shards(SETTINGS, "test"), environ, namespace=NAMESPACE)
    return Client(pool=pools, namespace=NAMESPACE, **options)


def in_flight(server):
    with server.client() as raw:
        return list(raw.scan_iter(f"{KEYS.inflight}*", count=1000))


def command(environ, folder, *words, timeout_s=120):
    """One of our commands with the settings file; its exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "kiqbridge", *words],
        env={**os.environ, **environ, "KIQBRIDGE_SHARDS": json.dumps(SETTINGS)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_jobs_of_both_shards_are_performed_while_the_cluster_changes(
    cluster, rest, environ, start, noted
):
    worker = start()
    worker.wait_for_output("all 2 processes are ready", timeout_s=40)
    confirmed = client_of(environ, wait_replicas=1)
    client = client_of(environ)
    wanted = set()

    def push_some(fault):
        """For the cluster until it is safe, as a caller does who gives each job a key."""
        for number in range(12):
            name = f"{fault} {number}"
            kind = "fails_once" if number % 4 == 0 else "relay"
            item = {"class": kind, "args": [name], "queue": "mail", "retry": 5}

            def pushed(item=item, name=name):
                try:
                    return confirmed.push_once([item], [name])
                except KiqbridgeError:
                    return None

            wait_until(pushed, 60, "a push", interval_s=0.1)
            wanted.add(name)

    def push_elsewhere(fault):
        names = {f"{fault} elsewhere {number}" for number in range(12)}
        for name in names:
            client.push({"class": "note_it", "args": [name]})
        wanted.update(names)
        return names

    push_some("first")
    push_elsewhere("first")
    worker.wait_for(lambda: set(noted()) >= wanted, 60, "the first jobs")
    for fault in ("moved", "failed over", "killed"):
        if fault == "moved":
            cluster.move(TAG)
        elif fault == "failed over":
            cluster.fail_over(TAG)
        else:
            before = cluster.owner(TAG)
            cluster.replica_of(before)
            before.kill()
            elsewhere = push_elsewhere(fault)
            worker.wait_for(lambda names=elsewhere: set(noted()) >= names, 60, "the other shard's")
            cluster.wait_new_owner(TAG, before)
            before.start()
        push_some(fault)
    worker.wait_for(
        lambda: set(noted()) >= wanted, 90, f"{sorted(wanted - set(noted()))} of all jobs"
    )

    assert worker.stop(60) == 0
    assert in_flight(cluster.owner(TAG)) == []
    with redis_py.Redis.from_url(rest.url) as raw:
        assert list(raw.scan_iter(f"{KEYS.inflight}*")) == []
    client.close()
    confirmed.close()


def test_a_queue_moves_to_a_cluster_whose_slot_moves_and_back(
    cluster, rest, environ, start, tmp_path
):
    worker = start()
    worker.wait_for_output("all 2 processes are ready", timeout_s=40)
    client = client_of(environ)
    wanted, later = set(), time.time() + 3600

    def push_some(word):
        for number in range(20):
            client.push({"class": "note_it", "args": [f"{word} {number}"]})
            client.push({"class": "note_it", "args": [f"{word} later {number}"], "at": later})
            wanted.add(f"{word} {number}")

    push_some("before")
    words = [sys.executable, "-m", "kiqbridge", "queue", "move", "default", "--to", "mail"]
    env = {**environ, "KIQBRIDGE_SHARDS": json.dumps(SETTINGS)}
    with ChildProcess(words, env=env, cwd=tmp_path) as moving:
        cluster.move(TAG)
        push_some("meanwhile")
        assert moving.wait(90) == 0, moving.output
    with redis_py.Redis.from_url(rest.url) as raw:
        assert raw.zcard(KEYS.schedule) == 0
    with cluster.owner(TAG).client() as raw:
        assert raw.zcard(KEYS.schedule) == 40
    code, text = command(environ, tmp_path, "queue", "move", "default", "--to", "rest")
    assert code == 0, text
    with redis_py.Redis.from_url(rest.url) as raw:
        assert raw.zcard(KEYS.schedule) == 40

    push_some("after")

    def noted():
        return Counter((tmp_path / "notes").read_text().splitlines())

    worker.wait_for(lambda: set(noted()) >= wanted, 60, "all jobs")
    assert max(noted().values()) == 1
    assert worker.stop(60) == 0
    client.close()


def test_commands_and_the_doctor_look_at_both(cluster, rest, environ, tmp_path):
    client = client_of(environ)
    client.push({"class": "relay", "args": ["x"], "queue": "mail"})
    client.push({"class": "note_it", "args": ["x"]})

    code, text = command(environ, tmp_path, "stats", "--json")
    assert code == 0, text
    assert [(each["name"], each["enqueued"]) for each in json.loads(text)["shards"]] == [
        ("mail", 1),
        ("rest", 1),
    ]
    findings = doctored(environ, tmp_path)
    assert findings["shard-twice"] == {"ok"}
    assert findings["cluster"] == {"ok"}
    client.close()


def test_two_names_of_one_cluster_are_one_server(cluster, environ, tmp_path):
    """Whichever nodes they name: the namespace, and so the slot, is the same on all shards."""
    nodes = cluster.url.partition("://")[2].split(",")
    there = "redis+cluster://" + ",".join(reversed(nodes))

    findings = doctored({**environ, "REST_REDIS_URL": there}, tmp_path)

    assert "problem" in findings["shard-twice"]


def doctored(environ, folder):
    """Rule → what the doctor found."""
    _, text = command(environ, folder, "doctor", "--json")
    report = json.loads(text)
    found = {}
    for each in report["findings"]:
        found.setdefault(each["rule"], set()).add(each["status"])
    return found


def test_a_namespace_without_braces_is_refused_with_the_name_of_the_shard(start):
    worker = start(KIQBRIDGE_NAMESPACE="app")

    assert worker.wait(60) != 0
    assert "shards: mail: 'redis+cluster://" in worker.output
    assert "set KIQBRIDGE_NAMESPACE to a name in braces" in worker.output
    assert "Traceback" not in worker.output


def test_ruby_processes_on_the_cluster_are_refused_with_the_name_of_the_shard(cluster, start):
    with cluster.owner(TAG).client() as raw:
        raw.sadd(KEYS.processes, "web:7:bbb")
        raw.hset("{app}:web:7:bbb", "info", json.dumps({"version": "8.0.1", "queues": ["mail"]}))

    worker = start("--shard", "mail")

    assert worker.wait(60) == 1
    assert "Ruby processes use it under '{app}:': web:7:bbb" in worker.output
    assert "Traceback" not in worker.output
