"""For applications written with a framework: Django, SQLAlchemy, OpenTelemetry, Sentry, structlog.

Each module imports its framework, so each is loaded only by an application that uses it, and is installed
by an extra of the same name. Nothing in the package calls them. They must never be imported by another
folder, nor change what a job is on the wire: they use what any middleware could use.
"""
