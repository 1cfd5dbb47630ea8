"""Copies into the wheel what `kiqbridge init` takes from the repository; pyproject.toml has the rest.

Template, functions and scripts stay at the root of the repository, where its own users work with them: there is one
of each. An installation from a checkout finds them there; in a wheel they lie in `kiqbridge/dev/scaffold/shipped`. The
layer for Lambda and the image are built without this file, and hold none of it.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SHIPPED = (
    "template.yaml",
    "samconfig.toml",
    "infra/*.yaml",
    "infra/examples/*.yaml",
    "events/*.*",
    "lambdas/*/*.*",
    ".make/lambda.sh",
    ".make/deploy.sh",
    ".make/foreground.py",
    ".make/guided.py",
    ".make/publish.py",
)


class BuildPy(build_py):
    """`build_py`, and the files of `SHIPPED`."""

    def run(self) -> None:
        """Copy them behind the modules, unless the package is installed as it lies here."""
        super().run()
        if self.editable_mode:
            return
        for pattern in SHIPPED:
            for path in sorted(ROOT.glob(pattern)):
                target = Path(
                    self.build_lib, "kiqbridge/dev/scaffold/shipped", path.relative_to(ROOT)
                )
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)


setup(cmdclass={"build_py": BuildPy})
