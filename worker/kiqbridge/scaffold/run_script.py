"""`python -m kiqbridge.scaffold.run_script NAME [WORDS…]`: a script that comes with the package.

The Makefile of an app runs these; each says in its first lines what it does and reads:

1. `lambda.sh layer requirements.txt`, `lambda.sh function FOLDER`: what `sam build` calls for a part of the template;
2. `deploy.sh`: `sam deploy`, with the answers of the first time;
3. `foreground.py COMMAND…`: a command that Ctrl-C reaches in place of `make`.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from kiqbridge.errors import ConfigError
from kiqbridge.scaffold.sources import script


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the script; returns only if that fails, with 2 for what is not there."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        sys.stderr.write("usage: python -m kiqbridge.scaffold.run_script NAME [WORDS…]\n")
        return 2
    try:
        command = command_of(words)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return _become(command)


def _become(command: list[str]) -> NoReturn:
    os.execvpe(command[0], command, environment(os.environ))  # noqa: S606 - no shell is wanted


def command_of(words: Sequence[str]) -> list[str]:
    """The interpreter of a script, its path, and its words.

    Raises:
        ConfigError: there is no such script.
    """
    path = script(words[0])
    interpreter = {".py": sys.executable, ".sh": "bash"}.get(path.suffix, "sh")
    return [interpreter, str(path), *words[1:]]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for it: this Python builds and translates, unless another one is named."""
    given = {name: value for name, value in environ.items() if value}
    own = dict.fromkeys(("BUILD_PYTHON", "MAPPINGS_PYTHON"), sys.executable)
    return {"LAMBDA_PYTHON": "3.13", "LAMBDA_ARCHITECTURE": "arm64", **own, **given}


if __name__ == "__main__":
    sys.exit(main())
