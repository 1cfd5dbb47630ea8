"""What the jobs of worker processes note."""

from pathlib import Path

import pytest
from support.notes import Notes


@pytest.fixture
def seen(tmp_path: Path) -> Notes:
    """What the jobs note."""
    return Notes(tmp_path)
