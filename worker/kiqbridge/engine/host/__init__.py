"""What a worker's machine knows of it and does to it: signals, `ps`, the state of its process.

The commands and the engine call it. It must never talk to Redis.
"""
