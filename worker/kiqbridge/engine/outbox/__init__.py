"""The consequences of ended jobs: locks are freed, batches counted, next jobs pushed, outcomes passed on.

Who ends a job that somebody watches adds its end to `kb:flow:ends` (engine/settle/ending.py). A thread of each
worker takes the ends and applies each once, in one script. It must never decide what becomes of the ended job
itself: that is settled before its end is here.
"""
