"""Rules about schedules that can be read but will surprise: each module one kind of surprise.

`kiqbridge schedule lint` calls `lint` of rules.py. It must never refuse a schedule: errors of form belong to
the reader (schedule/template.py, schedule/cron.py).
"""
