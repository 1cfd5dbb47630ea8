"""`kiqbridge doctor`: what is wrong with a server, why it matters, and what to do."""

import json
import logging
import re
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import redis as redis_py
from support.proxy import Answer, InterceptingRedis
from support.servers import embedded_server, find_free_port
from support.waiting import wait_until

from kiqbridge import Client
from kiqbridge.features.doctor.examination import CATALOGUE, CHECKS
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.server_check import warn_of_eviction

FINDING = {"rule", "area", "status", "what", "why", "do", "link", "command", "acts"}


@pytest.fixture
def examine(run, monkeypatch):
    """Runs the command in this process on a server: (exit code, its answer)."""

    def examine(url, *args):
        monkeypatch.setenv("REDIS_URL", url)
        code, out, _ = run("doctor", "--json", *args)
        return code, json.loads(out)

    return examine


def found(answer, check):
    """The findings of one check; each says what, and if all is not well, why and what to do."""
    assert all(set(each) == FINDING for each in answer["findings"])
    for each in answer["findings"]:
        assert (each["status"] == "ok") == (not each["why"]) == (not each["do"]), each
    return [each for each in answer["findings"] if each["rule"] == check]


def statuses(answer):
    return {each["rule"]: each["status"] for each in answer["findings"]}


@contextmanager
def user_without(redis, url, *commands):
    """The address of a user who may do everything but these."""
    rules = [f"-{command}" for command in commands]
    redis.execute_command(
        "ACL", "SETUSER", "poor", "reset", "on", ">pw", "~*", "&*", "+@all", *rules
    )
    try:
        yield url.replace("redis://", "redis://poor:pw@")
    finally:
        redis.execute_command("ACL", "DELUSER", "poor")


def test_a_good_server_is_told_to_be_one(examine, redis, redis_url):
    with closing(Client(redis_url)) as client:
        client.push_once([{"class": "A", "args": []}], ["k"])
        client.push_tick("s", 4_000_000_000, [{"class": "A", "args": []}], by="test")

    code, answer = examine(redis_url)

    assert (code, answer["ok"]) == (1, False)
    wrong = {name for name, status in statuses(answer).items() if status != "ok"}
    # The servers of the tests keep nothing, and no worker lives.
    assert wrong == {"persistence", "no-worker"}
    assert found(answer, "guards")[0]["what"] == "1 guard with 0.0 MB"
    assert found(answer, "ledgers")[0]["what"] == "ledgers of 1 schedule with 0.0 MB"


def test_it_reads_like_a_letter_for_people(run, redis):
    redis.set("retry", "x")

    code, text, _ = run("doctor")

    assert code == 1
    assert text.startswith(
        "problem  types: retry is a string, not a zset\n"
        "         why: Whatever needs this key waits.\n"
        "         do:  Look at it, then RENAME or DEL retry.\n"
        '         run: redis-cli -u "$REDIS_URL" TYPE retry\n\n'
        "warning  persistence: "
    )
    assert "reachable" not in text
    counts = r"1 problem, 1 warning, 1 not known, \d+ checks found nothing wrong"
    assert re.search(rf"\n{counts} \(--all lists them\); ", text)
    assert "\nok       reachable: the server answers\n" in run("doctor", "--all")[1]


def test_on_a_terminal_long_lines_are_wrapped_under_their_beginning(run, redis, monkeypatch):
    redis.set("retry", "x")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    *lines, _ = run("doctor")[1].splitlines()

    assert max(map(len, lines)) <= 60
    assert {line[:5].strip() for line in lines} <= {"probl", "warni", "unkno", ""}


def test_a_server_that_cannot_be_reached_is_code_3(examine):
    url = f"redis://:secret@127.0.0.1:{find_free_port()}/0"

    code, answer = examine(url)

    assert code == 3
    [finding] = found(answer, "reachable")
    assert "cannot be reached" in finding["what"]
    assert finding["do"].startswith("check REDIS_URL")
    assert "secret" not in json.dumps(answer)


def test_a_wrong_password_is_code_3(examine, redis, redis_url):
    with user_without(redis, redis_url, "shutdown") as url:
        code, answer = examine(url.replace(":pw@", ":wrong@"))

    assert code == 3
    assert statuses(answer) == {"reachable": "problem"}


@pytest.mark.parametrize(
    ("info", "status"),
    [
        ("redis_version:6.2.14", "problem"),
        ("redis_version:7.0.0", "ok"),
        ("redis_version:10.1.0", "ok"),
        ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.2.11", "ok"),
        ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.1.0", "problem"),
    ],
)
def test_a_server_must_be_new_enough(examine, server, info, status):
    text = f"# Server\r\n{info}\r\n".encode()
    with InterceptingRedis(server.port) as proxy:
        proxy.decide = lambda command: (
            Answer(b"$%d\r\n%b\r\n" % (len(text), text))
            if command == [b"INFO", b"server"]
            else None
        )
        code, answer = examine(proxy.url)

    assert statuses(answer)["version"] == status
    assert code == (status == "problem")


@pytest.mark.parametrize(
    ("command", "checks"),
    [
        ("client|tracking", {"tracking"}),
        ("client|caching", {"tracking"}),
        ("evalsha", {"scripts", "rights"}),
    ],
)
def test_a_right_that_is_missing_is_a_problem(examine, redis, redis_url, command, checks):
    with user_without(redis, redis_url, command) as url:
        code, answer = examine(url)

    assert code == 1
    assert {each for each, status in statuses(answer).items() if status == "problem"} == checks
    for check in checks:
        assert f"+{command}" in found(answer, check)[0]["do"]


@pytest.mark.parametrize("command", ["type", "ping", "hlen"])
def test_what_a_server_does_not_tell_is_no_problem_of_its_own(examine, redis, redis_url, command):
    with user_without(redis, redis_url, command) as url:
        code, answer = examine(url, "--ignore", "rights")

    assert code == 0
    assert "unknown" in statuses(answer).values()
    assert "problem" not in statuses(answer).values()


def test_without_the_right_to_it_memory_is_not_known_and_counts_are(examine, redis, redis_url):
    with user_without(redis, redis_url, "memory") as url:
        _, answer = examine(url)

    assert found(answer, "guards")[0]["what"].startswith("0 guards (their memory is not known")


def test_each_key_of_a_foreign_type_is_named(examine, redis, redis_url):
    redis.sadd("queues", "a", "b")
    redis.zadd("kb:ledgers", {"s": 4_000_000_000})
    for key in ("queue:b", "kb:ticks:s", "kb:guards"):
        redis.set(key, "x")

    code, answer = examine(redis_url)

    assert code == 1
    assert {each["what"] for each in found(answer, "types")} == {
        "queue:b is a string, not a list",
        "kb:ticks:s is a string, not a zset",
        "kb:guards is a string, not a hash",
    }


def test_guards_that_nobody_forgets_are_told(examine, redis, redis_url):
    redis.zadd("kb:guards:until", {f"key:1:A:{number}": 1000 for number in range(10_001)})

    code, answer = examine(redis_url)

    assert code == 1
    assert "10,001 of which are over" in found(answer, "guards")[0]["what"]


class TestChoosing:
    def test_an_area_or_a_rule(self, examine, redis_url, redis):
        _, answer = examine(redis_url, "--area", "worker")
        assert {each["area"] for each in answer["findings"]} == {"worker"}

        _, answer = examine(redis_url, "--rule", "eviction", "--rule", "far-future")
        assert [each["rule"] for each in answer["findings"]] == ["eviction", "far-future"]

    def test_a_rule_that_is_ignored_neither_shows_nor_counts(self, examine, redis_url, redis):
        redis.set("retry", "x")
        assert examine(redis_url)[0] == 1

        code, answer = examine(redis_url, "--ignore", "types")

        assert code == 0
        assert found(answer, "types") == []

    def test_strict_counts_warnings(self, examine, redis_url, redis):
        assert examine(redis_url, "--rule", "persistence")[0] == 0
        assert examine(redis_url, "--rule", "persistence", "--strict")[0] == 1

    def test_a_rule_that_there_is_not_is_a_wrong_call(self, run):
        code, _, err = run("doctor", "--rule", "evictoin")

        assert code == 2
        assert "did you mean eviction?" in err

    def test_the_list_needs_no_server(self, run, monkeypatch):
        monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{find_free_port()}/0")

        rules = json.loads(run("doctor", "--list", "--json", "--area", "template")[1])

        assert {each["area"] for each in rules} == {"template"}
        assert len(run("doctor", "--list")[1].splitlines()) == len(CATALOGUE)

    def test_rights_of_others_than_a_worker(self, examine, redis, redis_url):
        with user_without(redis, redis_url, "zscan") as url:
            assert examine(url)[0] == 0
            code, answer = examine(url, "--needs", "operator")

        assert code == 1
        assert "may not run zscan, needed for: operator" in found(answer, "rights")[0]["what"]


def test_a_server_that_refuses_to_write_is_reported_with_the_reason(examine):
    with embedded_server(save="3600 1") as server, redis_py.Redis.from_url(server.url) as raw:
        folder = Path(raw.config_get("dir")["dir"], raw.config_get("dbfilename")["dbfilename"])
        folder.mkdir()
        raw.bgsave()
        wait_until(lambda: raw.info("persistence")["rdb_last_bgsave_status"] == "err", 20)
        code, answer = examine(server.url)
        raw.config_set("save", "")  # else its end waits for another one

    assert code == 3
    assert "MISCONF" in found(answer, "reachable")[0]["what"]


def test_it_stays_in_its_namespace_and_changes_nothing(examine, redis, redis_url, monkeypatch):
    monkeypatch.setenv("KIQBRIDGE_NAMESPACE", "shop")
    redis.set("retry", "x")
    redis.sadd("shop:queues", "a")

    code, _ = examine(redis_url)

    assert code == 0
    assert {*redis.keys()} == {b"retry", b"shop:queues"}


class TestAtTheStartOfAWorker:
    def warnings(self, url, caplog):
        caplog.set_level(logging.WARNING, "kiqbridge.store.server_check")
        pool = RedisPool(url)
        warn_of_eviction(pool.run)
        pool.close()
        return caplog.messages

    def test_a_policy_that_evicts_is_warned_of_in_one_line(self, caplog):
        with embedded_server(maxmemory_policy="volatile-lru") as server:
            [message] = self.warnings(server.url, caplog)

        assert "the eviction policy volatile-lru" in message
        assert "progress of iterable jobs" in message
        assert "set maxmemory-policy to noeviction" in message
        assert "parameter group" in message
        assert "\n" not in message

    def test_noeviction_is_worth_no_word(self, redis_url, redis, caplog):
        assert redis.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
        assert self.warnings(redis_url, caplog) == []

    @pytest.mark.parametrize("refused", [["info"], ["config"], ["info", "config"]])
    def test_where_one_way_of_asking_is_refused_the_other_answers(self, refused, caplog):
        with (
            embedded_server(maxmemory_policy="allkeys-lru") as server,
            redis_py.Redis.from_url(server.url) as raw,
            user_without(raw, server.url, *refused) as url,
        ):
            messages = self.warnings(url, caplog)

        assert [bool("any key" in each) for each in messages] == [True] * (len(refused) == 1)

    def test_without_redis_nothing_is_said(self, caplog):
        assert self.warnings(f"redis://127.0.0.1:{find_free_port()}/0", caplog) == []


def test_each_rule_has_a_name_of_its_own():
    names = Counter(rule.id for rules, _ in CHECKS for rule in rules)

    assert [name for name, count in names.items() if count > 1] == []
