"""What `kiqbridge init` writes: an app in a repository of its own, with jobs, tests, rules and the way to AWS.

`commands/init_command.py` calls it, and the Makefile of such an app runs the scripts that come with the package.
It must never be needed by a worker or a function: the layer for Lambda is built without it. Files of `app/` are for
the app alone; template, functions and nested templates are those of the repository, so that there is one of each.
"""
