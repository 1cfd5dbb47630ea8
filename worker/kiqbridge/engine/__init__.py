"""The worker process as a whole: start, quiet, stop; the poller, the heartbeat, the watch over threads.

The command line and the supervisor call it. It must never perform a job by itself.
"""
