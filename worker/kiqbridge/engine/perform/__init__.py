"""One job's way through a worker: fetched, then performed on a thread, on the event loop or in a child.

The engine starts and stops what is here. It must never import, evaluate or unpickle what a payload
names: only registered classes run.
"""
