"""The consequences of ended jobs under flow control: locks are freed, batches counted, next jobs pushed.

Who settles a job with the attribute `flow` adds its end to `kb:flow:ends` (settle/end_report.py). A thread of each
worker takes the ends and applies each once, in one script. It must never decide what becomes of the ended job
itself: that is settled before its end is here.
"""
