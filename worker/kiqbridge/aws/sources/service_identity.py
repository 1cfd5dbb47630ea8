"""The identity of events of services that have no source in the guards of their own."""

import hashlib
import json
from typing import Final

from kiqbridge.wire.guards import Identity, Source

_LONGEST: Final = 200
"""Characters that stand in log lines as they are; what is longer is content rather than a name."""


def of_service(name: str, *texts: str) -> Identity:
    """That of the service's event which these texts identify together."""
    text = json.dumps(texts, separators=(",", ":"))
    if len(text) > _LONGEST:
        text = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return Identity(Source.SERVICE, (name, text))
