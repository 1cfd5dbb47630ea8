"""What is to be edited in an application that moves here: all of it is listed when the first line is refused."""

import importlib
import itertools
import re

import pytest

from kiqbridge.compat.celery import Celery
from kiqbridge.compat.celery.request import Request
from kiqbridge.errors import ConfigError

pytestmark = pytest.mark.usefixtures("own_tasks")

_names = (f"moving{number}" for number in itertools.count())

APP = """
from kiqbridge.compat.celery import Celery
app = Celery("shop", worker_pool="gevent")
app.conf.update(task_acks_late=True, task_routes={"a": {"queue": "q", "priority": 3}})
app.conf.beat_schedule = schedules()
"""
TASKS = """
from kiqbridge.compat.celery import chain, states, shared_task
from kiqbridge.compat.celery.schedules import crontab
from celery.utils.log import get_task_logger
@shared_task(bind=True, name="send", rate_limit="10/m", acks_late=True, autoretry_for=(OSError,), cron="0 4 * * *")
def send(self, x):
    self.update_state(state="HALF")
    return self.request.headers, self.request.hostname, requests.get(x).headers
@shared_task
def order():
    send.apply_async((1,), priority=5, countdown=3)
    app.control.inspect()
    app.control.revoke("x")
"""
EDITS = [
    "app.py:3 conf.worker_pool", "app.py:4 conf.task_routes: a: priority=3", "app.py:5 conf.beat_schedule: schedules()",
    "tasks.py:2 celery's states", "tasks.py:3 celery's schedules", "tasks.py:4 from celery.utils.log",
    "tasks.py:5 task send: rate_limit", "tasks.py:7 self.update_state", "tasks.py:8 self.request.headers",
    "tasks.py:11 priority=5", "tasks.py:12 control.inspect",
]  # fmt: skip


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    name = next(_names)
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    (tmp_path / ".hidden").mkdir()
    for file, text in (
        (f"{name}/app.py", APP),
        (f"{name}/tasks.py", TASKS),
        (".hidden/x.py", TASKS),
    ):
        (tmp_path / file).write_text(text, "utf-8")
    return name


@pytest.mark.parametrize(
    ("module", "kind", "first"),
    [
        ("app", ConfigError, "conf.worker_pool: 'gevent' has no counterpart here"),
        ("tasks", ImportError, "celery's schedules has no counterpart here: write @app.task(cron="),
    ],
)
def test_the_first_line_that_is_refused_lists_all(package, module, kind, first, tmp_path):
    if module == "tasks":
        file = tmp_path / package / "tasks.py"
        file.write_text(TASKS.replace("chain, states, ", "chain, "), "utf-8")

    with pytest.raises(kind, match=re.escape(first)) as caught:
        importlib.import_module(f"{package}.{module}")

    _, said, *lines = str(caught.value).splitlines()
    wanted = [each for each in EDITS if "states" not in each or module == "app"]
    assert said.startswith(f"{len(wanted)} lines are to be edited")
    for line, edit in zip(lines, wanted, strict=True):
        where, _, what = edit.partition(" ")
        assert line.startswith(f"  {package}/{where}: {what}")


def test_of_an_installed_application_its_own_package_is_read_and_no_other(tmp_path, monkeypatch):
    name, folder = next(_names), tmp_path / "site-packages"
    for each in (name, "another"):
        (folder / each).mkdir(parents=True)
        (folder / each / "__init__.py").write_text(APP, "utf-8")
    monkeypatch.syspath_prepend(folder)

    with pytest.raises(ConfigError) as caught:
        importlib.import_module(name)

    assert "3 lines are to be edited" in str(caught.value)
    assert "another" not in str(caught.value)


def test_a_body_that_uses_what_is_missing_is_refused_when_it_is_declared():
    app = Celery("shop")

    def progress(self):
        self.update_state(state="HALF")

    def asks(me):
        return me.request.root_id

    for function, said in ((progress, r"self\.update_state"), (asks, r"me\.request\.root_id")):
        with pytest.raises(ConfigError, match=rf"line \d+: {said} has no counterpart here"):
            app.task(bind=True)(function)
    app.task(asks)  # its first parameter is an argument

    with pytest.raises(
        AttributeError, match=r"request\.eta has no counterpart here: give the time"
    ):
        _ = Request("t").eta
    assert Request("t").hostname
