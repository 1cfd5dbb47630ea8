"""The schedules in Redis: what is to fire, what has fired (the ledger), what was missed, what is placed ahead.

The leader of a fleet, Lambda functions and the command line call it; when something is due is computed by
`schedule`. It must never enqueue an occurrence but by a script that claims it in the ledger.
"""
