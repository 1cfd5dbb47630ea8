"""Where a job is declared, and which declarations are the same one, run again."""

import doctest
import importlib
import runpy
import sys
import types

import pytest
from support.jobs import own_declarations

from kiqbridge import ConfigError, Job, job
from kiqbridge.client.registry import default_registry, place_of

SEND = "from kiqbridge import job\n\n@job\ndef send(): return {answer}\n"


@pytest.fixture(autouse=True)
def _own(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    known = set(sys.modules)
    with own_declarations():
        yield
    for name in set(sys.modules) - known:
        del sys.modules[name]


@pytest.fixture
def main(monkeypatch):
    """An interactive program: a module `__main__` that no file holds."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


def run_cell(module, text, file):
    exec(compile(text, file, "exec"), vars(module))


def answer(name="send"):
    return default_registry.require(name).perform_of(None)()


class TestTheSameOneRunAgain:
    def test_by_importlib_reload(self, tmp_path):
        (tmp_path / "place_again.py").write_text(SEND.format(answer=1))
        module = importlib.import_module("place_again")
        (tmp_path / "place_again.py").write_text("# moved\n\n" + SEND.format(answer=20))

        importlib.reload(module)

        assert answer() == 20

    @pytest.mark.parametrize(
        "files",
        [
            ("<ipython-input-1-abc>", "<ipython-input-2-def>"),
            ("/tmp/ipykernel_no_such/1.py", "/tmp/ipykernel_no_such/2.py"),
            ("<stdin>", "<stdin>"),
        ],
    )
    def test_by_a_cell_of_a_notebook_or_a_line_of_a_shell(self, main, files):
        for number, file in enumerate(files):
            run_cell(main, SEND.format(answer=number), file)

        assert answer() == 1

    def test_by_exec(self):
        for number in (1, 2):
            exec(SEND.format(answer=number), {"__name__": __name__})

        assert answer() == 2

    def test_by_running_a_file_again(self, tmp_path, main):
        script = tmp_path / "place_script.py"
        for number in (1, 2):
            script.write_text("\n" * number + SEND.format(answer=number))
            runpy.run_path(str(script), run_name="__main__")

        assert answer() == 2

    def test_by_the_program_that_is_imported_as_a_module_too(self, tmp_path, main):
        script = tmp_path / "place_program.py"
        script.write_text(SEND.format(answer=7))
        run_cell(main, script.read_text(), str(script))

        importlib.import_module("place_program")

        assert answer() == 7

    def test_by_a_doctest(self):
        text = (
            ">>> from kiqbridge import job\n>>> @job\n... def send(): return 1\n"
            ">>> @job\n... def send(): return 2\n>>> send()\n2\n"
        )
        parsed = doctest.DocTestParser().get_doctest(text, {"__name__": __name__}, "d", None, 0)

        assert doctest.DocTestRunner().run(parsed).failed == 0

    def test_a_class_too(self, main):
        for number in (1, 2):
            text = (
                f"from kiqbridge import Job\nclass Nightly(Job):\n    retry = {number}\n"
                "    def perform(self): ...\n"
            )
            run_cell(main, text, f"<cell {number}>")

        assert default_registry.require("Nightly").options["retry"] == 2


class TestAnotherOne:
    def test_two_functions_of_one_name_are_refused_with_both_places_and_a_name_to_give(
        self, tmp_path
    ):
        for module in ("place_sales", "place_mailers"):
            (tmp_path / f"{module}.py").write_text(SEND.format(answer=1))
        importlib.import_module("place_sales")

        with pytest.raises(ConfigError) as refused:
            importlib.import_module("place_mailers")

        assert str(refused.value) == (
            "job 'send' is declared twice: in place_sales.send (place_sales.py:3) and in "
            "place_mailers.send (place_mailers.py:3); the wire name is that of the function unless you give "
            'another: write @job(name="place_mailers.send"), say, on one of them'
        )

    def test_of_classes_the_attribute_is_named(self):
        class Nightly(Job):
            def perform(self): ...

        with pytest.raises(ConfigError, match='write class_name = "TestPlace::Nightly", say'):
            type("Nightly", (Job,), {"perform": lambda self: None})

        assert default_registry.require("Nightly").place.is_class

    def test_another_function_of_a_notebook_is_refused(self, main):
        run_cell(main, SEND.format(answer=1), "<cell 1>")
        other = "from kiqbridge import job\n@job(name='send')\ndef o(): ...\n"
        told = r"in __main__\.send and in __main__\.o; give one of them another name, such"
        with pytest.raises(ConfigError, match=told):
            run_cell(main, other, "<cell 2>")

    def test_two_of_one_script_are_refused(self, tmp_path, main):
        script = tmp_path / "place_script.py"
        script.write_text(SEND.format(answer=1) + SEND.format(answer=2))

        with pytest.raises(ConfigError, match=r"place_script\.py:3\) and .*place_script\.py:7\)"):
            runpy.run_path(str(script), run_name="__main__")

    def test_one_file_under_two_names_is_refused_and_the_reason_given(self, tmp_path):
        shop = tmp_path / "place_shop"
        shop.mkdir()
        (shop / "__init__.py").touch()
        (shop / "place_jobs.py").write_text(SEND.format(answer=1))
        sys.path.insert(0, str(shop))
        importlib.import_module("place_jobs")
        told = r"one file, loaded as the modules place_jobs and place_shop\.place_jobs"
        with pytest.raises(ConfigError, match=told):
            importlib.import_module("place_shop.place_jobs")


def test_the_place_of_a_decorated_function_is_that_of_the_function():
    @job
    def send(): ...

    assert str(place_of(send)).endswith(".send (" + __file__ + f":{place_of(send).line})")
    assert place_of(send).line == send._function.__code__.co_firstlineno
