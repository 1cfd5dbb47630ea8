"""Deploy marks: one per label and minute, from the client and from the command (protocol §12.5)."""

import json
import re
import subprocess
import time

import pytest
from support.proxy import Answer, InterceptingRedis, Lose
from support.servers import find_free_port

from kiqbridge import Client, PayloadError
from kiqbridge.commands.cli import main
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.store.deploy import minute_of, write_mark
from kiqbridge.wire.keys import Keys

NOW = 1_770_015_783.5
"""2026-02-02 07:03:03.5 UTC."""
AT, MARKS = "2026-02-02T07:03:00Z", "20260202-marks"


def marks(redis, key=MARKS):
    return {at.decode(): label.decode() for at, label in redis.hgetall(key).items()}


class TestMark:
    def test_it_stands_at_its_minute_for_90_days(self, redis, pool):
        mark = write_mark(pool, Keys(), "v1", NOW)

        assert (mark.at, mark.standing, mark.new) == (AT, "v1", True)
        assert marks(redis) == {AT: "v1"}
        assert 7_775_990 < redis.ttl(MARKS) <= 7_776_000
        assert redis.get("deploylock-v1") == AT.encode()
        assert 50 < redis.ttl("deploylock-v1") <= 60

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

    def test_it_is_under_the_namespace(self, redis, pool):
        write_mark(pool, Keys("app"), "v1", NOW)

        assert set(redis.keys()) == {b"app:20260202-marks", b"app:deploylock-v1"}

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

    def test_a_refusal_writes_nothing(self, server, redis):
        with InterceptingRedis(server.port) as proxy:
            proxy.decide = lambda _command: Answer(b"-READONLY You can't write.\r\n")
            with pytest.raises(RedisUnavailable, match="READONLY"):
                Client(proxy.url).deploy_mark("v1")

        assert redis.dbsize() == 0

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
    def _in_a_folder_of_its_own(self, tmp_path, monkeypatch, redis_url):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("REDIS_URL", redis_url)
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

    def test_a_given_label_is_marked(self, redis, capsys):
        before = minute_of(time.time())
        assert main(["deploy-mark", "v1"]) == 0

        [key] = redis.keys("*-marks")
        [(at, label)] = marks(redis, key).items()
        assert label == "v1"
        assert capsys.readouterr().out == f"marked {at}: v1\n"
        assert before <= at <= minute_of(time.time())

    def test_without_one_it_is_the_last_commit(self, redis, repository):
        assert main(["deploy-mark"]) == 0

        [key] = redis.keys("*-marks")
        assert list(marks(redis, key).values()) == [f"{repository} Größer"]

    def test_a_second_machine_says_that_it_was_marked(self, redis, capsys):
        main(["deploy-mark", "v1"])
        assert main(["deploy-mark", "v1"]) == 0

        assert re.search(r"\nalready marked \S+Z: v1\n", capsys.readouterr().out)

    def test_a_minute_that_is_taken_is_told(self, redis, pool, capsys):
        for minute in (0, 60):  # the test may run into the next one
            write_mark(pool, Keys(), "other", time.time() + minute)
            redis.delete("deploylock-other")

        assert main(["deploy-mark", "v1"]) == 0

        told = capsys.readouterr().out
        assert re.fullmatch(r"not marked: 'other' stands at \S+Z already, .*\n", told)

    def test_as_json(self, redis, capsys):
        main(["deploy-mark", "v1", "--json"])

        [key] = redis.keys("*-marks")
        [at] = marks(redis, key)
        assert json.loads(capsys.readouterr().out) == {
            "label": "v1",
            "at": at,
            "standing": "v1",
            "new": True,
            "dry_run": False,
        }

    @pytest.mark.parametrize("flags", [[], ["--json"]])
    def test_a_dry_run_writes_nothing_and_needs_no_redis(
        self, redis, capsys, monkeypatch, repository, flags
    ):
        monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{find_free_port()}")

        assert main(["deploy-mark", "--dry-run", *flags]) == 0

        told = capsys.readouterr().out
        if flags:
            answer = json.loads(told)
            assert (answer["label"], answer["new"]) == (f"{repository} Größer", False)
            assert answer["dry_run"] is True
        else:
            assert re.fullmatch(rf"would mark \S+Z: {repository} Größer\n", told)
        assert redis.dbsize() == 0

    def test_outside_a_repository_it_asks_for_a_label(self, redis, capsys):
        assert main(["deploy-mark"]) == 2

        told = capsys.readouterr().err
        assert "none is given, and git knows none (" in told
        assert told.endswith("name what was deployed: kiqbridge deploy-mark LABEL\n")
        assert redis.dbsize() == 0

    def test_without_git_too(self, capsys, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))

        assert main(["deploy-mark"]) == 2

        assert "git does not run (" in capsys.readouterr().err

    def test_an_empty_label_is_a_usage_error(self, redis):
        assert main(["deploy-mark", " "]) == 2
        assert redis.dbsize() == 0

    def test_too_many_words_are_a_usage_error(self, capsys):
        with pytest.raises(SystemExit) as ended:
            main(["deploy-mark", "two", "words"])

        assert ended.value.code == 2
        assert "unrecognized arguments: words" in capsys.readouterr().err

    def test_without_redis_it_ends_with_3(self, capsys, monkeypatch):
        monkeypatch.setenv("REDIS_URL", f"redis://:secret@127.0.0.1:{find_free_port()}")

        assert main(["deploy-mark", "v1"]) == 3

        told = capsys.readouterr().err
        assert "cannot be reached" in told
        assert "secret" not in told
