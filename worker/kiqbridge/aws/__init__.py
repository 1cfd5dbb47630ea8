"""The front door on AWS: events become jobs. It uses the client half only, and no boto3.

An event goes: `events` (what is asked for) → `allow_list` (may it be) → `enqueue` (one script).
"""
