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
error names the setting, its value and where that came from. Times are in seconds. `read by` says who reads \
a setting: the worker (`kiqbridge worker`), a client wherever it is, the enqueue function, or the web page; clients and functions \
read their environment only.

## The worker

The file is `config/kiqbridge.yml` if it exists, or what `-C` names: YAML as Sidekiq reads it, with \
symbols (`:queues:`) or texts, aliases, and a section for each environment that is merged over the top \
level. ERB may read environment variables: `<%= ENV["X"] %>`, `<%= ENV.fetch("X", 5) %>`, `<%= ENV["X"] || 5 %>`, with \
`.to_i` or in `Integer(…)`; nothing is evaluated, and other Ruby is refused with its line. A setting has its name there, \
unless another one is given.
"""

_QUEUES = """
A queue is written `critical`, `low,1` or `[default, 2]`, or all of them as a mapping of names to \
weights. Without weights queues are served strictly in their order; with weight 1 for all in random \
order; else a queue is looked at first as often as its share of the weights.

`capsules` maps a name to `queues`, `concurrency` and `async_concurrency` of its own \
([engine.md](../explanation/engine.md)).
"""

_CLIENT = """
## The client

`Client()`, `configure()` and the jobs' own verbs read the settings above that are read by the client, and these. \
An argument goes before the variable. `REDIS_PROVIDER=NAME` means: the address is in the variable NAME.
"""

_FUNCTION = """
## The enqueue function

It reads the settings above that are read by the function, and these. Each value is read once in a warm \
environment: a change reaches the function when its configuration is updated.
"""


_PAGE = """
## The web page

`kiqbridge web`, the web function and a page that is mounted in another application read these, and the client's. \
The command's flags go before the variables; `create_app` has arguments for the same ([the page](web.md#security-of-the-web-page)).
"""


def text() -> str:
    """The whole document."""
    columns = ["setting", "environment", "default", "read by", ""]
    with_flags = ["setting", "environment", "flags", "default", "read by", ""]
    worker = _table(with_flags, SETTINGS)
    client = _table(columns, CLIENT_ONLY_SETTINGS)
    function = _table(columns, FUNCTION_SETTINGS)
    page = _table(with_flags, WEB_SETTINGS)
    return "\n".join(
        [_HEAD, *worker, _QUEUES + _CLIENT, *client, _FUNCTION, *function, _PAGE, *page, ""]
    )


def _table(columns: list[str], settings: Iterable[Setting]) -> Iterator[str]:
    yield _row(columns)
    yield _row(["---"] * len(columns))
    for setting in settings:
        cells = {
            "setting": setting.name,
            "environment": _code([*setting.env, *filter(None, [setting.provider])]),
            "flags": _code([*setting.flags, *setting.switches]),
            "default": _code([shown_default(setting)]) if shown_default(setting) != "none" else "",
            "read by": ", ".join(setting.read_by),
            "": f"{setting.help}{_in_file(setting)}",
        }
        yield _row([cells[column] for column in columns])


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _in_file(setting: Setting) -> str:
    return f" (in the file `{setting.file_key}`)" if setting.file_key else ""


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    sys.stdout.write(text())
