"""Log lines: levels, formats, a writer that never keeps a job waiting, the text of tracebacks.

Every package that logs relies on it through `logging`. It must never block the thread that logs.
"""
