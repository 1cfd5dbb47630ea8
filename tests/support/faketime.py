"""Wall clocks that jump, for one process each: Debian's libfaketime, preloaded.

The other clocks are left alone, as they are when somebody sets a machine's time.
"""

import os
from pathlib import Path

SLEEP_MENDED = '''"""Preloaded beside libfaketime, which answers EINVAL to clock_nanosleep until an
instant of the monotonic clock: that is how Python from 3.11 sleeps."""
import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds) and None
'''


def faketime_library(name: str = "libfaketimeMT.so.1") -> Path | None:
    found = sorted(Path("/usr/lib").glob(f"*/faketime/{name}"))
    return found[0] if found else None


class WallClock:
    """What a process started with `env` takes for the time of day; true until it jumps.

    For Python and other programs with threads; for a server with `library="libfaketime.so.1"`.
    """

    def __init__(self, folder: Path, library: str = "libfaketimeMT.so.1") -> None:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(SLEEP_MENDED, encoding="utf-8")
        self._file = folder / "offset"
        self.jump(0)
        self.env = {
            "LD_PRELOAD": str(faketime_library(library)),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",  # its name in other versions
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "PYTHONPATH": os.pathsep.join(
                [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
        }

    def jump(self, offset_s: int) -> None:
        """From now on the clock shows the true time plus so many seconds."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{offset_s:+d}s\n", encoding="ascii")
        new.replace(self._file)
