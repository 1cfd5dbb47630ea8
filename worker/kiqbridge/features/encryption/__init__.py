"""Encrypted arguments: unreadable in Redis, plain again for the job alone (docs/how_to/encryption.md).

For those who push what the operators of Redis must not read. `@job(encrypted=…)` chooses the parameters; where no job
has it, nothing of it is loaded. It must never show an argument or a key, in no error and no log.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, options={"encrypted": "declared:encrypting"}, seals="arguments")
