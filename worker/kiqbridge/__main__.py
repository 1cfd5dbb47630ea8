"""`python -m kiqbridge` is `kiqbridge`."""

import sys

from kiqbridge.cli import main

sys.exit(main())
