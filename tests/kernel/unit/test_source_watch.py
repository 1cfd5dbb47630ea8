"""Which files have changed since a worker was started."""

import os
import sys

import pytest

from kiqbridge.dev.source_watch import LOOK_S, MAX_FILES, SourceWatch, fault_of, folders_of


class Stand:
    """A folder that is watched, and a clock."""

    def __init__(self, folder):
        self.folder = folder
        self.now = 100.0
        self.look_takes_s = 0.0
        self.watch = SourceWatch([folder], [folder / "settings.yml"], monotonic=self.read)
        self._times = 0

    def read(self):
        self.now += self.look_takes_s
        return self.now

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self._times += 1
        os.utime(path, ns=(self._times, self._times))

    def look(self):
        """What is seen at the next look that makes sense."""
        self.now += self.watch.pause_s
        return self.watch.look()

    def settle(self):
        """What is seen when nothing more is written."""
        return self.look() or self.look()


@pytest.fixture
def stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stand = Stand(tmp_path)
    stand.write("app/jobs.py", "x = 1\n")
    stand.watch.mark_start()
    return stand


@pytest.mark.parametrize(
    "name", ["app/jobs.py", "app/new.py", "app/deep/er/new.py", "settings.yml", "top.py"]
)
def test_a_file_that_changes_or_is_new_is_reported_once(stand, name):
    stand.write(name, "x = 2\n")

    change = stand.settle()

    assert change.files == [str(stand.folder / name)]
    assert change.fault == ""
    assert str(change) == f"1 file changed ({name})"
    assert stand.settle() is None


def test_several_files_are_one_change_a_new_start_takes_it_and_one_that_is_deleted_is_reported(
    stand,
):
    assert stand.settle() is None
    for number in range(5):
        stand.write(f"app/part{number}.py", "")
    assert str(stand.settle()) == ("5 files changed (app/part0.py, app/part1.py, app/part2.py, …)")
    stand.watch.mark_start()
    assert stand.settle() is None
    (stand.folder / "app/jobs.py").unlink()
    assert str(stand.settle()) == "1 file changed (app/jobs.py)"


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        ".git/hook.py",
        "node_modules/gyp/x.py",
        "app/__pycache__/jobs.py",
        "env/lib/python3/site-packages/x.py",
        "venv/x.py",
    ],
)
def test_what_is_no_code_of_the_user_is_left_out(stand, name):
    stand.write("venv/pyvenv.cfg", "")
    stand.write(name, "x = 2\n")

    assert stand.settle() is None


def test_as_long_as_files_are_being_written_nothing_is_reported(stand):
    for number in range(5):
        stand.write("app/jobs.py", f"x = {number}\n")
        assert stand.look() is None

    assert len(stand.look().files) == 1


def test_a_file_that_cannot_be_compiled_is_reported_until_it_can(stand):
    stand.write("app/jobs.py", "def (:\n")
    stand.write("app/other.py", "")

    first = stand.settle()
    stand.write("app/other.py", "y = 1\n")
    second = stand.settle()
    stand.write("app/jobs.py", "x = 2\n")
    third = stand.settle()

    assert first.fault.startswith(f'  File "{stand.folder}/app/jobs.py", line 1\n')
    assert "SyntaxError" in first.fault
    assert second.fault == first.fault
    assert third.fault == ""
    assert len(third.files) == 2


def test_a_change_that_is_undone_is_none(stand):
    before = (stand.folder / "app/jobs.py").stat().st_mtime_ns
    stand.write("app/jobs.py", "def (:\n")
    assert stand.settle().fault

    stand.write("app/jobs.py", "x = 1\n")
    os.utime(stand.folder / "app/jobs.py", ns=(before, before))

    assert stand.settle() is None


def test_between_two_looks_nothing_is_read_and_a_look_that_takes_long_is_rare(stand):
    stand.write("app/jobs.py", "x = 2\n")
    assert [stand.watch.look() for _ in range(5)] == [None] * 5
    assert stand.watch.pause_s == LOOK_S
    stand.look_takes_s = 2.0
    stand.look()
    assert stand.watch.pause_s >= 20


def test_of_too_many_files_some_are_looked_at(stand, monkeypatch):
    monkeypatch.setattr(sys.modules[SourceWatch.__module__], "MAX_FILES", 3)
    for number in range(5):
        stand.write(f"app/part{number}.py", "")

    stand.watch.mark_start()

    assert not stand.watch.is_complete
    assert MAX_FILES > 3


def test_the_folders_are_those_of_the_targets_and_the_current_one(tmp_path, monkeypatch):
    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here / "jobs", other / "lib" / "watched_package"):
        folder.mkdir(parents=True)
    (other / "one.py").touch()
    (other / "lib" / "watched_package" / "__init__.py").touch()
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(str(other / "lib"))

    assert folders_of(["jobs", "missing", "pytest", "nothing.here"]) == [here]
    assert folders_of([str(other / "one.py"), "jobs"]) == [other, here]
    assert folders_of(["watched_package.jobs"]) == [other / "lib" / "watched_package", here]
    assert folders_of([str(other), "watched_package", str(other)]) == [other, here]


def test_a_file_that_is_gone_has_no_fault(tmp_path):
    assert fault_of("/no/such/file.py") == ""
    (tmp_path / "nulls.py").write_bytes(b"x = 1\0")
    assert "null bytes" in fault_of(str(tmp_path / "nulls.py"))
