"""docs/settings.md is what the settings table says, and the table knows every variable that is read."""

import re
import runpy

from support.documents import ALL_SETTINGS, ROOT

from kiqbridge.aws import allow_list

text = runpy.run_path(str(ROOT / ".make/settings_doc.py"))["text"]
VARIABLE = re.compile(r"[\"'](KIQBRIDGE_[A-Z_]+|REDIS_[A-Z_]+|POWERTOOLS_[A-Z_]+)[\"']")


def known_variables():
    return {name for each in ALL_SETTINGS for name in (*each.env, each.provider) if name}


def test_the_document_is_up_to_date():
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")

    assert written == text(), "run: make docs"


def test_every_variable_that_the_code_reads_is_in_the_document():
    read = {
        name
        for folder in ("worker/kiqbridge", "lambdas")
        for path in (ROOT / folder).rglob("*.py")
        for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
    }

    assert {allow_list.CLASSES, allow_list.QUEUES, "REDIS_PROVIDER"} <= read
    read.remove("KIQBRIDGE_SHARDS")  # is refused
    assert sorted(name for name in read if f"`{name}`" not in text()) == []


def test_every_variable_of_the_template_is_in_the_document():
    template = (ROOT / "template.yaml").read_text(encoding="utf-8")
    given = set(re.findall(r"^ +((?:KIQBRIDGE|REDIS|POWERTOOLS)_[A-Z_]+):", template, re.MULTILINE))

    assert "REDIS_URL" in given
    # Nothing reads that one: another value makes Lambda start new environments.
    assert given - known_variables() == {"REDIS_URL_VERSION"}


def test_every_setting_has_a_row_with_its_names():
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in text().splitlines()}

    for setting in ALL_SETTINGS:
        names = (*setting.env, *setting.flags, *filter(None, [setting.provider]))
        assert all(f"`{name}`" in rows[setting.name] for name in names)
        assert f" | {', '.join(setting.read_by)} | " in rows[setting.name]
        assert setting.help in rows[setting.name].replace("\\|", "|")
