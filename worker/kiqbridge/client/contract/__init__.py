"""What two applications that share a Redis expect of each other's jobs: exported, compared, turned into typed stubs.

`kiqbridge contract` calls it. It reads declarations and files; it must never run a job, import what a file names, or
ask Redis.
"""
