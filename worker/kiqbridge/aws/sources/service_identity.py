"""The identity of events of services that have no source in the guards of their own."""

import json

from kiqbridge.wire.guards import Identity, Source


def of_service(name: str, *texts: str) -> Identity:
    """That of the service's event which these texts identify together."""
    return Identity(Source.SERVICE, (name, json.dumps(texts, separators=(",", ":"))))
