"""Events of other AWS services, by one table of their forms, and of Lambda's destinations: jobs by a mapping.

For those whose functions such services invoke. It is loaded by the first event that no other family claims; without it,
that event is one of an unknown form. It must never take for a job what such an event holds, but for what an invoked function
returned.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, events={"destination": "destination", "services": "services"})
