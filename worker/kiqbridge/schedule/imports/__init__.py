"""Schedules of other programs, read as text: crontabs, sidekiq-cron, sidekiq-scheduler.

A file per kind; each line becomes a schedule of ours (record.py) or is refused with its reason. Nothing of
what is read is ever run. `kiqbridge schedule import` calls it.
"""
