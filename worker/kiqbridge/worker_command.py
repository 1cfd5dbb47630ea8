"""`kiqbridge worker`: flags, file and environment in, a running worker until a signal ends it."""

import argparse
import logging
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kiqbridge.config import SETTINGS, Config, merge
from kiqbridge.errors import ConfigError
from kiqbridge.job_logger import configure_logging
from kiqbridge.launcher import Launcher
from kiqbridge.redis_connection import url_from_environment
from kiqbridge.require import load_all
from kiqbridge.signals import SignalInbox

logger = logging.getLogger(__name__)

FILE = Path("config/kiqbridge.yml")
"""Read when it exists and -C names no other."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Sidekiq's flags, from the settings table."""
    for setting in SETTINGS:
        if not setting.flags:
            continue
        repeatable = isinstance(setting.default, list)
        parser.add_argument(
            *setting.flags,
            dest=setting.name,
            action="append" if repeatable else "store",
            metavar=setting.metavar,
            help=f"{setting.help} (default: {_shown(setting.default)})"
            + (f" [{', '.join(setting.env)}]" if setting.env else ""),
        )
    parser.add_argument("-v", "--verbose", action="store_true", help="log at level debug")
    parser.add_argument(
        "-C", "--config", metavar="PATH", help=f"YAML file (default: {FILE} if it exists)"
    )


def run(options: argparse.Namespace) -> int:
    """Run a worker until TERM or INT; ends the process itself once all is given back.

    Raises:
        ConfigError: a setting is wrong or the jobs' code cannot be loaded.
    """
    config, warnings = load_config(options, os.environ)
    configure_logging(config.log_level, config.log_format)
    for warning in warnings:
        logger.warning(warning)
    load_all(config.require)
    inbox = SignalInbox()
    inbox.trap()
    launcher = Launcher(config)
    if not config.require:
        logger.warning("no jobs are loaded: name their module, file or directory with -r")
    _run_until_stopped(launcher, inbox)
    # A thread that is stuck in C would hang the interpreter's own exit, and nothing is left to do.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


def load_config(
    options: argparse.Namespace, environ: Mapping[str, str]
) -> tuple[Config, list[str]]:
    """The configuration and what is odd about it.

    Raises:
        ConfigError: names setting, value and source.
    """
    flags = {setting.name: getattr(options, setting.name, None) for setting in SETTINGS}
    if options.verbose:
        flags["log_level"] = "debug"
    path = Path(options.config) if options.config else FILE
    if options.config and not path.is_file():
        raise ConfigError(f"-C {options.config}: there is no such file")
    content = read_file(path) if path.is_file() else {}
    warnings: list[str] = []
    addressed = {**environ, "REDIS_URL": url_from_environment(environ)}
    config = merge(
        file=content, file_name=str(path), environ=addressed, flags=flags, warn=warnings.append
    )
    return config, warnings


def read_file(path: Path) -> Mapping[str, Any]:
    """Parse a YAML file of settings.

    Raises:
        ConfigError: no YAML, no mapping, or ERB, which is Ruby.
    """
    try:
        import yaml  # noqa: PLC0415 - only where there is a file
    except ImportError as error:
        raise ConfigError(
            f"{path}: reading YAML needs PyYAML; pip install 'kiqbridge[worker]'"
        ) from error
    text = path.read_text(encoding="utf-8")
    if "<%" in text:
        raise ConfigError(
            f"{path}: holds ERB (<% … %>), which is Ruby; write the value, or set the environment"
        )
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is no YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path}: holds {type(content).__name__}, not settings; write key: value lines"
        )
    return content


def _run_until_stopped(launcher: Launcher, inbox: SignalInbox) -> None:
    """Start beside the signals, so that TERM is heard while Redis is still awaited.

    Raises:
        KiqbridgeError: the start failed for a reason that waiting does not mend.
    """
    failures: list[BaseException] = []

    def start() -> None:
        try:
            launcher.start(inbox.put)
        except BaseException as error:  # noqa: BLE001 - raised again on the main thread
            failures.append(error)
            inbox.put("TERM")

    threading.Thread(target=start, name="kiqbridge-start", daemon=True).start()
    while (name := inbox.wait()) not in ("TERM", "INT"):
        if name == "TSTP":
            launcher.quiet()
        elif name == "TTIN":
            launcher.dump_threads()
        else:
            logger.warning("unknown signal %r is ignored; known are TERM, INT, TSTP and TTIN", name)
    if failures:
        raise failures[0]
    logger.info("%s: stopping", name)
    launcher.stop()
    logger.info("bye")


def _shown(default: Any) -> str:
    if isinstance(default, list):
        return ", ".join(default) or "none"
    return str(default) or "none"
