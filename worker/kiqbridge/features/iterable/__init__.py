"""Jobs that process many items, stop between two of them, and go on later, maybe elsewhere (docs/how_to/iterable.md).

For jobs that take longer than a deployment waits. A class derived from `IterableJob` is one; where no job is, a worker
loads nothing of it. It must never leave an item out, nor process all again because one failed.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(
    package=__name__,
    calls={"cancel": "state:request_cancel"},
    busy="page:shown",
    pages="page:routes",
)
