"""The user's own git, for what a command takes from it."""

import subprocess

_TIMEOUT_S = 30.0


def git(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the user's own git, in English bytes or others.

    Raises:
        OSError, subprocess.TimeoutExpired: there is none, or it does not end.
    """
    return subprocess.run(  # noqa: S603 - fixed arguments, and the name of a file
        ["git", *arguments],  # noqa: S607 - whichever the user has
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
        encoding="utf-8",
        errors="replace",
    )
