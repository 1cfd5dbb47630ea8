"""The front door on AWS: events become jobs.

The Lambda functions call it. It must never import the engine or boto3. An event goes: `sources` (which
service sent it, and which records it holds) → `requests` (the jobs that each asks for: `job_forms`, or a
mapping) → `allow_list` (may they be) → `push` (one script) → the service's answer. `enqueue` puts these
together.
"""
