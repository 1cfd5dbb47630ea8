"""Alerts of the fleet: rules of the doctor that notify when something is wrong, and when it is over.

`kiqbridge worker` starts it where the settings name alerts, `kiqbridge alerts watch` without a worker. It must never delay
a job, nor log the address of a receiver.
"""
