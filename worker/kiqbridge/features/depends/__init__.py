"""Parameters that the worker fills, `Depends(provider)`, and what a test puts in their place (docs/how_to/arguments.md).

For jobs that need what does not travel, such as a session of a database. A parameter's default brings it; where no job has
one, nothing of it is loaded. It must never put what a provider returns into a payload.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__)
