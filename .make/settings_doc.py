"""Writes docs/reference/settings.md out of the table: `make docs`, or `python .make/settings_doc.py > docs/reference/settings.md`."""

# ruff: noqa: INP001 - a script of the Makefile, in no package

import sys
from collections.abc import Iterable, Iterator

from kiqbridge.config.client_settings import CLIENT_SETTINGS
from kiqbridge.config.config import SETTINGS
from kiqbridge.config.function_settings import FUNCTION_SETTINGS
from kiqbridge.config.setting import Setting, shown_default
from kiqbridge.config.web_settings import WEB_SETTINGS

CLIENT_ONLY_SETTINGS = [each for each in CLIENT_SETTINGS if each not in SETTINGS]

_HEAD = """\
# Settings

<!-- Made by: make docs -->

Precedence: defaults < file < environment < command line. An empty variable counts as not set. Every \
error names the setting, its value and its source. Times are in seconds. Lists in the environment have \
commas between their parts. Clients and functions read their environment only.

## The worker

The file is `config/kiqbridge.yml` if it exists, or what `-C` names: YAML as Sidekiq reads it, with \
symbols (`:queues:`) or texts, aliases, and a section for each environment that is merged over the top \
level. ERB may read environment variables: `<%= ENV["X"] %>`, `<%= ENV.fetch("X", 5) %>`, `<%= ENV["X"] || 5 %>`, with \
`.to_i` or in `Integer(…)`; other Ruby is refused. "Also: client, function" means that these read the variable too.
"""

_QUEUES = """
A queue is written `critical`, `low,1` or `[default, 2]`, or all of them as a mapping of names to \
weights. Without weights queues are served strictly in their order; with weight 1 for all in random \
order; else [by their weights](../explanation/engine.md#queues-and-capsules).
"""

_CLIENT = """
## The client

`Client()` and `configure()` read the settings above marked "client", and these. \
An argument goes before the variable.
"""

_FUNCTION = """
## The enqueue function

It reads the settings above marked "function", and these, once in a warm environment.
"""


_PAGE = """
## The web page

`kiqbridge web`, the web function and a mounted page read these, and the client's. \
Flags and arguments of `create_app` go before the variables ([the page](web.md#security-of-the-web-page)).
"""


def text() -> str:
    """The whole document."""
    worker = _table("worker", SETTINGS)
    client = _table("client", CLIENT_ONLY_SETTINGS)
    function = _table("function", FUNCTION_SETTINGS)
    page = _table("web", WEB_SETTINGS)
    return "\n".join(
        [_HEAD, *worker, _QUEUES + _CLIENT, *client, _FUNCTION, *function, _PAGE, *page, ""]
    )


def _table(reader: str, settings: Iterable[Setting]) -> Iterator[str]:
    yield _row(["setting, flags, environment", "default", "meaning"])
    yield _row(["---"] * 3)
    for setting in settings:
        flags = _code([*setting.flags, *setting.switches])
        environment = _code([*setting.env, *filter(None, [setting.provider])])
        others = [each for each in setting.read_by if each != reader]
        default = shown_default(setting)
        yield _row(
            [
                "<br>".join(filter(None, [setting.name, flags, environment])),
                _code([default]) if default != "none" else "",
                f"{setting.help}{_in_file(setting)}"
                + (f". Also: {', '.join(others)}" if others else ""),
            ]
        )


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _in_file(setting: Setting) -> str:
    return f" (in the file `{setting.file_key}`)" if setting.file_key else ""


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    sys.stdout.write(text())
