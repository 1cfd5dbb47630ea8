"""Declaring jobs and enqueuing them: what `import kiqbridge` offers, and what jobs call while they run.

Users' code, the Lambda functions and the engine call it. It must never import the engine, so that a
function or a web process that only enqueues loads little.
"""
