"""`kiqbridge shell`: an interactive Python with the client, the declared jobs by name, and `kiqbridge.api` at hand.

It is IPython if that is installed, else Python's own console with completion. With -c, or with code on standard
input, it runs that and ends: exit 1 if it raised an error.
"""

import argparse
import code
import importlib
import importlib.util
import logging
import sys
from collections.abc import Iterable
from typing import Any, Final

import kiqbridge
from kiqbridge import api
from kiqbridge.client.default_client import default_client
from kiqbridge.client.registry import JobDefinition, default_registry, definition_of
from kiqbridge.client.require import load_all
from kiqbridge.commands.arguments import add, add_example, add_require
from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime.logs import tracebacks

OBJECTS: Final = (
    *("Stats", "Queue", "RetrySet", "ScheduledSet", "DeadSet"),
    *("ProcessSet", "WorkSet", "ScheduleSet", "find_job"),
)
"""Names of `kiqbridge.api` that are at hand."""

_FILE: Final = "<kiqbridge shell>"
_LISTED: Final = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is loaded, and what is run."""
    add_require(parser)
    add(parser, "-c CODE", "run this Python code, and end", dest="code")
    add(parser, "--plain", "Python's own console, even if IPython is installed")
    add_example(parser, "kiqbridge shell -c 'print(Stats().enqueued)'")


def run(options: argparse.Namespace) -> int:
    """Run code, or a console until its end; 0, or 1 when the code of `-c` raised an error.

    Raises:
        ConfigError: the code of `-r` cannot be loaded, or a variable is wrong.
        KiqbridgeError: the code of `-c` raised it.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    load_all(tuple(options.require))
    names = namespace()
    if options.code is not None or not sys.stdin.isatty():
        return run_code(sys.stdin.read() if options.code is None else options.code, names)
    banner = _banner(names)
    if not options.plain and importlib.util.find_spec("IPython") is not None:
        _run_ipython(names, banner)
    else:
        _run_console(names, banner)
    return 0


def namespace() -> dict[str, Any]:
    """The names at hand: `client`, `jobs`, those of `OBJECTS`, and the declared jobs under their own names.

    Raises:
        ConfigError: a wrong environment variable.
    """
    found = {definition.name: _declared(definition) for definition in default_registry}
    jobs = {name: declared for name, declared in found.items() if declared is not None}
    names: dict[str, Any] = {declared.__name__: declared for declared in jobs.values()}
    names.update({name: declared for name, declared in jobs.items() if name.isidentifier()})
    names.update({name: getattr(api, name) for name in OBJECTS})
    names.update(
        __name__="__main__",
        kiqbridge=kiqbridge,
        api=api,
        client=default_client(),
        jobs=jobs,
        job=kiqbridge.job,
        Job=kiqbridge.Job,
    )
    return names


def run_code(text: str, names: dict[str, Any]) -> int:
    """Run code; 1 when it raised an error, which is shown on standard error.

    Raises:
        KiqbridgeError: it raised it; the command line shows its message and knows the exit code.
        SystemExit: it asked for it.
    """
    try:
        exec(compile(text, _FILE, "exec"), names)  # noqa: S102 - the code is the user's own, from his command line
    except KiqbridgeError:
        raise
    except Exception as error:  # noqa: BLE001 - shown as Python shows it
        sys.stderr.write(f"{tracebacks.text_of(error)}\n")
        return 1
    return 0


def _declared(definition: JobDefinition) -> Any:
    """The declared function or class, if its module has it under its name."""
    place = definition.place
    found: Any = sys.modules.get(place.module) if place is not None else None
    for part in place.qualname.split(".") if place is not None else ():
        found = getattr(found, part, None)
    return found if definition_of(found) is definition else None


def _banner(names: dict[str, Any]) -> str:
    jobs = names["jobs"]
    shown = _listed(jobs) or "none; name the code that declares them with -r"
    first = next(iter(jobs.values()), None)
    example = f"{first.__name__}.perform_async(…)" if first is not None else "Stats().enqueued"
    return (
        f"kiqbridge {kiqbridge.__version__}, Python {sys.version.split()[0]}\n"
        f"  client   {names['client']!r}\n"
        f"  api      {', '.join(OBJECTS)}\n"
        f"  jobs     {shown}\n"
        f"For example: {example}\n"
    )


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - _LISTED} more in the dict jobs" if len(known) > _LISTED else ""
    return f"{', '.join(known[:_LISTED])}{more}"


def _run_ipython(names: dict[str, Any], banner: str) -> None:
    # By name: it is no dependency of ours.
    config = importlib.import_module("traitlets.config").Config()
    config.TerminalInteractiveShell.banner1 = banner
    importlib.import_module("IPython").start_ipython(argv=[], user_ns=names, config=config)


def _run_console(names: dict[str, Any], banner: str) -> None:
    try:
        readline: Any = importlib.import_module("readline")
    except ImportError:  # a Python that was built without it
        pass
    else:
        completer = importlib.import_module("rlcompleter").Completer(names)
        readline.set_completer(completer.complete)
        readline.parse_and_bind("tab: complete")
    code.interact(banner, local=names, exitmsg="")
