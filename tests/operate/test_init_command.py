"""`kiqbridge init`: which files it writes, and which it leaves alone."""

import os

import pytest

from kiqbridge.commands.cli import main
from kiqbridge.commands.init_command import name_of
from kiqbridge.errors import ConfigError
from kiqbridge.scaffold.app_files import App, app_files


def written(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("with_lambda", [True, False])
def test_each_file_is_written_and_printed(tmp_path, capsys, with_lambda):
    folder = tmp_path / "My Shop"
    flag = "--lambda" if with_lambda else "--no-lambda"

    assert main(["init", str(folder), flag]) == 0

    assert written(folder) == app_files(App(name="my-shop", with_lambda=with_lambda))
    printed = capsys.readouterr().out
    for path in written(folder):
        assert f"written      {folder / path}\n" in printed
    after = printed.split("\nNext:\n")[1].splitlines()
    assert [line.split("  #")[0].strip() for line in after] == [
        f"cd '{folder}'",
        "make test",
        "make up",
    ]


def test_in_the_current_folder_nobody_has_to_change_to_it(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)

    assert main(["init"]) == 0

    after = capsys.readouterr().out.split("\nNext:\n")[1]
    assert "cd " not in after
    assert len(after.splitlines()) == 3


def test_what_is_there_stays_as_it_is_unless_it_is_forced(tmp_path, capsys):
    own = tmp_path / "pyproject.toml"
    own.write_text("mine", encoding="utf-8")

    assert main(["init", str(tmp_path), "--name", "shop"]) == 0
    assert own.read_text("utf-8") == "mine"
    assert f"kept         {own} (it is there; --force overwrites it)" in capsys.readouterr().out
    assert (tmp_path / "Makefile").exists()

    assert main(["init", str(tmp_path), "--name", "shop", "--force"]) == 0
    assert own.read_text("utf-8") == app_files(App(name="shop"))["pyproject.toml"]
    assert f"overwritten  {own}\n" in capsys.readouterr().out


def test_a_link_is_not_followed(tmp_path):
    folder, elsewhere = tmp_path / "shop", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.write_text("mine", encoding="utf-8")
    (folder / "Makefile").symlink_to(elsewhere)
    (folder / "README.md").symlink_to(tmp_path / "nowhere")

    assert main(["init", str(folder)]) == 0
    assert (folder / "Makefile").is_symlink()
    assert main(["init", str(folder), "--force"]) == 0

    assert elsewhere.read_text("utf-8") == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert not (folder / "Makefile").is_symlink()


def test_a_dry_run_writes_nothing(tmp_path, capsys):
    folder = tmp_path / "shop"

    assert main(["init", str(folder), "--dry-run"]) == 0

    assert not folder.exists()
    printed = capsys.readouterr().out
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
def test_a_name_that_no_stack_can_have_is_refused(tmp_path, name, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["init", str(tmp_path), "--name", name])

    assert ended.value.code == 2
    assert "argument --name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_to_is_named(tmp_path, capsys):
    (tmp_path / "shop").write_text("a file", encoding="utf-8")

    assert main(["init", str(tmp_path / "shop")]) == 1

    assert f"{os.sep}shop{os.sep}" in capsys.readouterr().err
