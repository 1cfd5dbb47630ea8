"""Worker processes on the jobs of a module, and what the jobs note."""

from pathlib import Path

import pytest
from support.dev_project import dev_project
from support.notes import Notes
from support.workers import started_workers

TESTS = Path(__file__).parents[1]


@pytest.fixture
def seen(tmp_path: Path) -> Notes:
    """What the jobs note."""
    return Notes(tmp_path)


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Where the workers of the module run; its JOBS, if they are a text, lie there as `jobs.py`."""
    folder = tmp_path / "app"
    folder.mkdir()
    if isinstance(request.module.JOBS, str):
        (folder / "jobs.py").write_text(request.module.JOBS)
    return folder


@pytest.fixture
def env(request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables of the workers of the module."""
    return getattr(request.module, "ENV", {})


@pytest.fixture
def start(request, redis_url, folder, tmp_path, env):
    """Starts workers on the JOBS of the module (a text, or a file), with its FLAGS and ENV."""
    jobs = request.module.JOBS
    env = {
        "MARKS": str(tmp_path),
        "KIQBRIDGE_LOG_FORMAT": "plain",
        "KIQBRIDGE_RUN_DIR": str(tmp_path / "run"),
        **env,
    }
    flags = getattr(request.module, "FLAGS", ())
    with started_workers(
        *flags,
        require="jobs.py" if isinstance(jobs, str) else str(jobs),
        redis_url=redis_url,
        cwd=folder,
        env=env,
        python_path=[TESTS],
    ) as start:
        yield start


@pytest.fixture
def project(tmp_path):
    """A folder with a project as it ships, for `kiqbridge dev`."""
    with dev_project(tmp_path) as project:
        yield project
