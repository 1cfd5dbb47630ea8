"""What tests of several modules need from the jobs of a worker process."""

from pathlib import Path

import pytest
from support.notes import Notes


@pytest.fixture
def seen(tmp_path: Path) -> Notes:
    """What the jobs note."""
    return Notes(tmp_path)
