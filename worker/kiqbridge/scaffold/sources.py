"""Where template, functions and scripts lie: in the wheel, or at the root of a checkout."""

from pathlib import Path
from typing import Final

from kiqbridge.errors import ConfigError

APP: Final = Path(__file__).parent / "app"
"""Files that only an app has, as patterns to be filled in."""
SCRIPTS: Final = ("lambda.sh", "deploy.sh", "foreground.py")
"""Those that an app runs; `deploy.sh` needs others beside it."""
_SHIPPED: Final = Path(__file__).parent / "shipped"
_CHECKOUT: Final = Path(__file__).parents[3]


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
