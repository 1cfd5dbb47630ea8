"""Commands that the run waits for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from support.processes import ChildProcess


def run(command: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float) -> None:
    """Run it; AssertionError with its output if it fails or takes too long. It never outlives the call."""
    with ChildProcess(command, env=env, cwd=cwd, inherit=False) as child:
        code = child.wait(timeout_s)
        assert code == 0, f"{' '.join(command)}: exit code {code}\n{child.output[-6000:]}"
