"""`python -m kiqbridge` is `kiqbridge`."""

import sys

from kiqbridge.commands.cli import main

sys.exit(main())
