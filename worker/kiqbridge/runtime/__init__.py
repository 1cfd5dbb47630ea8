"""What Python and the operating system offer a worker, made safe.

Threads that go on, errors raised in other threads, event loops, forked children, descriptors, stacks:
every package above uses them. It must never know of jobs, Redis or settings.
"""
