"""`kiqbridge export` and `restore` with several shards: a file for each, which goes back to where it was."""

import json
from pathlib import Path

import pytest
from support.servers import embedded_server

from kiqbridge.commands import cli, export_command
from kiqbridge.commands.export_shards import file_of
from kiqbridge.transfer.taking import Taker

NAMES = ("mail", "fast", "rest")
FILES = [f"jobs.{name}.jsonl" for name in NAMES]


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.fixture
def filled(shards, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, value in shards.environ.items():
        monkeypatch.setenv(name, value)
    for name, raw in shards.raw.items():
        raw.sadd("queues", "default")
        raw.lpush("queue:default", f"{name} 1", f"{name} 2")
        raw.zadd("retry", {f"{name} 3": 1.5})
    return shards


@pytest.fixture
def run(filled, capsys):
    def call(*words, code=0):
        found = cli.main(words)
        captured = capsys.readouterr()
        assert found == code, captured
        return captured

    return call


def content(raw):
    return raw.lrange("queue:default", 0, -1), raw.zrange("retry", 0, -1, withscores=True)


def all_content(shards):
    return {name: content(raw) for name, raw in shards.raw.items()}


def empty(shards):
    for raw in shards.raw.values():
        raw.flushdb()


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("jobs.jsonl.gz", "jobs.mail.jsonl.gz"),
        ("of 2026.11.jsonl", "of 2026.11.mail.jsonl"),
        ("a.b/jobs", "a.b/jobs.mail"),
        ("jobs.gz", "jobs.mail.gz"),
    ],
)
def test_the_name_of_the_shard_stands_before_the_ending(file, own):
    assert file_of("mail", file) == own


@pytest.mark.parametrize("take", [False, True])
def test_each_shard_has_a_file_and_gets_it_back(filled, run, take):
    before = all_content(filled)

    out = run("export", "jobs.jsonl", "--all", *(["--take", "--yes"] if take else [])).out

    verb = "took" if take else "exported"
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        f"{verb} 3 jobs of shard {name} to jobs.{name}.jsonl" for name in NAMES
    ]
    assert sorted(map(str, Path().iterdir())) == sorted(FILES)
    empty(filled)
    answer = json.loads(run("restore", *FILES, "--json").out)
    assert all_content(filled) == before
    assert (answer["count"], [each["shard"] for each in answer["files"]]) == (9, list(NAMES))
    assert json.loads(run("restore", *FILES, "--json").out)["known"] == 9


def test_one_shard_is_exported_into_the_file_itself_and_its_file_knows_where_it_belongs(
    filled, run
):
    run("export", "jobs.jsonl", "--all", "--shard", "fast")
    assert [str(each) for each in Path().iterdir()] == ["jobs.jsonl"]
    before = content(filled.raw["fast"])
    empty(filled)

    assert "(shard rest)" in run("restore", "jobs.jsonl", "--shard", "rest", "--dry-run").out
    assert "(shard fast)" in run("restore", "jobs.jsonl").out

    assert all_content(filled) == {"mail": ([], []), "fast": before, "rest": ([], [])}
    run("restore", "jobs.jsonl", "--shard", "rest")
    assert content(filled.raw["rest"]) == before


def test_files_of_shards_are_put_into_one_server_together(filled, run, monkeypatch):
    run("export", "jobs.jsonl", "--all", "--id", "mine")
    monkeypatch.delenv("KIQBRIDGE_SHARDS")
    with embedded_server() as server:
        monkeypatch.setenv("REDIS_URL", server.url)
        assert json.loads(run("restore", *FILES, "--json").out)["count"] == 9


def test_a_file_that_belongs_to_no_shard_here_is_refused_before_anything_is_put_in(
    filled, run, monkeypatch
):
    run("export", "jobs.jsonl", "--all")
    empty(filled)
    fewer = {name: each for name, each in filled.setting.items() if name != "rest"}
    monkeypatch.setenv("KIQBRIDGE_SHARDS", json.dumps(fewer))

    found = run("restore", *FILES, code=2).err

    assert "jobs.rest.jsonl: it is of shard 'rest', which is none of the shards here" in found
    assert "--shard (mail, fast)" in found
    assert not any(raw.dbsize() for raw in filled.raw.values())


def test_a_file_of_one_server_wants_a_shard_to_be_named(filled, run, monkeypatch):
    with monkeypatch.context() as single:
        single.delenv("KIQBRIDGE_SHARDS")
        single.setenv("REDIS_URL", str(filled.setting["mail"]["url"]))
        run("export", "one.jsonl", "--all")

    assert "it is of none of the shards here" in run("restore", "one.jsonl", code=2).err
    run("restore", "one.jsonl", "--shard", "fast")
    assert filled.raw["fast"].llen("queue:default") == 4


def test_nothing_is_exported_if_a_shard_is_away_or_a_file_is_there(filled, run, monkeypatch):
    Path("jobs.fast.jsonl").write_text("mine")
    assert "jobs.fast.jsonl: there already" in run("export", "jobs.jsonl", "--all", code=2).err
    with embedded_server() as server:
        away = {**filled.setting, "mail": {"url": server.url, "queues": ["mail"]}}
    monkeypatch.setenv("KIQBRIDGE_SHARDS", json.dumps(away))

    assert "shard mail is away" in run("export", "new.jsonl", "--all", code=3).err
    assert [str(each) for each in Path().iterdir()] == ["jobs.fast.jsonl"]
    words = ("export", "new.jsonl", "--all", "--shard", "fast", "--shard", "rest")
    run(*words)
    assert {str(each) for each in Path().glob("new*")} == {"new.fast.jsonl", "new.rest.jsonl"}


def test_a_taking_that_was_killed_at_the_second_shard_goes_on_there(filled, run, monkeypatch):
    before = all_content(filled)
    words = ("export", "jobs.jsonl", "--all", "--take", "--yes")
    kept = []

    def dying(file, held, members):
        kept.append(held)
        if len(kept) == 3:  # two chunks of the first shard, the first one of the second
            raise Killed
        return keep(file, held, members)

    keep = export_command._keep
    with monkeypatch.context() as inner:
        inner.setattr(export_command, "_keep", dying)
        with pytest.raises(Killed):
            cli.main(words)
    assert filled.raw["fast"].exists("kb:exporting")

    out = run(*words).out

    assert "jobs.mail.jsonl is complete with 3 jobs" in out
    assert not any(raw.exists("kb:exporting", "retry") for raw in filled.raw.values())
    run("restore", *FILES)
    assert all_content(filled) == before


def test_what_is_held_on_any_shard_is_given_back(filled, run, monkeypatch):
    monkeypatch.setattr(Taker, "release", lambda *_: (_ for _ in ()).throw(Killed))
    with pytest.raises(Killed):
        cli.main(
            ["export", "jobs.jsonl", "--queue", "default", "--take", "--yes", "--shard", "rest"]
        )
    before = filled.raw["rest"].llen("queue:default")

    out = run("export", "--give-back", "--yes").out

    assert out.splitlines() == ["put back 2 jobs into queue default of shard rest"]
    assert (before, filled.raw["rest"].llen("queue:default")) == (0, 2)
    answer = json.loads(run("export", "--give-back", "--yes", "--json").out)
    assert answer["given_back"] == 0


def test_a_dry_run_counts_each_shard_and_a_pipe_takes_one(run):
    answer = json.loads(run("export", "--queue", "default", "--dry-run", "--json").out)
    assert answer["count"] == 6
    assert [(each["shard"], each["count"]) for each in answer["shards"]] == [(name, 2) for name in NAMES]  # fmt: skip

    assert "a pipe takes one shard" in run("export", "-", "--all", code=2).err
    assert "together with files" in run("restore", "-", "a", code=2).err
