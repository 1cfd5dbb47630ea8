"""What the bytes in Redis are: keys, payloads and their JSON, Active Job's form, the order of queues.

The client writes payloads with it; the engine and the Lambda functions read them with it. It is pure:
it must never do I/O, read the environment or ask for the time of day unless it is passed in.
"""
