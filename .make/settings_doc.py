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
error names the setting, its value and where that came from. Times are in seconds. \
Clients and functions read their environment only.

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
                + (f". Also read by: {', '.join(others)}" if others else ""),
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
