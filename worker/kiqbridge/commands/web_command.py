"""`kiqbridge web`: serve the page that shows queues, jobs and workers, and acts on them, until INT or TERM.

It prints its address when it serves. Everybody may look; --role allows more; on other addresses than loopback
sign-in is needed (docs/reference/web.md). Exit codes: 0 orderly, 1 settings or the port, 2 usage.
"""

import argparse
import getpass
import logging
import os
import sys

from kiqbridge.commands.arguments import add, add_example
from kiqbridge.config.setting import Setting, pick, shown_default
from kiqbridge.config.web_settings import ForWeb
from kiqbridge.errors import ConfigError

ROLES = ("viewer", "operator", "admin")
FLAGS = (ForWeb.web_host, ForWeb.web_port, ForWeb.web_role, ForWeb.web_base_path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where it listens, and what everybody may do."""
    for setting in FLAGS:
        default = f"(default: {shown_default(setting)}) [{setting.env[0]}]"
        parser.add_argument(
            *setting.flags,
            dest=setting.name,
            metavar=setting.metavar,
            choices=ROLES if setting is ForWeb.web_role else None,
            help=f"{setting.help} {default}",
        )
    text = "ask for a password, or read it from standard input, print its hash for the settings, and end"
    add(parser, "--hash-password", text)
    add_example(parser, "kiqbridge web --port 8080 --role operator")


def run(options: argparse.Namespace) -> int:
    """Serve until INT or TERM; prints one line, with the address, when it serves.

    Raises:
        ConfigError: a wrong setting, a port that is in use, or a package that is not installed.
    """
    try:
        from kiqbridge.web.passwords import hash_password  # noqa: PLC0415 - an extra
        from kiqbridge.web.security import read_security  # noqa: PLC0415 - an extra
        from kiqbridge.web.server import serve  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ConfigError(f"web: {error}; pip install 'kiqbridge[web]'") from error
    if options.hash_password:
        print(hash_password(_ask_password()))  # noqa: T201 - the result of the command
        return 0
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    flags = {each.name: getattr(options, each.name) for each in FLAGS}
    flags = {name: value for name, value in flags.items() if value is not None}

    def read(setting: Setting) -> object:
        return setting.parsed(*pick(setting, os.environ, flags=flags))

    return serve(
        str(read(ForWeb.web_host)),
        int(str(read(ForWeb.web_port))),
        read_security(os.environ, flags),
        base_path=str(read(ForWeb.web_base_path)),
        on_ready=_show,
    )


def _show(address: str) -> None:
    print(f"kiqbridge web serves {address}", flush=True)  # noqa: T201 - the command's one line


def _ask_password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise ConfigError("password: the two are not the same; start again")
    return password
