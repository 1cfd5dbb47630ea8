"""Who follows the README to the letter: every check, and the tiers without a server, on such a copy.

At sample size one file of tests; tests/infra/test_readme_followed.py has the checks that take seconds.
"""

import os
import subprocess
import sys

from support.documents import ROOT
from support.proving import sized
from support.readme_followed import follow

CHECKS = sized(
    full=(
        ("-m", "ruff", "check"),
        ("-m", "mypy"),
        ("-m", "kiqbridge.schedule.check", "template.yaml"),
        ("tests/infra/check_template.py",),
    ),
    sample=(("-m", "kiqbridge.schedule.check", "template.yaml"),),
)
TESTS = sized(
    full=("tests/kernel/unit", "tests/infra"), sample=("tests/kernel/unit/test_template.py",)
)


def test_checks_and_tests_pass_in_a_copy_in_which_the_readme_was_followed(tmp_path, tell):
    folder = follow(tmp_path / "copy")
    for name in (".venv", ".venv-sam"):  # whose commands the tests of the build call
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)

    for words in (*CHECKS, ("-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder / "worker")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"

    tell(f"the README followed: {done.stdout.strip().splitlines()[-1]}")
