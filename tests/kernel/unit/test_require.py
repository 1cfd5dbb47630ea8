"""Loading the code that declares jobs: what `-r` takes."""

import importlib
import sys

import pytest
from support.jobs import own_declarations

from kiqbridge.client.registry import default_registry
from kiqbridge.client.require import load_all
from kiqbridge.errors import ConfigError

JOB = "from kiqbridge import job\n\n@job\ndef {name}(): ...\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty current directory; what is loaded from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    with own_declarations():
        yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(path, *names, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "".join(JOB.format(name=name) for name in names))


def declared():
    return {definition.name for definition in default_registry}


def test_a_dotted_module_is_imported_from_the_current_directory(here):
    write(here / "req_shop" / "__init__.py")
    write(here / "req_shop" / "tasks.py", "task_a")
    write(here / "req_shop" / "other.py", "task_b")

    load_all(("req_shop.tasks",))

    assert declared() == {"task_a"}


def test_a_package_is_imported_with_all_that_is_in_it(here):
    write(here / "req_app" / "__init__.py", "package_a")
    write(here / "req_app" / "one.py", "package_b")
    write(here / "req_app" / "deep" / "__init__.py")
    write(here / "req_app" / "deep" / "two.py", "package_c")

    load_all(("req_app",))

    assert declared() == {"package_a", "package_b", "package_c"}


@pytest.mark.parametrize(
    "target", ["worker/req_jobs", "./worker/req_jobs", "worker/req_jobs/", "req_jobs"]
)
def test_a_directory_is_loaded_file_by_file_which_may_import_each_other(here, target):
    folder = here / "worker" / "req_jobs" if "worker" in target else here / "req_jobs"
    write(folder / "req_one.py", "file_a", text="import req_two\n" if "worker" in target else "")
    write(folder / "req_two.py", "file_b")
    load_all((target,))
    assert declared() == {"file_a", "file_b"}


@pytest.mark.parametrize("file", ["py/req_hidden.py", "queue.py", "req_installed.py"])
@pytest.mark.parametrize("is_behind", [False, True])
def test_what_lies_in_the_current_directory_comes_before_modules_of_its_name(
    here, tmp_path_factory, monkeypatch, file, is_behind
):
    """Modules that are installed, that are Python's own, and that are loaded already."""
    installed = tmp_path_factory.mktemp("installed")
    (installed / "py.py").touch()
    (installed / "req_installed.py").touch()
    sys.path[:0] = [str(installed)]
    if is_behind:  # as by `pip install -e .`
        sys.path.append(str(here))
    write(here / file, "beside")

    load_all((file.removesuffix(".py").partition("/")[0],))

    assert declared() == {"beside"}


def test_a_folder_without_code_hides_no_module_of_its_name(here, tmp_path_factory):
    installed = tmp_path_factory.mktemp("installed")
    write(installed / "req_lib.py", "installed")
    sys.path[:0] = [str(installed)]
    (here / "req_lib").mkdir()

    load_all(("req_lib",))

    assert declared() == {"installed"}


def test_a_package_whose_name_is_taken_by_a_loaded_module_is_refused(here):
    write(here / "json" / "__init__.py", "never_loaded")

    with pytest.raises(
        ConfigError, match=r"^-r json: a module json is loaded already, /\S+, .*another name$"
    ):
        load_all(("json",))


def test_a_directory_that_is_a_package_is_imported_as_such(here):
    write(here / "lib" / "req_pkg" / "__init__.py")
    write(here / "lib" / "req_pkg" / "one.py", "pkg_a", text="from . import two\n")
    write(here / "lib" / "req_pkg" / "two.py", "pkg_b")

    load_all(("lib/req_pkg",))

    assert declared() == {"pkg_a", "pkg_b"}
    assert "req_pkg.two" in sys.modules


def test_a_file_is_loaded_once_however_often_it_is_named_and_each_of_one_name(here):
    write(here / "req_once.py", "once_a")
    load_all(("req_once.py", "./req_once.py", "req_once"))
    assert declared() == {"once_a"}
    for folder in ("a", "b", "c"):
        write(here / folder / "req_same.py", f"same_{folder}")
    load_all(("a/req_same.py", "b/req_same.py", "c/req_same.py", "b/req_same.py"))
    assert declared() == {"once_a", "same_a", "same_b", "same_c"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("req_missing.py", "^-r req_missing.py: there is no such file. The current directory is /"),
        ("req_missing", "^-r req_missing: there is no such file or directory, and no module"),
        ("req_missing.inner", "^-r req_missing.inner: there is no such file or directory"),
        ("some/req_missing", "^-r some/req_missing: there is no such file or directory"),
        ("empty", "^-r empty: there is no .py file in this directory$"),
    ],
)
def test_what_is_not_there_is_told(here, target, message):
    (here / "empty").mkdir()

    with pytest.raises(ConfigError, match=message):
        load_all((target,))


@pytest.mark.parametrize("target", ["req_broken.py", "req_broken"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def (", "SyntaxError"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named"),
    ],
)
def test_code_that_fails_is_told_with_its_cause(here, target, text, told):
    (here / "req_broken.py").write_text(text)

    with pytest.raises(ConfigError) as refusal:
        load_all((target,))

    assert str(refusal.value).startswith(f"-r {target}: importing it failed: {told}")
    assert refusal.value.__cause__ is not None


def test_a_job_that_is_declared_twice_is_told_as_it_is(here):
    write(here / "req_twice.py", "twice_a", "twice_a")

    with pytest.raises(ConfigError, match="'twice_a' is declared twice"):
        load_all(("req_twice.py",))


def test_a_module_that_is_loaded_anew_replaces_its_jobs(here):
    write(here / "req_again.py", "again_a")
    load_all(("req_again",))
    write(here / "req_again.py", "again_a", text="LATER = True\n")
    importlib.invalidate_caches()

    importlib.reload(sys.modules["req_again"])

    assert declared() == {"again_a"}
    [definition] = default_registry
    assert definition.perform_of(None).__globals__["LATER"] is True
