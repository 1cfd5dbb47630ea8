"""The front door on AWS: events become jobs.

The Lambda functions call it. It must never import the engine or boto3. An event goes: `events` (what
is asked for) → `allow_list` (may it be) → `enqueue` (one script).
"""
