"""Distributions that are installed for one test: their features are found by entry points, as those of others."""

import sys
from pathlib import Path

from kiqbridge import seams
from kiqbridge.client.sealing import sealing


def install(folder: Path, name: str, source: str, *, value: str = "") -> Path:
    """Put a module with a feature, and the metadata of its distribution, into a folder of packages."""
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{seams.GROUP}]\n{name} = {value or name + ':FEATURE'}\n"
    )
    return folder


def forget(folder: Path) -> None:
    """As if nothing had been looked for yet, and no module of the folder had been loaded."""
    for each in (seams.installed, seams.claims, seams.judge_of, sealing):
        each.cache_clear()
    for path in folder.glob("*.py"):
        sys.modules.pop(path.stem, None)
