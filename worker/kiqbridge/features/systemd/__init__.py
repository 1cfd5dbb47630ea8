"""Notifies systemd of the state of a worker: ready, stopping, a status line, and the watchdog while the process is live.

For workers that are a unit of systemd, which sets NOTIFY_SOCKET; elsewhere nothing is sent. It must never let a child process
notify in place of the worker, nor hold it up.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, host="notifier:take_notifier")
