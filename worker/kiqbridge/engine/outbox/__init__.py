"""The consequences of ended jobs, such as a lock that is freed, and those of features (the seam `consequences`).

Who ends a job that somebody watches adds its end to `kb:flow:ends` (engine/settle/ending.py). A thread of each
worker takes the ends and applies each once, in one script. It must never decide what becomes of the ended job
itself: that is settled before its end is here.
"""
