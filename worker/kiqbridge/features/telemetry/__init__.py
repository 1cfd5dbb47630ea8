"""Numbers for systems that plot and alarm: Prometheus, StatsD, OpenTelemetry.

The web page serves those of the fleet, a worker its own; both are described once (`catalogue`), and each form is made of
that. Its libraries, and all of it in a worker, are loaded only where a setting asks for them. It must never run on a
thread that performs jobs, nor end or delay a worker: what cannot be served or sent is logged and tried again.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(
    package=__name__,
    settings=["reports_numbers"],
    prepare="worker:require_extras",
    worker="worker:roles",
    pages="page:routes",
)
