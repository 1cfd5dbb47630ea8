"""A worker performs a job from an installation that is not the usual one: optimized, zipped, or without bytecode."""

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
import redis as redis_py
from support.processes import ChildProcess

import kiqbridge
from kiqbridge import Client

PACKAGE = Path(kiqbridge.__file__).parent
JOBS = """
import json, os, kiqbridge, redis
from kiqbridge import job

@job
def note():
    import redis.asyncio, redis.cluster
    assert redis.Redis and redis.asyncio.Redis and redis.cluster.RedisCluster
    with open("place.new", "w") as file:
        json.dump([kiqbridge.__file__, redis.__file__, __debug__], file)
    os.rename("place.new", "place")
"""


def optimized(_folder):
    return {"PYTHONOPTIMIZE": "2"}, (str(PACKAGE), str(Path(redis_py.__file__).parent), False)


def zipped(folder):
    """Both packages; what is compiled, such as orjson, cannot be in a zip."""
    path = folder / "packages.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for package in (PACKAGE, Path(redis_py.__file__).parent):
            for each in package.rglob("*"):
                if each.suffix in (".py", ".lua", ".json"):
                    archive.write(each, each.relative_to(package.parent))
    return {"PYTHONPATH": str(path)}, (f"{path}/kiqbridge", f"{path}/redis", True)


def read_only(folder):
    """Nothing of it can be written, and nothing is compiled."""
    copy = folder / "installed" / "kiqbridge"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for each in (copy, *copy.rglob("*")):
        each.chmod(0o555 if each.is_dir() else 0o444)
    env = {"PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    return env, (str(copy), str(Path(redis_py.__file__).parent), True)


@pytest.mark.parametrize("installed", [optimized, zipped, read_only])
def test_a_worker_performs_a_job_from_it(redis_url, tmp_path, installed):
    env, (ours, theirs, is_debug) = installed(tmp_path)
    (tmp_path / "jobs.py").write_text(JOBS)
    client = Client(redis_url)
    client.push({"class": "note", "args": []})
    client.close()
    env |= {"REDIS_URL": redis_url, "KIQBRIDGE_RUN_DIR": str(tmp_path / "run")}

    words = [sys.executable, "-m", "kiqbridge", "worker", "-r", "jobs.py", "-c", "1"]
    with ChildProcess(words, env=env, cwd=tmp_path, is_forked=False) as worker:
        worker.wait_for((tmp_path / "place").exists, 60, "the job")
        assert worker.stop() == 0, worker.output()

    assert json.loads((tmp_path / "place").read_text()) == [
        os.path.join(ours, "__init__.py"),  # noqa: PTH118 - of a zip, too
        os.path.join(theirs, "__init__.py"),  # noqa: PTH118
        is_debug,
    ]
