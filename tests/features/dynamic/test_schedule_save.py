"""`kiqbridge schedule save`, `apply` and `delete`: what they write, say and answer."""

import io
import json
import sys
from functools import partial

import pytest
from support.placing import place_due

from kiqbridge import Schedule

FILE = """
nightly: {cron: "0 3 * * *", class: Nightly, args: [1]}
pulse: {every: 30s, class: Pulse}
rails: {every: 1m, class: RailsJob, active_job: true, args: [1]}
"""


@pytest.fixture
def run(run):
    """Runs `kiqbridge schedule`."""
    return partial(run, "schedule")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "schedules.yml"
    path.write_text(FILE)
    return str(path)


class TestSave:
    def test_creating_and_changing(self, run, schedules):
        words = ("save", "nightly", "--cron", "0 3 * * *", "--class", "Nightly")

        assert run(*words, "--dry-run") == (0, "would create nightly\n", "")
        assert run(*words) == (0, "created nightly\n", "")
        assert run(*words) == (0, "unchanged nightly\n", "")
        more = "--args [1] --queue low --timezone Europe/Paris --overlap skip --jitter 30"
        code, out, _ = run(*words, *more.split(), "--max-age", "600", "--json")

        assert code == 0
        assert json.loads(out) == {
            "dry_run": False,
            "schedules": [{"name": "nightly", "change": "changed"}],
        }
        made = schedules.get("nightly").definition
        assert (made.timezone, made.overlap, made.jitter_s) == ("Europe/Paris", "skip", 30)
        assert made.jobs[0]["args"] == [1]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("save", "n", "--cron", "61 * * * *", "--class", "A"), "61"),
            (("save", "a b", "--every", "5m", "--class", "A"), "is not a name"),
            (("save", "n", "--every", "5m", "--class", ""), "class"),
            (("save", "n", "--every", "5m", "--class", "A", "--args", "x"), "is not JSON"),
            (("save", "n", "--every", "5m", "--class", "A", "--args", "{}"), "is no list"),
            (("apply", "missing.yml"), "missing.yml: cannot be read"),
        ],
    )
    def test_what_is_wrong_is_refused(self, run, redis, words, said):
        code, _, err = run(*words)

        assert code == 2
        assert said in err
        assert not redis.keys("*")


class TestApply:
    def test_created_changed_unchanged_and_deleted(self, run, schedules, file, tmp_path):
        assert run("apply", file, "--dry-run")[1].startswith("would create nightly\n")
        assert schedules.list() == []
        code, out, err = run("apply", file)
        assert (code, err) == (0, "")
        assert out.endswith("3 created, 0 changed, 0 unchanged, 0 deleted\n")

        other = tmp_path / "other.yml"
        other.write_text('nightly: {cron: "0 4 * * *", class: Nightly, args: [1]}\n')
        assert run("apply", str(other)) == (
            0,
            "changed nightly\n0 created, 1 changed, 0 unchanged, 0 deleted\n",
            "",
        )
        assert "would delete pulse" in run("apply", str(other), "--prune", "--dry-run")[1]
        assert len(schedules.list()) == 3
        code, _, err = run("apply", str(other), "--prune")
        assert code == 2
        assert "--yes" in err
        code, out, _ = run("apply", str(other), "--prune", "--yes", "--json")
        assert [(each["name"], each["change"]) for each in json.loads(out)["schedules"]] == [
            ("nightly", "unchanged"),
            ("pulse", "deleted"),
            ("rails", "deleted"),
        ]
        assert [each.name for each in schedules] == ["nightly"]

    def test_what_it_saves_is_enqueued(self, run, redis, client, file):
        run("apply", file)

        place_due(client, by="t")

        jobs = [json.loads(text) for text in redis.zrange("schedule", 0, -1)]
        rails = [each for each in jobs if each.get("wrapped") == "RailsJob"]
        assert len(rails) >= 5
        assert rails[0]["tick"]["schedule"] == "rails"
        assert {each["class"] for each in jobs} >= {"Pulse"}

    def test_of_a_file_with_a_fault_nothing_is_written(self, run, redis, tmp_path):
        path = tmp_path / "bad.yml"
        path.write_text(FILE + "bad:\n  every: 0\n  class: A\n")

        code, _, err = run("apply", str(path))

        assert code == 2
        assert f"{path}:6: schedule 'bad': " in err
        assert not redis.keys("*")

    def test_a_name_that_a_template_has_keeps_all_from_being_written(
        self, run, redis, schedules, file
    ):
        template = {"expression": "rate(1 hour)", "jobs": [{"class": "A", "args": []}]}
        redis.hset("kb:schedules", "rails", json.dumps({**template, "origin": "template"}))

        code, _, err = run("apply", file)

        assert code == 1
        assert "'rails' is a rule of a template" in err
        assert [each.name for each in schedules] == ["rails"]

    def test_standard_input(self, run, schedules, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.StringIO(FILE))

        assert run("apply", "-")[0] == 0
        assert len(schedules.list()) == 3


@pytest.fixture
def nightly(schedules):
    schedules.save(Schedule("nightly", "A", every=60))


@pytest.mark.usefixtures("nightly")
class TestDelete:
    def test_with_yes(self, run, schedules):
        assert run("delete", "nightly", "--dry-run") == (0, "would delete nightly\n", "")
        assert run("delete", "nightly", "--yes") == (0, "deleted nightly\n", "")
        assert schedules.list() == []

    def test_one_that_is_not_known_is_said_with_near_names(self, run):
        code, out, err = run("delete", "nihgtly", "--yes")

        assert (code, out) == (1, "nihgtly is not known\n")
        assert "did you mean nightly?" in err

    def test_where_nobody_can_be_asked_nothing_is_deleted(self, run, schedules, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))

        code, _, err = run("delete", "nightly")

        assert code == 2
        assert "--yes" in err
        assert len(schedules.list()) == 1
