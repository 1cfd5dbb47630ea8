"""Who is notified of ticks that did not come: functions of the user, a webhook, a topic of SNS.

A worker calls it with the first such tick, the monitor function each minute in which it finds one. It must never delay
what looks for them, nor log the address of a webhook. Where no tick is missed, it costs nothing.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, missed="hooks:of_worker")
