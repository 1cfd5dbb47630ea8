"""The doctor's rules about a server: each broken setting gives one finding, and a good server none."""

import re
import socket
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis as redis_py
from support.certificates import make_certificate
from support.doctored import beat, enqueue, found, job, only, wrong
from support.proxy import Answer, InterceptingRedis
from support.servers import (
    debian_server,
    embedded_server,
    find_free_port,
    one_node_cluster,
    without_command,
)
from support.spoiled import spoil
from support.waiting import wait_until

from kiqbridge.api import fetch_verdict
from kiqbridge.api.rulebook import RULEBOOK
from kiqbridge.api.verdict import Status
from kiqbridge.features.doctor.examination import CATALOGUE, examine
from kiqbridge.features.doctor.redis_server import tls_finding
from kiqbridge.store.rights import needed
from kiqbridge.wire.keys import Keys

SECURITY = Path(__file__).parents[3] / "docs" / "reference" / "security.md"
TRIED_BY_OTHER_RULES = {*("info", "memory|usage", "client|tracking", "client|caching")}
AREAS = ("redis",)


@pytest.fixture
def raw(good):
    with redis_py.Redis.from_url(good.url) as raw:
        raw.flushall()
        raw.config_resetstat()
        yield raw


@contextmanager
def setting(raw, **settings):
    """The server with other settings, for as long as that lasts."""
    names = {name.replace("_", "-"): value for name, value in settings.items()}
    before = {name: raw.config_get(name)[name] for name in names}
    for name, value in names.items():
        raw.config_set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            raw.config_set(name, value)


def test_a_good_server_has_no_finding(good, raw):
    assert wrong(good.url) == []
    assert {each.area for each in found(good.url)} == {"now", "redis", "wire", "worker"}


@pytest.mark.parametrize(
    ("settings", "finds", "what"),
    [
        ({"maxmemory_policy": "allkeys-lru"}, ("eviction", "problem"), "whole queues"),
        ({"maxmemory_policy": "volatile-lru"}, ("eviction", "problem"), "keys with a time to live"),
        ({"appendonly": "no"}, ("persistence", "warning"), "neither"),
        ({"min_replicas_to_write": "1"}, ("replicas", "problem"), "has 0"),
        (
            {"client_output_buffer_limit": "normal 1000000 0 0"},
            ("output-limit", "warning"),
            "1.0 MB",
        ),
    ],
)
def test_a_setting_of_the_server_gives_one_finding(good, raw, settings, finds, what):
    rule, status = finds
    with setting(raw, **settings):
        finding = only(good.url, rule, status)

    assert what in finding.what
    assert wrong(good.url) == []


def test_snapshots_are_persistence_too(good, raw):
    with setting(raw, appendonly="no", save="3600 1"):
        assert wrong(good.url) == []


def test_a_snapshot_that_cannot_be_written_is_a_problem():
    with (
        embedded_server(save="3600 1", stop_writes_on_bgsave_error="no") as server,
        redis_py.Redis.from_url(server.url) as raw,
    ):
        folder = Path(raw.config_get("dir")["dir"])
        (folder / raw.config_get("dbfilename")["dbfilename"]).mkdir()
        raw.bgsave()
        wait_until(lambda: raw.info("persistence")["rdb_last_bgsave_status"] == "err", 20)

        finding = only(server.url, "persistence", "problem")
        raw.config_set("save", "")  # else its end waits for another one

    assert finding.what == "the server could not write a snapshot"


@pytest.mark.parametrize(("share", "status"), [(0.82, "warning"), (0.95, "problem")])
def test_memory_that_is_nearly_full_is_found(good, raw, share, status):
    for number in range(
        200
    ):  # one large one would be in the buffers of its connection for a while, too
        raw.set(f"ballast {number}", b"x" * 100_000)
    # Until it is in the file, it is in memory twice.
    wait_until(lambda: raw.info("memory")["mem_aof_buffer"] < 100_000, 20)
    used = raw.info("memory")["used_memory"]
    with setting(raw, maxmemory=str(int(used / share))):
        finding = only(good.url, "memory", status)

    assert "of maxmemory" in finding.what
    assert re.search(r"; by foreign 20\.\d MB", finding.what)


def test_a_replica_is_no_server_for_jobs(good, raw):
    raw.replicaof("127.0.0.1", find_free_port())
    try:
        finding = only(good.url, "replicas", "problem")
    finally:
        raw.replicaof("NO", "ONE")

    assert "is a replica of 127.0.0.1" in finding.what
    assert "REDIS_URL" in finding.do


def test_replicas_that_a_worker_waits_for_must_be_there(good, raw):
    environ = {"KIQBRIDGE_SETTLE_REPLICAS": "2"}
    finding = only(good.url, "replicas", "problem", environ=environ)

    assert finding.what == "KIQBRIDGE_SETTLE_REPLICAS is 2, and there are 0 replicas"


def test_a_replica_that_is_late_is_found(good, raw):
    text = (
        b"role:master\r\nconnected_slaves:1\r\n"
        b"slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=40\r\n"
    )
    with InterceptingRedis(good.port) as proxy:
        proxy.decide = lambda command: (
            Answer(b"$%d\r\n%b\r\n" % (len(text), text))
            if command == [b"INFO", b"replication"]
            else None
        )
        finding = only(proxy.url, "replicas")

    assert "10.0.0.2:6379 (online, 40 s late)" in finding.what


def test_few_connections_that_are_left_are_found(good, raw):
    with setting(raw, maxclients="30"):
        others = [socket.create_connection(("127.0.0.1", good.port)) for _ in range(24)]
        try:
            wait_until(lambda: raw.info("clients")["connected_clients"] >= 25, 10)
            finding = only(good.url, "clients")
        finally:
            for each in others:
                each.close()

    assert "of 30 connections are open" in finding.what


def test_commands_that_take_long_are_found(good, raw):
    for _ in range(58):
        raw.eval("return 1", 0)
    for _ in range(2):  # of sixty: the slowest hundredth
        raw.eval("for _ = 1, 2e7 do end", 0)

    finding = only(good.url, "slow-commands")

    assert re.search(r"EVAL [\d,]+ ms", finding.what)


def test_a_clock_that_is_wrong_is_found(good, raw):
    with InterceptingRedis(good.port) as proxy:
        reply = b"*2\r\n$10\r\n1000000000\r\n$1\r\n0\r\n"
        proxy.decide = lambda command: Answer(reply) if command == [b"TIME"] else None
        finding = only(proxy.url, "clock", "problem", areas=AREAS)

    assert "behind that of this machine" in finding.what


def test_a_slow_link_is_found(good, raw, monkeypatch):
    # The clock of the measurement runs a hundred times as fast; a link that is slow in truth takes seconds.
    ticks = iter(range(10**6))
    monkeypatch.setattr(
        "kiqbridge.features.doctor.system.time.perf_counter", lambda: next(ticks) * 0.03
    )

    finding = only(good.url, "latency")

    assert finding.what == "a round trip takes 30.0 ms"


@pytest.mark.parametrize("command", ["lrem", "zadd", "multi", "type"])
def test_each_command_that_a_worker_may_not_run_is_named(good, raw, command):
    with without_command(raw, good, command) as url:
        findings = [each for each in wrong(url, areas=AREAS) if each.rule == "rights"]

    [finding] = findings
    assert f"may not run {command}, needed for: worker" in finding.what
    assert f"+{command}" in finding.do


def test_keys_that_a_user_may_not_use_are_named(good, raw):
    raw.execute_command("ACL", "SETUSER", "poor", "reset", "on", ">pw", "~other:*", "&*", "+@all")
    try:
        findings = wrong(good.url.replace("redis://", "redis://poor:pw@"), areas=AREAS)
    finally:
        raw.execute_command("ACL", "DELUSER", "poor")

    [finding] = [each for each in findings if each.rule == "rights"]
    assert "may not use" in finding.what
    assert "dead" in finding.what


def test_what_is_tried_changes_nothing(good, raw):
    found(good.url, needs=("worker", "function", "operator"))

    assert raw.keys() == []


def test_what_operators_need_is_what_the_document_says():
    [more] = re.findall(r"```text\n  (\+zscan.*?)\n```", SECURITY.read_text("utf-8"), re.DOTALL)
    operator, worker = (
        {words[0] for words in needed(role, Keys(""))} for role in ("operator", "worker")
    )

    assert operator - worker == {word[1:] for word in more.split()}


def test_under_the_rights_of_a_worker_all_rules_can_look(good, raw):
    [block] = re.findall(r"user kiqbridge-worker (.*?)```", SECURITY.read_text("utf-8"), re.DOTALL)
    raw.execute_command("ACL", "SETUSER", "poor", "reset", *block.replace("~myapp:*", "~*").split())
    raw.execute_command("ACL", "LOG", "RESET")
    beat(raw)
    enqueue(raw, job())
    raw.zadd("retry", {job(): 4_000_000})
    enqueue(raw, job(), prefix="shop:")
    try:
        findings = wrong(good.url.replace("redis://", "redis://poor:CHANGE-ME@"))
        refused = {each[b"object"] for each in raw.execute_command("ACL", "LOG")}
    finally:
        raw.execute_command("ACL", "DELUSER", "poor")

    assert {each.rule for each in findings} == {"overdue", "namespace"}
    assert refused <= {b"client|setinfo"}  # which the library of Redis asks for at each connection


@pytest.mark.parametrize(("role", "user"), [("worker", "worker"), ("function", "enqueue")])
def test_the_rights_that_are_tried_are_those_of_the_document(role, user):
    [block] = re.findall(
        rf"```text\nuser kiqbridge-{user} (.*?)```", SECURITY.read_text("utf-8"), re.DOTALL
    )
    documented = {word[1:] for word in block.split() if word.startswith("+")}
    tried = {words[0] for words in needed(role, Keys(""))}

    assert tried == documented - TRIED_BY_OTHER_RULES - {"multi", "exec"}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("", "ok"),
        ("127.0.0.1", "ok"),
        ("10.1.2.3", "ok"),
        ("/run/redis.sock", "ok"),
        ("redis", "ok"),
        ("valkey.cache.internal", "ok"),
        ("master.x.euw1.cache.amazonaws.com", "warning"),
        ("8.8.8.8", "problem"),
        ("redis.example.com", "problem"),
    ],
)
def test_a_connection_that_leaves_private_networks_needs_tls(host, status):
    assert tls_finding(host, uses_tls=False, checks_certificate=True).status == status
    assert tls_finding(host, uses_tls=True, checks_certificate=True).status is Status.OK


def test_a_managed_server_without_tls_is_one_finding(good, raw, monkeypatch):
    name, real = "master.x.euw1.cache.amazonaws.com", socket.getaddrinfo
    monkeypatch.setattr(
        "socket.getaddrinfo",
        lambda host, *more, **named: real("127.0.0.1" if host == name else host, *more, **named),
    )

    finding = only(f"redis://{name}:{good.port}/0", "tls")

    assert "rediss://" in finding.do


@pytest.mark.openssl
@pytest.mark.redis_server
def test_tls_that_checks_nothing_is_found(tmp_path):
    make_certificate(tmp_path)
    port = find_free_port()
    with debian_server(
        appendonly="yes",
        tls_port=str(port),
        tls_cert_file=str(tmp_path / "cert.pem"),
        tls_key_file=str(tmp_path / "key.pem"),
        tls_ca_cert_file=str(tmp_path / "cert.pem"),
        tls_auth_clients="no",
    ):
        finding = only(f"rediss://localhost:{port}/0?ssl_cert_reqs=none", "tls")

    assert "certificate is not checked" in finding.what


def test_in_flight_lists_whose_incarnation_was_evicted(good, raw):
    raw.rpush("kb:inflight:host:1:abc:t1:0", job(), job())
    raw.rpush("kb:inflight:host:2:abc:t1:1", job())
    raw.sadd("kb:inflight", "host:2:abc")

    finding = only(good.url, "unregistered", "problem", areas=AREAS)

    assert finding.what == "2 jobs in flight for host:1:abc, which is not in kb:inflight"
    assert "kiqbridge recover" in finding.do


def test_the_doctor_finds_what_the_page_finds_as_bad_and_in_its_words(redis, redis_url, operator):
    spoil(redis, redis_url, operator, time.time())
    words = {"critical": "problem", "warning": "warning"}

    facts = fetch_verdict(operator).facts
    judged = {fact.kind: words[fact.severity] for fact in facts}
    findings = examine(operator)
    found = {each.rule: each.status.value for each in findings}

    assert {kind: found.get(kind) for kind in judged} == judged
    said = {(each.rule, each.do) for each in findings}
    assert {(fact.kind, fact.do) for fact in facts if fact.kind != "payload"} <= said
    assert {each.id for each in RULEBOOK} <= CATALOGUE.keys()


def test_an_address_that_names_one_node_alone_is_warned_of():
    with one_node_cluster() as server:
        url = server.url.replace("redis://", "redis+cluster://")
        [all_named, one_named] = [
            each
            for address in (url, server.url)
            for each in found(address, namespace="{jobs}", areas=AREAS)
            if each.rule == "cluster"
        ]

    assert (all_named.status, one_named.status) == ("ok", "warning")
    assert "write redis+cluster://" in one_named.do
