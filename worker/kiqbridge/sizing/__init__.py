"""How large a fleet is to be: from jobs to threads, processes, tasks, Redis and cost; and what failures do to it.

`kiqbridge scale` and the pictures of docs/scaling.md call it; all of it is arithmetic. It must never open a
connection or read a setting.
"""
