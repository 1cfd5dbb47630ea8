"""`kiqbridge export` and `restore`: what is moved between two servers, and what a kill leaves behind."""

import gzip
import io
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis as redis_py
from support.killed import Killed, killed_at
from support.servers import embedded_server
from support.waiting import wait_until

from kiqbridge.api import open_operator, read_audit
from kiqbridge.features.transfer import reading
from kiqbridge.store.redis_pool import RedisPool

ODD = [
    b"\xff\xfe\x00no utf-8",
    b"",
    b"not json",
    b"null",
    "東京 \u202e".encode(),
    b'"\\ud800"',
    b"\n",
]
AUDIT = {b"kb:audit", b"kb:audit:entries", b"kb:audit:counts"}
COMMAND = [sys.executable, "-m", "kiqbridge"]


@pytest.fixture(scope="module")
def other_server():
    with embedded_server() as server:
        yield server


@pytest.fixture(autouse=True)
def other(other_server):
    with redis_py.Redis.from_url(other_server.url) as client:
        client.flushall()
        yield client


@pytest.fixture
def run(run, redis_url, other_server, monkeypatch, tmp_path):
    """Runs one command in this process, `restore` at the other server."""
    monkeypatch.chdir(tmp_path)

    def at_its_server(verb, *args):
        monkeypatch.setenv("REDIS_URL", other_server.url if verb == "restore" else redis_url)
        return run(verb, *args)

    return at_its_server


def fill(redis, jobs=250):
    """Queues and sets, with texts that nobody can read, and scores of all kinds."""
    redis.sadd("queues", "default", "mail", b"b\xffd")
    redis.lpush("queue:default", *(f'{{"jid":"{number}"}}' for number in range(jobs)))
    redis.lpush("queue:mail", *ODD, "twin", "twin")
    redis.lpush(b"queue:b\xffd", "x")
    scores = [1.5, 1700000000.123457, 1e20, float("inf"), -3.0, 0.1 + 0.2, 7]
    for key in ("schedule", "retry", "dead"):
        redis.zadd(key, dict(zip(ODD, scores, strict=True)))
    redis.zadd("dead", {f"same{number}": 5 for number in range(jobs)})


def content(redis):
    return {
        **{
            name: redis.lrange(b"queue:" + name, 0, -1)
            for name in sorted(redis.smembers("queues"))
            if redis.exists(b"queue:" + name)
        },
        **{key: redis.zrange(key, 0, -1, withscores=True) for key in ("schedule", "retry", "dead")},
    }


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
@pytest.mark.parametrize("take", [False, True])
def test_bytes_scores_and_order_are_the_same_elsewhere(run, redis, other, name, take):
    fill(redis)
    before = content(redis)

    code, out, err = run("export", name, "--all", *(["--take", "--yes"] if take else []))
    assert (code, err) == (0, "")
    assert out.startswith(f"{'took' if take else 'exported'} 531 jobs to {name}\n")
    assert run("restore", name)[0] == 0

    assert content(other) == before
    assert content(redis) == ({"schedule": [], "retry": [], "dead": []} if take else before)
    assert not redis.exists("kb:exporting")
    assert other.smembers("queues") == redis.smembers("queues")
    assert oct(Path(name).stat().st_mode)[-3:] == "600"


def audited(url):
    entries = read_audit(open_operator(url))
    return [(each.action, each.target, each.detail, each.count) for each in entries]


@pytest.mark.usefixtures("other")
def test_what_is_taken_and_restored_is_in_the_audit_log_an_entry_each(
    run, redis, redis_url, other_server
):
    fill(redis, jobs=20)
    where = ["q.jsonl", "--queue", "default", "--set", "retry"]
    which = "(queue default: 20, set retry: 7)"

    run("export", *where, "--take", "--dry-run")
    run("export", "copy.jsonl", "--all")
    assert audited(redis_url) == []
    run("export", *where, "--take", "--yes")
    run("restore", "q.jsonl", "--dry-run")
    assert audited(other_server.url) == []
    run("restore", "q.jsonl")
    run("restore", "q.jsonl")

    [(action, target, detail, count)] = audited(redis_url)
    assert (action, target, count) == ("export --take", "queue:default, retry", 27)
    assert detail.startswith(f"to {Path.cwd()}/q.jsonl on ")
    assert detail.endswith(which)
    assert audited(other_server.url) == [
        ("restore", "queue:default, retry", f"from q.jsonl {which}", 27)
    ]


@pytest.mark.usefixtures("other")
def test_a_damaged_file_is_audited_with_what_was_put_in(run, redis, other_server):
    redis.sadd("queues", "a", "b")
    redis.lpush("queue:a", *"123")
    redis.lpush("queue:b", *"45")
    run("export", "q.jsonl", "--all")
    header, of_a, of_b, end = Path("q.jsonl").read_text().splitlines(keepends=True)
    Path("q.jsonl").write_text(header + of_a + of_b.replace('"b"', '"c"') + end)

    assert run("restore", "q.jsonl")[0] == 2

    assert audited(other_server.url) == [("restore", "queue:a", "from q.jsonl (queue a: 3)", 3)]


def test_restored_once_it_is_known(run, redis, other):
    fill(redis)
    run("export", "all.jsonl", "--all")
    run("restore", "all.jsonl")
    before = content(other)

    code, out, _ = run("restore", "all.jsonl")

    assert (code, out.split(" at ")[0]) == (0, "put in 0 jobs")
    assert out.endswith("; 531 jobs of it were put in before\n")
    assert content(other) == before
    [mark] = other.keys("kb:restored:*")
    assert 29 * 86_400 < other.ttl(mark) <= 30 * 86_400


def test_what_is_there_already_runs_first(run, redis, other):
    redis.lpush("queue:default", "a", "b")
    other.lpush("queue:default", "older")

    run("export", "q.jsonl", "--queue", "default")
    run("restore", "q.jsonl")

    assert other.lrange("queue:default", 0, -1) == [b"b", b"a", b"older"]
    assert other.smembers("queues") == {b"default"}


def test_an_export_never_writes_into_a_file_prepared_by_others(run, redis, tmp_path, monkeypatch):
    fill(redis)
    before, theirs = content(redis), tmp_path / "theirs"
    theirs.write_text("theirs")
    for name in ("jobs.part.jsonl", "link.jsonl"):
        (tmp_path / name).symlink_to(theirs)
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "second.jsonl").hardlink_to(theirs)
    empty = tmp_path / "empty.jsonl"
    empty.touch(0o666)

    assert run("export", "jobs.jsonl", "--all")[0] == 0
    assert (tmp_path / "jobs.jsonl").stat().st_mode & 0o777 == 0o600
    code, _, err = run("export", "gone.jsonl", "--all")
    assert (code, err.count("\n"), "it exists; name another file" in err) == (2, 1, True)
    for name, said in (
        ("link", "it is a link"),
        ("gone", "it is a link"),
        ("second", "second name"),
    ):
        code, _, err = run("export", f"{name}.jsonl", "--all", "--take", "--yes")
        assert (code, err.count("\n"), said in err) == (2, 1, True), (name, err)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: empty.stat().st_uid + 1)
        code, _, err = run("export", empty.name, "--all", "--take", "--yes")
    assert (code, err.count("\n"), "belongs to another user" in err) == (2, 1, True)

    assert (theirs.read_text(), empty.read_text()) == ("theirs", "")
    assert not (tmp_path / "nowhere").exists()
    assert not list(tmp_path.glob("part-*"))
    assert content(redis) == before


def test_only_what_is_chosen_and_a_dry_run_writes_nothing(run, redis, other):
    fill(redis)
    code, out, _ = run("export", "--queue", "mail", "--set", "retries", "--dry-run")
    assert code == 0
    assert out == (
        "would export 16 jobs\n  queue mail: 9\n  set retry: 7\nnot exported:\n"
        "  queue b\\xffd: 1\n  queue default: 250\n  set schedule: 7\n  set dead: 257\n"
    )

    run("export", "some.jsonl", "--queue", "mail", "--set", "retries", "--json")
    found = json.loads(run("restore", "some.jsonl", "--dry-run", "--json")[1])

    assert (found["count"], found["known"], found["dry_run"]) == (16, 0, True)
    assert other.dbsize() == 0
    assert run("restore", "some.jsonl")[0] == 0
    assert set(content(other)) == {b"mail", "schedule", "retry", "dead"}
    assert content(other)["dead"] == []


def test_a_namespace_is_another_one_there(run, redis, other, monkeypatch):
    redis.lpush("queue:default", "a")
    run("export", "q.jsonl", "--queue", "default")
    monkeypatch.setenv("KIQBRIDGE_NAMESPACE", "shop")

    run("restore", "q.jsonl")

    assert other.lrange("shop:queue:default", 0, -1) == [b"a"]
    assert other.smembers("shop:queues") == {b"default"}


class TestAKillAtAnyMoment:
    """The process ends before, or after, each of its effects; then the same command is run again."""

    @pytest.fixture(autouse=True)
    def few_at_a_time(self, monkeypatch):
        monkeypatch.setattr(reading, "FIRST_COUNT", 3)
        monkeypatch.setattr(reading, "next_count", lambda _members: 3)

    def fill(self, redis):
        redis.flushall()
        redis.sadd("queues", "default")
        redis.lpush("queue:default", *"abcdefg")
        redis.zadd("retry", {"r1": 1, "r2": 2, "r3": 3, "r4": 4})
        return content(redis)

    @pytest.mark.parametrize("name", ["q.jsonl", "q.jsonl.gz"])
    def test_taking_loses_nothing_and_takes_nothing_twice(
        self, run, redis, other, monkeypatch, name
    ):
        for moment in itertools.count():
            before = self.fill(redis)
            other.flushall()
            Path(name).unlink(missing_ok=True)
            with killed_at(monkeypatch, moment) as seen:
                run("export", name, "--all", "--take", "--yes")
            code, _, err = run("export", name, "--all", "--take", "--yes")
            assert (code, err) == (0, ""), moment
            assert run("restore", name)[0] == 0
            assert content(other) == before, moment
            assert set(redis.keys()) - AUDIT == {b"queues"}, moment
            if moment >= seen[0]:
                break
        assert moment > 60

    def test_restoring_puts_nothing_in_twice(self, run, redis, other, monkeypatch):
        before = self.fill(redis)
        run("export", "q.jsonl", "--all", "--take", "--yes")

        for moment in itertools.count():
            other.flushall()
            with killed_at(monkeypatch, moment) as seen:
                run("restore", "q.jsonl")
            assert run("restore", "q.jsonl")[0] == 0
            assert content(other) == before, moment
            if moment >= seen[0]:
                break
        assert moment >= 10


class TestSigkill:
    """The real commands, ended by SIGKILL at moments of their own, while jobs are pushed."""

    @pytest.mark.slow
    def test_100_000_jobs_arrive_once_and_in_order(
        self, redis, redis_url, other, other_server, tmp_path
    ):
        redis.sadd("queues", "default")
        pad = "x" * 200
        for first in range(0, 100_000, 10_000):
            redis.lpush(
                "queue:default", *(f"{number} {pad}" for number in range(first, first + 10_000))
            )
        file = tmp_path / "moved.jsonl"
        chance = random.Random(7)
        pushed = 100_000

        kills = 0
        steps = [
            (redis_url, ["export", str(file), "--all", "--take", "--yes"]),
            (other_server.url, ["restore", str(file)]),
        ]
        for url, words in steps:
            for attempt in range(30):
                child = subprocess.Popen(
                    [*COMMAND, *words],
                    env={**os.environ, "REDIS_URL": url},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                if attempt < 4:
                    self.wait_for_work(
                        child, words[0], redis, other, 6_000 + chance.randrange(6_000)
                    )
                    if child.poll() is None:
                        child.send_signal(signal.SIGKILL)
                        kills += 1
                    child.communicate()
                    if words[0] == "export":
                        redis.lpush("queue:default", f"{pushed} late")
                        pushed += 1
                    continue
                _, err = child.communicate(timeout=60)
                assert child.returncode == 0, err
                break

        arrived = [int(text.split()[0]) for text in other.lrange("queue:default", 0, -1)]
        assert arrived == list(reversed(range(pushed)))
        assert kills >= 6
        assert set(redis.keys()) - AUDIT == {b"queues"}

    def wait_for_work(self, child, verb, redis, other, jobs):
        """Until it has moved so many jobs, or has ended."""

        def count():
            return -redis.llen("queue:default") if verb == "export" else other.llen("queue:default")

        before = count()
        wait_until(
            lambda: child.poll() is not None or count() - before >= jobs,
            timeout_s=60,
            what="progress",
        )


def test_a_pipe_goes_from_server_to_server_and_can_be_run_again(
    redis, redis_url, other, other_server
):
    fill(redis, jobs=5_000)
    pipe = (
        "python -m kiqbridge export - --all | REDIS_URL=$OTHER python -m kiqbridge restore - --json"
    )
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "REDIS_URL": redis_url,
        "OTHER": other_server.url,
    }

    def move():
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", pipe], env=env, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert move()["count"] == 10_031
    assert content(other) == content(redis)
    redis.lpush("queue:default", "later")
    again = move()
    assert (again["count"], again["known"]) == (1, 10_031)
    assert content(other) == content(redis)


def test_a_pipe_whose_source_has_changed_is_refused_and_puts_nothing_in_twice(
    run, redis, redis_url, other, monkeypatch
):
    redis.lpush("queue:default", *"abc")

    def piped():
        text = subprocess.check_output(
            [*COMMAND, "export", "-", "--queue", "default"],
            env={**os.environ, "REDIS_URL": redis_url},
        )
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        return run("restore", "-")

    assert piped()[0] == 0
    redis.rpop("queue:default")
    redis.lpush("queue:default", "d")
    code, _, err = piped()

    assert code == 2
    assert (
        "an earlier run of this export has put in 3 jobs, and this one does not begin with them"
        in err
    )
    assert other.lrange("queue:default", 0, -1) == [b"c", b"b", b"a"]


class TestWhileOthersWork:
    def read_all(self, redis_url, place):
        pool = RedisPool(redis_url)
        try:
            keys = open_operator(redis_url).keys
            yield from (
                member for members, _ in reading.read_place(pool, keys, place) for member in members
            )
        finally:
            pool.close()

    def test_a_queue_from_which_workers_take_is_read_without_gaps_or_repeats(
        self, redis, redis_url, monkeypatch
    ):
        monkeypatch.setattr(reading, "next_count", lambda _members: 100)
        redis.lpush("queue:default", *range(3000))
        place = reading.Place(kind="queue", name="default")

        seen = []
        for number, member in enumerate(self.read_all(redis_url, place)):
            seen.append(int(member))
            if number in (150, 450, 1999):
                redis.rpop("queue:default", 70 if number < 1999 else 1990)
                redis.lpush("queue:default", *range(3000 + number, 3000 + number + 5))

        assert seen == sorted(set(seen))
        assert set(seen) >= set(range(3000)) - set(range(2000, 2130))

    def test_a_set_that_changes_is_read_without_gaps_or_repeats(
        self, redis, redis_url, monkeypatch
    ):
        monkeypatch.setattr(reading, "next_count", lambda _members: 100)
        redis.zadd("dead", {f"m{number:04}": number // 700 for number in range(3000)})
        place = reading.Place(kind="set", name="dead")

        seen = []
        for number, member in enumerate(self.read_all(redis_url, place)):
            seen.append(member.decode())
            if number in (150, 950):
                redis.zremrangebyrank("dead", 0, 80)
            if number == 1550:  # with the last one that was read
                redis.zremrangebyrank("dead", 0, 1250)
                redis.zrem("dead", "m1600")
                redis.zadd("dead", {"m0001": -1})
            if number == 2150:  # the last one that was read moves to the end
                redis.zadd("dead", {"m2200": 9999})

        assert seen == [f"m{number:04}" for number in range(3000)]

    def test_memory_is_bounded(self, redis, redis_url, tmp_path):
        """100,000 jobs of 1 KB: the process stays far below their 100 MB."""
        for first in range(0, 100_000, 5_000):
            redis.lpush(
                "queue:default", *(f"{n} {'x' * 1000}" for n in range(first, first + 5_000))
            )
        program = (
            "from kiqbridge.commands.cli import main\n"
            f"assert main(['export', {str(tmp_path / 'q.jsonl')!r}, '--queue', 'default']) == 0\n"
            "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "REDIS_URL": redis_url},
            capture_output=True,
            text=True,
            check=True,
        )

        assert int(done.stdout.split()[-1]) < 90_000, "kilobytes"


class TestRefusals:
    @pytest.fixture(autouse=True)
    def exported(self, run, redis):
        fill(redis)
        run("export", "all.jsonl", "--all")

    @pytest.mark.parametrize(
        ("edit", "reason"),
        [
            (
                lambda lines: [*lines[:2], lines[2].replace(b"jid", b"JID", 1), *lines[3:]],
                "line 3: its checksum does not fit",
            ),
            (lambda lines: lines[:-1], "it ends before its end"),
            (lambda lines: [*lines[:2], *lines[3:]], "chunk 2 is missing"),
            (lambda lines: lines[1:], "an export has one header, its first line"),
            (lambda lines: [lines[0], lines[-1]], "chunks are missing before it"),
            (lambda _lines: [], "it is empty, or no export"),
            (lambda lines: [*lines[:3], lines[3][:-9]], "no whole line"),
            (lambda _lines: [b'{"class":"Mail"}\n'], "no whole line of an export"),
        ],
    )
    def test_a_file_that_is_not_whole(self, run, tmp_path, edit, reason):
        path = tmp_path / "all.jsonl"
        path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))

        code, _, err = run("restore", "all.jsonl")

        assert code == 2
        assert reason in err
        assert "\x1b" not in err

    def test_a_compressed_file_that_is_cut_off(self, run, tmp_path):
        run("export", "all.jsonl.gz", "--all")
        path = tmp_path / "all.jsonl.gz"
        assert b"kiqbridge_export" in gzip.decompress(path.read_bytes())
        path.write_bytes(path.read_bytes()[:-20])

        assert "the compressed file is cut off or damaged" in run("restore", path)[2]

    @pytest.mark.parametrize(
        ("args", "reason"),
        [
            (["x.jsonl"], "name what to export"),
            (["--all"], "name a FILE"),
            (["all.jsonl", "--all"], "it exists"),
            (["-", "--all", "--take"], "--take needs a FILE"),
            (["missing/x.jsonl", "--all"], "No such file or directory"),
            (["x.jsonl", "--all", "--take"], "the question cannot be answered"),
        ],
    )
    def test_bad_usage_of_export(self, run, redis, args, reason):
        before = content(redis)

        code, _, err = run("export", *args)

        assert code == 2
        assert reason in err
        assert content(redis) == before

    def test_an_unfinished_export_is_found_by_the_next_one_and_can_be_given_back(
        self, run, redis, redis_url, monkeypatch
    ):
        before = content(redis)

        def dying(_file, _line):
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(reading.Taker, "release", dying)
            with pytest.raises(Killed):
                run("export", "lost.jsonl", "--queue", "default", "--take", "--yes")
        Path("lost.jsonl").unlink()

        code, _, err = run("export", "new.jsonl", "--all", "--take", "--yes")
        assert code == 2
        assert re.search(
            r"an export to \S+lost\.jsonl on \S+ was not finished, and holds 100 jobs", err
        )
        assert run("export", "--give-back", "--yes")[1] == "put back 100 jobs into queue default\n"
        assert [each[0] for each in audited(redis_url)] == ["export --give-back"]
        assert content(redis) == before
        assert run("export", "--give-back", "--yes")[1] == "No export holds anything.\n"

    def test_a_finished_one_is_not_begun_again(self, run, redis):
        run("export", "t.jsonl", "--queue", "mail", "--take", "--yes")
        redis.lpush("queue:mail", "new")

        code, out, _ = run("export", "t.jsonl", "--queue", "mail", "--take")

        assert code == 0
        assert "t.jsonl is complete with 9 jobs; nothing was taken now" in out
        assert redis.lrange("queue:mail", 0, -1) == [b"new"]

    def test_a_key_of_a_foreign_type_is_left_alone(self, run, other):
        other.set("queue:default", "text")

        code, _, err = run("restore", "all.jsonl")

        assert code == 1
        assert "WRONGTYPE" in err
        assert other.get("queue:default") == b"text"
