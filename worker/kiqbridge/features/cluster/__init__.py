"""Redis behind sentinels, and clusters: addresses that name several nodes (docs/how_to/connections.md).

For those whose Redis fails over, or is a cluster. An address `redis+sentinel://` or `redis+cluster://` asks for it; with
another one nothing of it is loaded. It must never carry a command out twice that may not be repeated.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(
    package=__name__,
    addresses={"sentinel": "pool:connection_pool", "cluster": "pool:connection_pool"},
)
