"""A cluster that speaks TLS, between its nodes as well, and the rights that docs/reference/security.md asks for in cluster mode.

A worker and the enqueue function do all under them while the slot moves, and its primary changes and dies. The
rights without a cluster are those of tests/features/test_acl.py.
"""

import re
import signal
import time
from pathlib import Path

import pytest
from support.certificates import make_certificate
from support.clusters import Cluster, port_of
from support.enqueue_function import ENVIRONMENT, Context, load_app, read_event
from support.fleet import Fleet
from support.proving import hurry_retries
from support.servers import HOST
from support.waiting import wait_until

from kiqbridge import Client, KiqbridgeError, RedisRefused, RedisUnavailable
from kiqbridge.errors import RedisMisconfigured
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

pytestmark = [
    pytest.mark.slow,
    pytest.mark.any_server,
    pytest.mark.redis_server,
    pytest.mark.openssl,
]

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "security.md"
NAMESPACE = "{myapp}"
TAG = "myapp"
KEYS = Keys(NAMESPACE)
WORKER, FUNCTION = "kiqbridge-worker", "kiqbridge-enqueue"
PASSWORD = "CHANGE-ME"


def rules_of(user):
    """What the document says of a user on one server, with the namespace of a cluster."""
    [block] = re.findall(rf"```text\nuser {user} (.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    return block.replace("~myapp:", f"~{NAMESPACE}:").split()


def rules_of_clusters():
    """What it adds in cluster mode."""
    [block] = re.findall(
        r"## In cluster mode\n.*?```text\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL
    )
    return block.split()


def allow(cluster, user, *rules):
    """On all nodes: rights are not replicated. They outlive a node that is killed."""
    for server in cluster.living():
        with server.client() as raw:
            raw.execute_command("ACL", "SETUSER", user, *rules)
            raw.execute_command("ACL", "SAVE")


def refused(cluster):
    """What any node refused since the test began: (user, reason, what)."""
    found = set()
    for server in cluster.living():
        with server.client() as raw:
            for each in raw.execute_command("ACL", "LOG"):
                found.add(
                    tuple(each[name].decode() for name in (b"username", b"reason", b"object"))
                )
    return found


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, certificate):
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "users.acl").touch()
    with Cluster(folder, certificate=certificate, aclfile=str(folder / "users.acl")) as cluster:
        yield cluster


@pytest.fixture
def allowed(cluster):
    """The cluster, empty, with the users of the document."""
    with cluster.owner(TAG).client() as raw:
        raw.flushall()
    for user in (WORKER, FUNCTION):
        allow(cluster, user, "reset", *rules_of(user), *rules_of_clusters())
    for server in cluster.living():
        with server.client() as raw:
            raw.execute_command("ACL", "LOG", "RESET")
    return cluster


def address(cluster, user):
    return cluster.address(f"{user}:{PASSWORD}")


def test_a_worker_performs_all_jobs_while_its_slot_moves_and_its_primary_changes(allowed, tmp_path):
    client = Client(address(allowed, WORKER), namespace=NAMESPACE, wait_replicas=1)
    jids = []

    def push_some():
        for _ in range(10):
            item = {"class": "Mark", "args": [2], "jid": f"{len(jids):024}", "retry": 5}
            if len(jids) % 5 == 0:
                item |= {"class": "FailOnce", "args": []}
            if len(jids) % 5 == 1:
                item["at"] = time.time() + 0.5
            jids.append(item["jid"])

            def pushed(item=item):
                try:
                    return client.push_once([item], [item["jid"]])
                except KiqbridgeError:
                    return None

            wait_until(pushed, 60, "a push", interval_s=0.1)

    def kill(tag):
        before = allowed.owner(tag)
        allowed.replica_of(before)
        before.kill()
        allowed.wait_new_owner(tag, before)
        before.start()

    env = {"KIQBRIDGE_NAMESPACE": NAMESPACE, "KIQBRIDGE_SETTLE_REPLICAS": "1"}
    with Fleet(address(allowed, WORKER), tmp_path) as fleet:
        worker = fleet.start("-c", "3", recover_after_s=10, env=env)

        def performed():
            return set(fleet.marks.look().count("performed"))

        push_some()
        wait_until(performed, 60, lambda: f"{worker.output} {refused(allowed)}")
        for change in (allowed.move, allowed.fail_over, kill):
            change(TAG)
            begun = len(performed())
            push_some()
            wait_until(lambda begun=begun: len(performed()) > begun, 60, f"jobs after {change}")

        def hurry():
            with allowed.owner(TAG).client() as raw:
                hurry_retries(raw, KEYS)
            return performed() >= set(jids)

        wait_until(hurry, 60, lambda: f"{sorted(set(jids) - performed())}", interval_s=0.3)
        worker.signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    assert "refuses" not in worker.output, worker.output
    assert refused(allowed) == set()
    client.close()


def test_calls_follow_a_slot_that_is_on_its_way(allowed):
    """MOVED and ASK name the encrypted port."""
    client = Client(address(allowed, FUNCTION), namespace=NAMESPACE)
    client.push({"class": "X", "args": []})
    target = allowed.other_primary(TAG)
    source = allowed.begin_move(TAG, target)
    allowed.move_keys(TAG, source, target)

    assert client.push({"class": "X", "args": []})  # by ASKING

    allowed.end_move(TAG, target)
    assert client.push({"class": "X", "args": []})
    with target.client() as raw:
        assert raw.llen(KEYS.queue("default")) == 3
    assert refused(allowed) == set()
    client.close()


def test_the_enqueue_function_pushes_all_forms_of_events(allowed, monkeypatch):
    for name, value in {
        **ENVIRONMENT,
        "REDIS_URL": address(allowed, FUNCTION),
        "KIQBRIDGE_NAMESPACE": NAMESPACE,
    }.items():
        monkeypatch.setenv(name, value)
    app = load_app()
    now = time.time()
    events = [
        read_event("direct_one"),
        read_event("direct_one", dedupe_key="k"),
        read_event("direct_one", dedupe_key="k") | {"in": 60},
        read_event("direct_many"),
        read_event("bus_event"),
        read_event("scheduler_tick", tick={"schedule": "s", "at": now}),
        read_event("scheduler_tick", tick={"schedule": "s", "at": now}),
    ]

    answers = [app.lambda_handler(event, Context()) for event in events]
    allowed.fail_over(TAG)
    answers.append(app.lambda_handler(read_event("direct_one"), Context()))

    assert [bool(answer["duplicates"]) for answer in answers] == [
        *(False, False, True, False, False, False, True, False)
    ]
    assert refused(allowed) == set()


# Without both of the questions for the owner nothing works, and one of them is enough.
@pytest.mark.parametrize("missing", ["-cluster|slots", "-cluster|shards"])
def test_one_question_for_the_owner_is_enough(allowed, missing):
    allow(allowed, FUNCTION, missing)
    pool = RedisPool(address(allowed, FUNCTION), namespace=NAMESPACE)

    assert pool.call("PING") == b"PONG"
    pool.close()


def test_a_worker_that_may_not_ask_for_the_owner_says_which_right_is_missing(allowed, tmp_path):
    allow(allowed, WORKER, "-cluster|slots", "-cluster|shards")

    with Fleet(address(allowed, WORKER), tmp_path) as fleet:
        worker = fleet.start(recover_after_s=None, env={"KIQBRIDGE_NAMESPACE": NAMESPACE})
        assert worker.wait(30) == 1

    assert "+cluster|slots" in worker.output
    assert PASSWORD not in worker.output
    assert "Traceback" not in worker.output


def test_without_the_key_that_never_exists_no_script_runs(allowed):
    client = without("~{myapp}:kb:none", allowed)

    with pytest.raises(RedisRefused, match="permission"):
        client.push_once([{"class": "X", "args": []}], ["k"])
    assert {user for user, _, _ in refused(allowed)} == {FUNCTION}
    client.close()


def test_without_asking_a_push_is_refused_while_its_slot_moves(allowed):
    client = without("+asking", allowed)
    target = allowed.other_primary(TAG)
    source = allowed.begin_move(TAG, target)
    try:
        with pytest.raises(RedisUnavailable, match="permissions to run the 'asking' command"):
            client.push({"class": "X", "args": [], "queue": "new"})
    finally:
        allowed.move_keys(TAG, source, target)
        allowed.end_move(TAG, target)
    assert (FUNCTION, "command", "asking") in refused(allowed)
    client.close()


def without(rule, cluster):
    """A client of the function's user, who lacks this rule."""
    rules = rules_of_clusters()
    assert rule in rules
    rest = [each for each in rules if each != rule]
    allow(cluster, FUNCTION, "reset", *rules_of(FUNCTION), *rest)
    return Client(address(cluster, FUNCTION), namespace=NAMESPACE)


def said_of(url):
    """What a failed call says, and what a look at the port does."""
    pool = RedisPool(url, namespace=NAMESPACE)
    with pytest.raises(RedisUnavailable) as failed:
        pool.call("PING")
    if isinstance(failed.value, RedisMisconfigured):
        return str(failed.value)
    return str(pool.probe(failed.value))


def test_a_certificate_of_an_unknown_authority_is_named(cluster):
    text = said_of(cluster.url.partition("?")[0])

    assert "certificate is not trusted" in text
    assert "?ssl_ca_certs=/path/ca.pem" in text


def test_a_plain_address_of_encrypted_ports_is_named(cluster):
    ports = ",".join(f"{HOST}:{port_of(server)}" for server in cluster.servers)

    assert "write rediss+cluster:// instead of redis+cluster://" in said_of(
        f"redis+cluster://{ports}"
    )
