"""`python -m kiqbridge` is `kiqbridge`."""

import sys

from kiqbridge.runtime.collector import collector_rests


def main() -> int:
    """Run one command and return its exit code."""
    with collector_rests():
        from kiqbridge.commands import cli  # noqa: PLC0415 - see above

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
