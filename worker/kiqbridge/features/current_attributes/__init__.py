"""Values that travel with a job, as Rails' CurrentAttributes and I18n do (docs/how_to/middleware.md, protocol §18).

For applications that must know in a job who enqueued it: user, tenant, locale. It is middleware, there once somebody calls
`persist`; nothing else loads it. It must never overwrite what a payload holds already: a retry keeps the original.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__)
