"""Each feature can be taken away, and all of them at once: what is left is typed, tested, and performs jobs.

Full: each by itself, with all tests of the kernel that ask nothing or a server.
"""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from support.proving import sized

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FEATURES = sorted(path.parent.name for path in ROOT.glob("worker/kiqbridge/features/*/__init__.py"))
SOME = [
    "tests/unit/test_execution.py",
    "tests/unit/test_job.py",
    "tests/redis/test_processor.py",
    "tests/operate/test_parser.py",
]


@pytest.mark.parametrize("name", ["all", *sized(full=FEATURES, sample=["one"])])
def test_the_rest_works_without(name, tell):
    if name == "one":
        name = random.choice(FEATURES)
    words = [sys.executable, ".make/without.py", name]
    words += sized(full=[], sample=["--tests", *SOME])

    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    tell(done.stdout.splitlines()[-1])
