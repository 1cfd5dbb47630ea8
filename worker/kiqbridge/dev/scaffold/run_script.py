"""`python -m kiqbridge.dev.scaffold.run_script NAME [WORDS…]`: a script that comes with the package.

The Makefile of an app runs these; each says in its first lines what it does and reads:

1. `lambda.sh layer requirements.txt`, `lambda.sh function FOLDER`: what `sam build` calls for a part of the template;
2. `deploy.sh`: `sam deploy`, with the answers of the first time;
3. `foreground.py COMMAND…`: a command that Ctrl-C reaches in place of `make`.

Where they lie, with template and functions: in the wheel, or at the root of a checkout.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from kiqbridge.errors import ConfigError


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the script; returns only if that fails, with 2 for what is not there."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        sys.stderr.write("usage: python -m kiqbridge.dev.scaffold.run_script NAME [WORDS…]\n")
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


APP: Final = Path(__file__).parent / "app"
"""Files that only an app has, as patterns to be filled in."""
SCRIPTS: Final = ("lambda.sh", "deploy.sh", "foreground.py")
"""Those that an app runs; `deploy.sh` needs others beside it."""
_SHIPPED: Final = Path(__file__).parent / "shipped"
_CHECKOUT: Final = Path(__file__).parents[4]


def shipped_root() -> Path:
    """The folder with template.yaml, samconfig.toml, infra, lambdas and .make.

    Raises:
        ConfigError: this installation has none, such as that of a layer or an image.
    """
    for root in (_SHIPPED, _CHECKOUT):
        if (root / "template.yaml").is_file() and (root / "lambdas/enqueue/app.py").is_file():
            return root
    raise ConfigError(
        "this installation of kiqbridge has no template and no functions, as in a layer or an image; "
        "run this where kiqbridge is installed from its wheel or from a checkout"
    )


def script(name: str) -> Path:
    """A script of the build, such as `lambda.sh`.

    Raises:
        ConfigError: there is none of this name.
    """
    if name not in SCRIPTS:
        raise ConfigError(f"{name}: there is no such script; there are {', '.join(SCRIPTS)}")
    return shipped_root() / ".make" / name


if __name__ == "__main__":
    sys.exit(main())
