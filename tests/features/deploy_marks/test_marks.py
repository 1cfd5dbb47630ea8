"""Deploy marks: one per label and minute, from the client and from the command (protocol §12.5)."""

import calendar
import json
import re
import subprocess
import time

import pytest
from support.proxy import InterceptingRedis, Lose
from support.servers import find_free_port
from support.vectors import FILES, of_kind, recorded_state, state_of

from kiqbridge import Client, PayloadError
from kiqbridge.errors import RedisRefused
from kiqbridge.features.deploy_marks.marks import mark as write_mark
from kiqbridge.features.deploy_marks.marks import minute_of
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

NOW = 1_770_015_783.5
"""2026-02-02 07:03:03.5 UTC."""
AT, MARKS = "2026-02-02T07:03:00Z", "20260202-marks"


def marks(redis, key=MARKS):
    return {at.decode(): label.decode() for at, label in redis.hgetall(key).items()}


@pytest.mark.parametrize(("file", "name"), of_kind("deploy_mark"))
def test_a_deploy_mark_is_the_recorded_one(file, name, redis, redis_url):
    operation = FILES[file][name]
    recorded = recorded_state(operation["keys"])
    [(at, label)] = recorded["20261120-marks"][1].items()
    hour, minute = map(int, re.search(rb"T(\d\d):(\d\d):00Z", at).groups())
    now = calendar.timegm((2026, 11, 20, hour, minute, 59)) + 0.9

    mark = write_mark(RedisPool(redis_url), Keys(), label.decode(), now)

    assert (mark.at, mark.standing, mark.new) == (at.decode(), label.decode(), True)
    assert state_of(redis) == recorded
    for key in operation["keys"]:
        assert key["ttl"] - 5 < redis.ttl(key["key"]) <= key["ttl"]


class TestMark:
    def test_every_machine_of_a_deployment_may_say_it(self, redis, pool):
        write_mark(pool, Keys(), "v1", NOW)
        again = write_mark(pool, Keys(), "v1", NOW + 1)
        a_minute_later = write_mark(pool, Keys(), "v1", NOW + 58)

        for mark in (again, a_minute_later):
            assert (mark.at, mark.standing, mark.new) == (AT, "v1", False)
        assert marks(redis) == {AT: "v1"}

    def test_of_two_labels_in_one_minute_the_first_stays(self, redis, pool):
        write_mark(pool, Keys(), "v1", NOW)
        other = write_mark(pool, Keys(), "v2", NOW)

        assert (other.at, other.standing, other.new) == (AT, "v1", False)
        assert marks(redis) == {AT: "v1"}

    def test_the_next_minute_takes_the_next_label(self, redis, pool):
        write_mark(pool, Keys(), "v1", NOW)
        write_mark(pool, Keys(), "v2", NOW + 60)

        assert marks(redis) == {AT: "v1", "2026-02-02T07:04:00Z": "v2"}

    def test_a_lost_reply_is_repeated_and_marks_once(self, server, redis):
        with InterceptingRedis(server.port) as proxy:
            client = Client(proxy.url)
            client.deploy_mark("v1")  # the server knows the script from now on
            losses = [Lose()]
            proxy.decide = lambda _command: losses.pop() if losses else None

            mark = client.deploy_mark("v1")
            client.close()

        assert not losses
        assert mark.standing == "v1"
        [key] = redis.keys("*-marks")
        assert marks(redis, key) == {mark.at: "v1"}

    def test_keys_of_another_type_are_left_alone(self, redis, pool):
        redis.set(MARKS, "mine")

        with pytest.raises(RedisRefused, match=f"WRONGTYPE {MARKS} is a string, not a hash"):
            write_mark(pool, Keys(), "v1", NOW)

        assert redis.keys() == [MARKS.encode()]

    @pytest.mark.parametrize("label", ["", "  ", None, 5, b"v1", "\ud800"])
    def test_what_is_no_label_is_refused(self, redis, redis_url, label):
        with pytest.raises(PayloadError, match="label: "):
            Client(redis_url).deploy_mark(label)

        assert redis.dbsize() == 0


class TestCommand:
    @pytest.fixture(autouse=True)
    def _in_a_folder_of_its_own(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    @pytest.fixture
    def repository(self, tmp_path):
        def git(*words):
            identity = ("-c", "user.name=A", "-c", "user.email=a@example.com")
            command = ["git", *identity, "-c", "commit.gpgsign=false", *words]
            return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout

        git("init", "-q")
        git("commit", "-q", "--allow-empty", "-m", "Größer\n\nand a body")
        return git("rev-parse", "--short", "HEAD").decode().strip()

    def test_a_given_label_is_marked(self, run, redis):
        before = minute_of(time.time())
        code, told, _ = run("deploy-mark", "v1")

        [key] = redis.keys("*-marks")
        [(at, label)] = marks(redis, key).items()
        assert (code, label, told) == (0, "v1", f"marked {at}: v1\n")
        assert before <= at <= minute_of(time.time())

        again = run("deploy-mark", "v1")[1]
        assert re.fullmatch(r"already marked \S+Z: v1\n", again)

    def test_without_one_it_is_the_last_commit(self, run, redis, repository):
        assert run("deploy-mark")[0] == 0

        [key] = redis.keys("*-marks")
        assert list(marks(redis, key).values()) == [f"{repository} Größer"]

    def test_a_minute_that_is_taken_is_told(self, run, redis, pool):
        for minute in (0, 60):  # the test may run into the next one
            write_mark(pool, Keys(), "other", time.time() + minute)
            redis.delete("deploylock-other")

        told = run("deploy-mark", "v1")[1]

        assert re.fullmatch(r"not marked: 'other' stands at \S+Z already, .*\n", told)

    def test_as_json(self, run, redis):
        told = json.loads(run("deploy-mark", "v1", "--json")[1])

        [key] = redis.keys("*-marks")
        [at] = marks(redis, key)
        mark = {"label": "v1", "at": at, "standing": "v1", "new": True}
        assert told == {**mark, "dry_run": False}

    def test_a_dry_run_writes_nothing_and_needs_no_redis(self, run, redis, monkeypatch, repository):
        monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{find_free_port()}")

        code, told, _ = run("deploy-mark", "--dry-run")
        answer = json.loads(run("deploy-mark", "--dry-run", "--json")[1])

        assert code == 0
        assert re.fullmatch(rf"would mark \S+Z: {repository} Größer\n", told)
        assert (answer["label"], answer["new"]) == (f"{repository} Größer", False)
        assert redis.dbsize() == 0

    @pytest.mark.parametrize(
        ("words", "path", "said"),
        [
            ([], None, "none is given, and git knows none ("),
            ([], "/nowhere", "git does not run ("),
            ([" "], None, "label: "),
            (["two", "words"], None, "unrecognized arguments: words"),
        ],
    )
    def test_what_is_no_label_is_exit_2(  # noqa: PLR0917 - fixtures
        self, run, redis, monkeypatch, words, path, said
    ):
        if path is not None:
            monkeypatch.setenv("PATH", path)

        code, _, err = run("deploy-mark", *words)

        assert code == 2
        assert said in err
        assert redis.dbsize() == 0
