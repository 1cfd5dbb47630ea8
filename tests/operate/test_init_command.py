"""`kiqbridge init`: which files it writes, and which it leaves alone."""

import os

import pytest

from kiqbridge.commands.init_command import name_of
from kiqbridge.dev.scaffold.app_files import App, app_files
from kiqbridge.errors import ConfigError


def written(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("with_lambda", [True, False])
def test_each_file_is_written_and_printed(run, tmp_path, with_lambda):
    folder = tmp_path / "My Shop"

    code, printed, _ = run("init", folder, "--lambda" if with_lambda else "--no-lambda")

    assert code == 0
    assert written(folder) == app_files(App(name="my-shop", with_lambda=with_lambda))
    assert '\n:app: "my-shop"\n' in written(folder)["kiqbridge.yml"]
    for path in written(folder):
        assert f"written      {folder / path}\n" in printed
    after = printed.split("\nNext:\n")[1].splitlines()
    commands = [line.split("  #")[0].strip() for line in after]
    assert commands == [f"cd '{folder}'", "make test", "make up"]


def test_in_the_current_folder_nobody_has_to_change_to_it(run, tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)

    after = run("init")[1].split("\nNext:\n")[1]

    assert "cd " not in after
    assert len(after.splitlines()) == 3


def test_what_is_there_stays_as_it_is_unless_it_is_forced(run, tmp_path):
    own = tmp_path / "pyproject.toml"
    own.write_text("mine", encoding="utf-8")

    printed = run("init", tmp_path, "--name", "shop")[1]
    assert own.read_text("utf-8") == "mine"
    assert f"kept         {own} (it is there; --force overwrites it)" in printed
    assert (tmp_path / "Makefile").exists()

    assert f"overwritten  {own}\n" in run("init", tmp_path, "--name", "shop", "--force")[1]
    assert own.read_text("utf-8") == app_files(App(name="shop"))["pyproject.toml"]


def test_a_link_is_not_followed(run, tmp_path):
    folder, elsewhere = tmp_path / "shop", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.write_text("mine", encoding="utf-8")
    (folder / "Makefile").symlink_to(elsewhere)
    (folder / "README.md").symlink_to(tmp_path / "nowhere")

    assert run("init", folder)[0] == 0
    assert (folder / "Makefile").is_symlink()
    assert run("init", folder, "--force")[0] == 0

    assert elsewhere.read_text("utf-8") == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert not (folder / "Makefile").is_symlink()


def test_a_dry_run_writes_nothing(run, tmp_path):
    folder = tmp_path / "shop"

    printed = run("init", folder, "--dry-run")[1]

    assert not folder.exists()
    assert f"would be written {folder / 'Makefile'}\n" in printed
    assert "Next:" not in printed


@pytest.mark.parametrize(
    ("folder", "name"), [("shop", "shop"), ("My_Shop 2", "my-shop-2"), ("-a-", "a")]
)
def test_the_name_is_made_of_the_folder_s(tmp_path, folder, name):
    assert name_of(tmp_path / folder) == name


@pytest.mark.parametrize("folder", ["2024", "…", "x" * 64])
def test_a_folder_without_a_usable_name_needs_one(tmp_path, folder):
    with pytest.raises(ConfigError, match="give one with --name"):
        name_of(tmp_path / folder)


@pytest.mark.parametrize("name", ["Shop", "2shop", "a_b", "a/b", "", "a-", "x" * 64])
def test_a_name_that_no_stack_can_have_is_refused(run, tmp_path, name):
    code, _, err = run("init", tmp_path, "--name", name)

    assert code == 2
    assert "argument --name" in err
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_to_is_named(run, tmp_path):
    (tmp_path / "shop").write_text("a file", encoding="utf-8")

    code, _, err = run("init", tmp_path / "shop")

    assert code == 1
    assert f"{os.sep}shop{os.sep}" in err
