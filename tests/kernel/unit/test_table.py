"""The table of settings: who reads a row, and the document that lists them."""

import os
import re
import runpy

import pytest
from support.documents import ALL_SETTINGS, ROOT
from support.watched_environment import KEYS_OF_JOBS, Watched, variables_read_by

from kiqbridge import Client, redaction
from kiqbridge.aws import allow_list
from kiqbridge.aws.enqueue import Enqueuer
from kiqbridge.config.client_settings import CLIENT_SETTINGS, ForClients
from kiqbridge.config.config import SETTINGS
from kiqbridge.config.function_settings import FUNCTION_SETTINGS, ForFunctions
from kiqbridge.config.merge import merge
from kiqbridge.config.setting import choose, read
from kiqbridge.config.web_settings import WEB_SETTINGS, ForWeb
from kiqbridge.errors import ConfigError
from kiqbridge.web.security import read_security


def test_the_worker_reads_what_the_table_says():
    environ = Watched()

    merge(environ=environ, flags={})

    assert environ.asked == variables_read_by("worker")


def test_a_client_reads_what_the_table_says(monkeypatch):
    environ = Watched()
    monkeypatch.setattr(os, "environ", environ)

    Client()
    with redaction.own_names():
        redaction.current()

    ours = {name for name in environ.asked if name.startswith(("KIQBRIDGE_", "REDIS_"))}
    # Keys are read when a job with encrypted arguments is met.
    assert ours == variables_read_by("client") - KEYS_OF_JOBS


def test_the_page_reads_what_the_table_says():
    environ = Watched()

    read_security(environ)

    # Of the server, not of the page.
    elsewhere = {
        name
        for each in (ForWeb.web_host, ForWeb.web_port, ForWeb.web_base_path)
        for name in each.env
    }
    tokens_only = {
        name for name in variables_read_by("web") if name.startswith("KIQBRIDGE_WEB_JWT_")
    } - {"KIQBRIDGE_WEB_JWT_KEY"}
    assert environ.asked == variables_read_by("web") - elsewhere - tokens_only
    environ["KIQBRIDGE_WEB_JWT_KEY"] = "some key"
    read_security(environ)
    assert environ.asked == variables_read_by("web") - elsewhere


def test_each_row_is_in_the_part_of_its_readers_and_shares_no_name_or_variable():
    assert all("worker" in each.read_by for each in SETTINGS)
    assert all("client" in each.read_by for each in CLIENT_SETTINGS)
    assert all(each.read_by == ("function",) for each in FUNCTION_SETTINGS)
    assert all(each.read_by == ("web",) for each in WEB_SETTINGS)
    names = [each.name for each in ALL_SETTINGS]
    variables = [name for each in ALL_SETTINGS for name in each.env]
    assert len(set(names)) == len(names)
    assert len(set(variables)) == len(variables)


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "redis://localhost:6379/0"),
        ({"REDIS_URL": "redis://a/1"}, "redis://a/1"),
        ({"REDIS_URL": ""}, "redis://localhost:6379/0"),
        (
            {"REDIS_URL": "redis://a", "REDIS_PROVIDER": "MINE", "MINE": "redis://b"},
            "redis://b",
        ),
    ],
)
def test_the_address_is_read_as_sidekiq_reads_it(environ, url):
    assert read(ForClients.redis_url, environ) == url


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("redis://:s3cret@host", "must be the name of a variable"),
        ("NOT_SET", "REDIS_PROVIDER names NOT_SET, which is not set"),
    ],
)
def test_a_provider_must_be_the_name_of_a_variable_for_commands_too(provider, message):
    environ = {"REDIS_PROVIDER": provider}
    for act in (
        lambda: read(ForClients.redis_url, environ),
        lambda: merge(environ=environ, flags={}),
    ):
        with pytest.raises(ConfigError, match=message) as refusal:
            act()
        assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("KIQBRIDGE_WIRE_PROFILE", "9", "profile: '9' is not a wire profile"),
        ("KIQBRIDGE_WAIT_REPLICAS", "-1", "wait_replicas: '-1' is not a whole number from 0"),
        ("KIQBRIDGE_MAX_PAYLOAD_BYTES", "1 MB", "max_payload_bytes: '1 MB' is not a whole number"),
    ],
)
def test_a_wrong_variable_is_named_wherever_it_is_read(monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)

    for act in (Client, lambda: Enqueuer.from_environment(os.environ)):
        with pytest.raises(ConfigError) as refusal:
            act()

        assert str(refusal.value).startswith(message)
        assert f"(from {variable})" in str(refusal.value)


def test_a_wrong_argument_and_a_wrong_bound_for_ticks_are_named():
    with pytest.raises(ConfigError, match=r"\(from the argument max_payload_bytes\)"):
        choose(ForClients.max_payload_bytes, -1, {})
    with pytest.raises(ConfigError, match="KIQBRIDGE_TICK_AHEAD_S: 'soon' is not a number of sec"):
        read(ForFunctions.tick_ahead_s, {"KIQBRIDGE_TICK_AHEAD_S": "soon"})


text = runpy.run_path(str(ROOT / ".make/settings_doc.py"))["text"]
VARIABLE = re.compile(r"[\"'](KIQBRIDGE_[A-Z_]+|REDIS_[A-Z_]+|POWERTOOLS_[A-Z_]+)[\"']")


def known_variables():
    return {name for each in ALL_SETTINGS for name in (*each.env, each.provider) if name}


def test_the_document_is_up_to_date():
    written = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")

    assert written == text(), "run: make docs"


def test_every_variable_that_the_code_reads_is_in_the_document():
    read = {
        name
        for folder in ("worker/kiqbridge", "lambdas")
        for path in (ROOT / folder).rglob("*.py")
        for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
    }

    assert {allow_list.CLASSES, allow_list.QUEUES, "REDIS_PROVIDER"} <= read
    assert sorted(name for name in read if f"`{name}`" not in text()) == []


def test_every_variable_of_the_template_is_in_the_document():
    template = "".join(
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("template.yaml", "infra/functions.yaml")
    )
    given = set(re.findall(r"^ +((?:KIQBRIDGE|REDIS|POWERTOOLS)_[A-Z_]+):", template, re.MULTILINE))

    assert {"REDIS_URL", "KIQBRIDGE_WEB_ROLES"} <= given
    # Nothing reads that one: another value makes Lambda start new environments.
    assert given - known_variables() == {"REDIS_URL_VERSION"}


def test_every_setting_has_a_row_with_its_names():
    lines = [line for line in text().splitlines() if line.startswith("| ")]
    rows = {re.split(r"<br>| \|", line)[0].removeprefix("| "): line for line in lines}

    for setting in ALL_SETTINGS:
        names = (*setting.env, *setting.flags, *filter(None, [setting.provider]))
        assert all(f"`{name}`" in rows[setting.name] for name in names)
        also = rows[setting.name].partition(". Also: ")[2].removesuffix(" |").split(", ")
        assert len({*also} - {""}) == len(setting.read_by) - 1
        assert setting.help in rows[setting.name].replace("\\|", "|")
