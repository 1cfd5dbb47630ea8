"""`kiqbridge schedule publish`: what it writes, says and answers."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from support.project import template_text

from kiqbridge.features.publishing.function import outcome_of, publish_manifest
from kiqbridge.store.manifests import StandingManifest, read_manifests
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

ROOT = Path(__file__).parents[3]
KEYS = Keys()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a template of a known time, which is the working folder."""
    (tmp_path / "template.yaml").write_text(template_text(), encoding="utf-8")
    shutil.copy(ROOT / "samconfig.toml", tmp_path)
    os.utime(tmp_path / "template.yaml", (1_600_000_000, 1_600_000_000))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(run, project):
    """Runs `kiqbridge schedule publish`."""
    return partial(run, "schedule", "publish")


def date(project, at):
    os.utime(project / "template.yaml", (at, at))


def test_it_publishes_the_template_under_the_name_of_make_deploy(run, redis):
    assert run() == (0, "kiqbridge: 4 schedules published (version 1600000000)\n", "")
    assert redis.hexists("kb:schedules", "kiqbridge/NightlyReport")
    entry = json.loads(redis.hget("kb:manifests", "kiqbridge"))
    assert entry["by"].startswith("cli:")
    said = "kiqbridge: its 4 schedules are published already (version 1600000000)\n"
    assert run() == (0, said, "")


def test_a_dry_run_writes_nothing(run, redis):
    code, out, _ = run("--stack", "shop", "--dry-run")

    assert (code, out) == (0, "shop: 4 schedules would be published (version 1600000000)\n")
    assert not redis.exists("kb:manifests")


def test_an_older_version_only_as_a_rollback(run, project, redis):
    run("--stack", "shop")
    text = (project / "template.yaml").read_text()
    (project / "template.yaml").write_text(text.replace("cron(0 3 * * ? *)", "cron(0 4 * * ? *)"))
    date(project, 1_500_000_000)

    for options in (["--dry-run"], []):
        code, out, _ = run("--stack", "shop", *options)
        assert code == 1
        assert "version 1500000000 is older than version 1600000000 of shop" in out
        assert "--rollback" in out
    code, out, _ = run("--stack", "shop", "--rollback", "--json")

    assert code == 0
    assert json.loads(out) == {
        "outcome": "rolled back",
        "stack": "shop",
        "version": 1_500_000_000,
        "standing": 1_600_000_000,
        "schedules": 4,
        "removed": 0,
        "dry_run": False,
    }
    nightly = json.loads(redis.hget("kb:schedules", "shop/NightlyReport"))
    assert nightly["expression"] == "cron(0 4 * * ? *)"


def test_the_manifest_of_a_layer(run, project, redis):
    rule = {
        "expression": "rate(1 hour)",
        "jobs": [{"class": "A", "args": []}],
        "origin": "template",
    }
    (project / "m.json").write_text(json.dumps({"version": 7, "schedules": {"A": rule}}))

    assert run("--manifest", "m.json", "--stack", "shop")[0] == 0
    assert redis.hkeys("kb:schedules") == [b"shop/A"]


def test_a_deleted_stack_is_withdrawn_and_may_come_back(run, redis):
    run("--stack", "shop")
    run("--stack", "other")

    assert run("--stack", "shop", "--withdraw", "--dry-run")[0] == 0
    assert redis.hlen("kb:schedules") == 8
    code, out, _ = run("--stack", "shop", "--withdraw", "--json")
    assert (code, json.loads(out)["removed"]) == (0, 4)
    assert {name.split(b"/")[0] for name in redis.hkeys("kb:schedules")} == {b"other"}

    assert run("--stack", "shop")[0] == 0
    assert redis.hlen("kb:schedules") == 8


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--withdraw"], "write --stack NAME"),
        (["--withdraw", "--stack", "shop"], "nothing is published for stack 'shop'"),
        (["--manifest", "none.json"], "none.json: it cannot be read"),
        (["--template", "none.yaml"], "none.yaml"),
        (["--stack", "a/b"], "no name of a CloudFormation stack"),
    ],
)
def test_what_cannot_be_published_is_named(run, redis, args, says):
    code, _, err = run(*args)

    assert code != 0
    assert says in err
    assert not redis.exists("kb:manifests")


def test_without_a_name_of_a_stack_it_asks_for_one(run, project):
    (project / "samconfig.toml").unlink()

    assert "write --stack NAME" in run()[2]


def test_a_dry_run_judges_as_the_script_does(redis_url, redis):
    """Over all that stands (nothing, plain, rolled back), versions, contents and --rollback."""
    pool = RedisPool(redis_url)
    judged = 0
    for before in ([], [(5, False)], [(5, False), (3, True)]):
        for version in range(1, 8):
            for content in ("5", "3", "other"):
                for rollback in (False, True):
                    redis.flushdb()
                    for number, back in before:
                        made = {"version": number, "hash": str(number), "schedules": {}}
                        publish_manifest(pool, KEYS, made, stack="shop", by="t", rollback=back)
                    standing: StandingManifest | None = read_manifests(pool, KEYS).get("shop")
                    judgement = outcome_of(standing, version, content, rollback=rollback)
                    made = {"version": version, "hash": content, "schedules": {}}
                    done = publish_manifest(
                        pool, KEYS, made, stack="shop", by="t", rollback=rollback
                    )
                    assert done.outcome == judgement, (before, version, content, rollback)
                    judged += 1
    assert judged == 126
    pool.close()
